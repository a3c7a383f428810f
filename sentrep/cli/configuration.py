"""From the words of the command line and the configuration files to one nested dict.

jsonargparse replaces a dict of plug-ins as a whole when a second file names it, and reaches no plug-in inside a plug-in
of such a dict. So files and flags are merged here, into a plain tree, before jsonargparse checks types and builds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import get_loader

from sentrep.cli.errors import UsageError
from sentrep.cli.recipes import locate, no_recipe
from sentrep.cli.yaml_text import check_yaml, read_yaml
from sentrep.io.paths import expanded

Tree = dict[str, Any]

NODE_KEYS = ("class_path", "init_args", "dict_kwargs")
"""The keys of a plug-in that is written in full: ``{class_path: ..., init_args: {...}}``."""


@dataclass
class Request:
    """What the user asked for."""

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
    row: str | None = None
    """The row of the table below all files, where there is one."""

    @property
    def name(self) -> str:
        """The run's name: that of the first file, or of the table, with its folders below ``configs``, and the row's.

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

    def texts(self) -> set[str]:
        """Every text that the user wrote as a value: the names of his own classes are among them."""
        return {text for tree in (self.tree, *map(_plain, self.flags.values(), self.flags)) for text in _texts(tree)}


def _after(folder: str, parts: Sequence[str]) -> int:
    """The place behind the last folder of this name; behind all parts where there is none."""
    return max((place + 1 for place, part in enumerate(parts) if part == folder), default=len(parts))


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
            lists.append(key[:-1] + ".")  # what follows below this key is meant for the element just added
        if key is None or key == "print_config" or key.endswith((".help", "+")) or key.startswith(tuple(lists)):
            request.rest += [value] if key is None else [f"--{key}={value}" if value is not None else f"--{key}"]
        elif key == "trust_plugins" and value in (None, "true", "True"):
            request.trust_plugins = True
        elif value is None:
            raise UsageError(f"--{key} needs a value")
        elif key in ("table", "row") and key in request.flags:
            raise UsageError(f"--{key} stands here twice; a run is one row of one table")
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


def apply_flags(tree: Tree, flags: dict[str, str]) -> None:
    """Write the flags into the tree; they win over every file, wherever they stand on the line."""
    for key, value in flags.items():
        assign(tree, key.split("."), _plain(value, key), f"--{key}")


def read_config(text: str) -> tuple[str, Tree]:
    """A YAML or JSON file, a shipped recipe's name where there is no such file, or the content itself in braces.

    Returns:
        The path of the file, which is its name in messages, and the data.

    Raises:
        UsageError: there is no such file or recipe, or it is no configuration.
    """
    if text.lstrip().startswith("{"):
        name, content = "--config", text
    else:
        name = locate(text)
        path = expanded(name)
        if not path.is_file():
            what = "is a folder, not a file" if path.is_dir() else "is no file" if path.exists() else "does not exist"
            raise UsageError(f"configuration file {text} {what}{no_recipe(text)}")
        try:
            content = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise UsageError(f"configuration file {text} is not UTF-8 text (byte {error.start})") from None
    tree = read_yaml(content, name)
    if tree is None or (isinstance(tree, str) and not tree.strip()):
        raise UsageError(f"configuration file {name} is empty")
    if not isinstance(tree, dict):
        raise UsageError(f"{name}: expected keys such as 'model:' and 'data:', found {type(tree).__name__}")
    return name, tree


def merge(base: Any, new: Any) -> Any:
    """``new`` over ``base``: dicts key by key, everything else replaces. Another class drops the old one's arguments.

    Examples:
        >>> merge({"a": {"x": 1, "y": 2}}, {"a": {"y": 3}})
        {'a': {'x': 1, 'y': 3}}
        >>> merge({"class_path": "A", "init_args": {"x": 1}}, {"class_path": "B"})
        {'class_path': 'B'}
    """
    if isinstance(new, str) and is_node(base):
        return base if _class_name(new) == _class_name(base["class_path"]) else new
    if isinstance(base, str) and isinstance(new, dict) and "init_args" in new and "class_path" not in new:
        return {"class_path": base, **new}
    if not isinstance(base, dict) or not isinstance(new, dict):
        return new
    if is_node(new):
        if is_node(base) and _class_name(base["class_path"]) != _class_name(new["class_path"]):
            return new
        base = base if is_node(base) else {"init_args": base.get("init_args", base)}
    elif is_node(base) and not any(key in NODE_KEYS for key in new):
        new = {"init_args": new}
    merged = dict(base)
    for key, value in new.items():
        merged[key] = merge(base[key], value) if key in base else value
    return merged


def assign(tree: Tree, path: list[str], value: Any, flag: str) -> None:
    """Set ``tree[path[0]][path[1]]...``, going through ``init_args`` where a plug-in stands in the way."""
    for position, step in enumerate(path):
        if step not in NODE_KEYS and (is_node(tree) or "init_args" in tree):
            tree = tree.setdefault("init_args", {})
        if not isinstance(tree, dict):
            raise UsageError(f"{flag}: init_args is {tree!r}; expected the arguments by name")
        if position == len(path) - 1:
            tree[step] = merge(tree.get(step), value)
            return
        below = tree.get(step)
        if isinstance(below, str):  # the short form, `simcse: Contrastive`
            below = {"class_path": below}
        elif below is None:
            below = {}
        elif not isinstance(below, dict):
            raise UsageError(f"{flag}: {'.'.join(path[: position + 1])} is {below!r} and has no '{path[position + 1]}'")
        tree[step] = below
        tree = below


def is_node(value: Any) -> bool:
    """Whether this is a plug-in in its long form."""
    return isinstance(value, dict) and "class_path" in value


def split_words(words: list[str]) -> Iterator[tuple[str | None, Any]]:
    """``--key value`` and ``--key=value`` as pairs; other words as ``(None, word)``."""
    waiting = words[::-1]
    while waiting:
        word = waiting.pop()
        word = {"-c": "--config", "--trust-plugins": "--trust_plugins"}.get(word, word)
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
        try:
            check_yaml(value, f"--{key}")
            return get_loader("yaml")(value)
        except yaml.YAMLError:
            return value  # a prompt such as "{sentence} means [MASK]."
    return value


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for element in value.values() if isinstance(value, dict) else value:
            yield from _texts(element)


def _class_name(class_path: Any) -> str:
    return str(class_path).rsplit(".", 1)[-1]
