"""From the words of the command line and the configuration files to one nested dict.

jsonargparse replaces the first file's dict of plug-ins if a second file has a new key, and its flags reach
neither a plug-in inside a plug-in nor a plug-in of another flag. A run's name, its checkpoint and wrong keys must be
known before anything is imported. So this module merges files and flags into a plain tree, by one rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import get_loader

from sentrep.cli.config.recipes import locate, no_recipe
from sentrep.cli.errors import UsageError
from sentrep.config import class_name, walk
from sentrep.errors import InputError, did_you_mean
from sentrep.io.paths import check_plain, expanded

Tree = dict[str, Any]

NODE_KEYS = ("class_path", "init_args", "dict_kwargs")
"""The keys of a plug-in that is written in full: ``{class_path: ..., init_args: {...}}``."""
CALLBACK_SECTIONS = ("checkpoint", "progress", "collapse", "guard", "report")
"""Callbacks that every run has, each with a section of its own."""
SECTIONS = (
    *("model", "data", "trainer", *CALLBACK_SECTIONS),
    *("seed_everything", "ckpt_path", "weights_only", "verbose", "return_predictions"),
)
"""The top-level keys of a configuration."""
TRUST, ALLOW = "--trust-plugins", "--allow-changes"
_CLASS = re.compile(r"(\w+\.)*[A-Z]\w*")
"""A class by its name: the short form of a plug-in, ``simcse: Contrastive``."""


@dataclass
class Request:
    """Files and flags of a command line."""

    tree: Tree = field(default_factory=dict)
    """The files, merged: later ones win."""
    files: list[str] = field(default_factory=list)
    """The configuration files in their order."""
    sources: list[tuple[str, Tree]] = field(default_factory=list)
    """Name and content of each file."""
    flags: dict[str, str] = field(default_factory=dict)
    """``{dotted key: value}`` of each flag, in their order."""
    rest: list[str] = field(default_factory=list)
    """Words for jsonargparse itself: ``--help``, ``--print_config``, ``--trainer.callbacks+=...``."""
    trust_plugins: bool = False
    """Whether a checkpoint may name classes that are not sentrep's."""
    allow_changes: bool = False
    """Whether a run may go on with settings that differ from its checkpoint's."""
    row: str | None = None
    """The row of a paper's table, which lies below all files; None without a table."""

    @property
    def name(self) -> str:
        """The run's name: the name of the first file or table, with its folders below ``configs``, and the row's name.

        ``configs/dclr/bert-base.yaml`` gives ``dclr-bert-base``: methods have recipes of one name.
        """
        if not self.files or self.files[0] == "--config":
            return self.row or "default"
        path = Path(self.files[0]).absolute()
        below = [part for part in path.parent.parts[_after("configs", path.parent.parts) :] if part != "tables"]
        own = [path.stem] if below or self.row is None else []
        return "-".join([*below, *own, *([self.row] if self.row else [])])

    def get(self, key: str) -> Any:
        """The value of a top-level key, from the flags or else the files."""
        return _plain(self.flags[key], key) if key in self.flags else self.tree.get(key)

    def origin(self, key: str) -> str:
        """The file that a top-level key comes from, as the beginning of a message; empty for a flag."""
        return next((f"{name}: " for name, tree in reversed(self.sources) if key in tree), "")

    def texts(self) -> set[str]:
        """Every text that the user wrote as a value: the names of his own classes are among them."""
        found: list[Any] = []
        for _, value in walk([self.tree, with_flags({}, self.flags)]):
            found += value if isinstance(value, list) else [value["class_path"] if is_node(value) else value]
        return {text for text in found if isinstance(text, str)}


def _after(folder: str, parts: Sequence[str]) -> int:
    """The place after the last folder of this name; after all parts if there is no such folder."""
    return max((place + 1 for place, part in enumerate(parts) if part == folder), default=len(parts))


def read_yaml(content: str, name: str) -> Any:
    """The data of a YAML (or JSON) document as jsonargparse reads it: 1e-4 is a number, 2020-01-01 a text.

    Args:
        content: the document.
        name: of the file or flag, for the messages.

    Raises:
        UsageError: a key stands twice in one mapping, where YAML takes the last one in silence.
        yaml.YAMLError: no valid YAML.
    """
    _refuse_repeated(yaml.compose(content, yaml.SafeLoader), name)
    return get_loader("yaml")(content)


def _refuse_repeated(node: yaml.Node | None, name: str) -> None:
    below = list(node.value) if isinstance(node, yaml.SequenceNode) else []
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if str(key.value) in seen:
                line = key.start_mark.line + 1
                raise UsageError(f"{name}, line {line}: the key '{key.value}' stands here a second time; keep one")
            seen.add(str(key.value))
            below.append(value)
    for part in below:
        _refuse_repeated(part, name)


def parse_request(words: list[str]) -> Request:
    """Sort the words behind a command into files and flags, and merge the files.

    Raises:
        UsageError: for a file that is missing or no YAML, a flag without a value, a word that is no flag.
    """
    request = Request()
    lists: list[str] = []
    for key, value in split_words(words):
        key = "data.sts_folder" if key == "sts_folder" else key
        if key is not None and key.endswith("+"):
            lists.append(key[:-1] + ".")  # later keys below this one belong to the new element
        if key is None or key == "print_config" or key.endswith((".help", "+")) or key.startswith(tuple(lists)):
            request.rest += [value] if key is None else [f"--{key}={value}" if value is not None else f"--{key}"]
        elif key in ("trust_plugins", "allow_changes") and value in (None, "true", "True"):
            setattr(request, key, True)
        elif value is None:
            raise UsageError(f"--{key} needs a value")
        elif key == "config":
            name, content = read_config(value)
            if "rows" in content:
                raise UsageError(f"{name} is a table, not a recipe; give it by --table, and --row NAME")
            request.files.append(name)
            request.sources.append((name, content))
            request.tree = merge(request.tree, content)
        else:
            request.flags[key] = value
    return request


def check_sections(request: Request) -> None:
    """Refuse a section that no run has.

    Raises:
        UsageError: names the file and the section that was probably meant.
    """
    for key in map(str, with_flags(request.tree, request.flags)):
        if key not in SECTIONS:
            raise UsageError(f"{request.origin(key)}unknown key '{key}'{did_you_mean(key, SECTIONS)}")


def with_flags(tree: Tree, flags: dict[str, str]) -> Tree:
    """The tree with flags, which override every file at any position on the line."""
    for key, value in flags.items():
        tree = assigned(tree, key, _plain(value, key))
    return tree


def assigned(tree: Tree, key: str, value: Any) -> Tree:
    """The tree with a value at a dotted key, in which ``init_args`` may be omitted.

    Examples:
        >>> assigned({"objectives": {"simcse": "Contrastive"}}, "objectives.simcse.temperature", 0.1)
        {'objectives': {'simcse': {'class_path': 'Contrastive', 'init_args': {'temperature': 0.1}}}}
    """
    for step in reversed(key.split(".")):
        value = {step: value}
    merged: Tree = merge(tree, value)
    return merged


def read_config(text: str) -> tuple[str, Tree]:
    """Read a YAML or JSON file, a shipped recipe if no such file exists, or the content itself in braces.

    Returns:
        The path of the file, which is its name in messages, and the data.

    Raises:
        UsageError: there is no such file or recipe, or it is no configuration.
    """
    if text.lstrip().startswith("{"):
        name, content = "--config", text
    else:
        name = locate(text)
        try:
            check_plain(expanded(name))
            content = expanded(name).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise UsageError(f"{name}: no UTF-8 text (byte {error.start})") from None
        except InputError as error:
            raise UsageError(f"{error}{no_recipe(text)}") from None
    try:
        tree = read_yaml(content, name)
    except yaml.YAMLError as error:
        raise UsageError(f"{name}: no valid YAML: {error}") from None
    if not isinstance(tree, dict):
        found = "nothing" if tree is None else type(tree).__name__
        raise UsageError(f"{name}: expected keys such as 'model:' and 'data:', found {found}")
    return name, {key: value for key, value in tree.items() if key != "about"}  # which is of the file, see `recipes`


def merge(base: Any, new: Any) -> Any:
    """``new`` over ``base``: dicts key by key, everything else replaces. Another class drops the old one's arguments.

    Examples:
        >>> merge({"a": {"x": 1, "y": 2}}, {"a": {"y": 3}})
        {'a': {'x': 1, 'y': 3}}
        >>> merge({"class_path": "A", "init_args": {"x": 1}}, {"class_path": "B"})
        {'class_path': 'B'}
    """
    if isinstance(new, str) and is_node(base):
        return base if _is_same_class(new, base["class_path"]) else new
    if isinstance(base, str) and _CLASS.fullmatch(base) and isinstance(new, dict) and not is_node(new):
        base = {"class_path": base}
    if not isinstance(base, dict) or not isinstance(new, dict):
        return new
    if is_node(new):
        if is_node(base) and not _is_same_class(new["class_path"], base["class_path"]):
            return new
        base = base if is_node(base) else {"init_args": base.get("init_args", base)}
    elif not base.keys().isdisjoint(NODE_KEYS) and new.keys().isdisjoint(NODE_KEYS):
        new = {"init_args": new}
    merged = dict(base)
    for key, value in new.items():
        merged[key] = merge(base[key], value) if key in base else value
    return merged


def is_node(value: Any) -> bool:
    """Whether this is a plug-in in its long form."""
    return isinstance(value, dict) and "class_path" in value


def split_words(words: list[str]) -> Iterator[tuple[str | None, Any]]:
    """``--key value`` and ``--key=value`` as pairs; other words as ``(None, word)``."""
    waiting = words[::-1]
    while waiting:
        word = waiting.pop()
        word = {"-c": "--config", TRUST: "--trust_plugins", ALLOW: "--allow_changes"}.get(word, word)
        if word in ("-h", "--help"):
            yield None, word
        elif word.startswith("-c") and not word.startswith("--"):
            yield "config", word[2:].lstrip("=")
        elif not word.startswith("--"):
            raise UsageError(f"unexpected word '{word}'; options are written --key value or --key=value")
        elif "=" in word:
            key, value = word[2:].split("=", 1)
            yield key, value
        elif waiting and not waiting[-1].startswith("--"):
            yield word[2:], waiting.pop()
        else:
            yield word[2:], None


def _plain(value: str, key: str = "") -> Any:
    """Null and ``{...}`` as data; everything else stays text, which jsonargparse reads as the type that it needs."""
    if value.strip() in ("null", "None", "~"):
        return None
    if value.lstrip().startswith("{"):
        with suppress(yaml.YAMLError):  # a prompt such as "{sentence} means [MASK]."
            return read_yaml(value, f"--{key}")
    return value


def _is_same_class(one: Any, other: Any) -> bool:
    """Whether two names mean one class; the user's own modules are imported for this if the names end alike."""
    paths = [str(one), str(other)]
    if paths[0] != paths[1] and len({path.rpartition(".")[2] for path in paths}) == 1:
        for path in paths:
            if class_name(path) == path:
                with suppress(Exception):  # whatever the module raises: jsonargparse reports it
                    import_module(path.rpartition(".")[0])
    return class_name(paths[0]) == class_name(paths[1])
