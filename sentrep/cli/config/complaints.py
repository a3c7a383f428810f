"""jsonargparse's account of a wrong configuration as one sentence: its innermost complaint, with a suggestion."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pydoc import locate
from typing import Any

from jsonargparse import ArgumentParser, Namespace

from sentrep.cli.errors import UsageError
from sentrep.config import walk
from sentrep.errors import did_you_mean

_FRAME = re.compile(
    r"Parser key|Does not validate|Subtypes:|Errors:|Given value|Problem with given class_path|Expected a path but|"
    r"Subclass types expect|a class path|a dict with"
)
"""Lines of the account that frame a complaint."""
_KEY = r'Parser key "([^"]+)"'
_GIVEN, _GOT = "Given value: ", ". Got value: "
"""How an account names the value: of a whole union, and behind a complaint."""
_PLUGIN = re.compile(r"Namespace\(class_path='(?P<path>[^']+)'")
_CALLABLE = re.compile(r"Type \S.* expects a function or a callable class: ")
_OPTION = re.compile(r"(?:Group '(?P<section>[^']+)' does not accept o|does not accept o|O)ption '(?P<key>[^']+)'")
_NAME = re.compile(r"Expected a dot import path string: (?P<name>.*)")
_TYPE = re.compile(r"Expected an? (?!instantiatable|dot import)(?P<type>.+)")


@contextmanager
def summarized(parser: ArgumentParser, tree: Mapping[str, Any], command: str = "") -> Iterator[None]:
    """Shorten a refusal of the parser, or of a subcommand's parser, to one sentence (`summarize`)."""
    try:
        yield
    except argparse.ArgumentError as error:
        known = parser.get_defaults(skip_validation=True).keys()
        message = re.sub(rf"(?<=['\"]){command}\.", "", str(error)) if command else str(error)
        raise UsageError(summarize(message, tree, known)) from None


def refuse_dropped(tree: Any, config: Any, path: str = "") -> None:
    """Refuse an unknown key whose value is ``{}``: jsonargparse drops it in silence.

    Args:
        tree: the configuration before parsing.
        config: the configuration after parsing.
        path: the key of both.

    Raises:
        UsageError: names the key, and the one that was probably meant.
    """
    if not isinstance(tree, dict) or not isinstance(config, (dict, Namespace)):
        return
    if "class_path" in config and "class_path" not in tree:
        tree, config = tree.get("init_args", tree), config.get("init_args")
    for key, value in tree.items():
        place = path if key in ("class_path", "init_args", "dict_kwargs") else f"{path}.{key}" if path else str(key)
        if value == {} and key not in config:
            raise UsageError(f"{place}: there is no such key{did_you_mean(str(key), map(str, config.keys()))}")
        refuse_dropped(value, config.get(key), place)


def summarize(message: str, tree: Mapping[str, Any], known: Iterable[str] = ()) -> str:
    """One sentence with the mistake, its place and a suggestion.

    Args:
        message: the account.
        tree: the configuration, which has the whole path of the offending key or value.
        known: dotted keys of all sections.

    Examples:
        >>> text = 'Parser key "data":\\n  Parser key "size":\\n    Expected a <class \\'int\\'>. Got value: x'
        >>> summarize(text, {"data": {"other": {"size": "x"}}})
        "data.other.size: expected int, got 'x'"
    """
    complaint = Complaint.innermost(message)
    if complaint is None:
        return message
    if option := _OPTION.search(complaint.text):
        key = option["key"]
        if option["section"] or not complaint.classes:
            key = f"{option['section']}.{key}" if option["section"] else key
            return f"unknown key '{key}'{did_you_mean(key, known)}"
        path = complaint.path(tree, key).removesuffix(f".{key}")
        kind = complaint.classes[-1]
        return f"{path}: {_short(kind)} has no argument '{key}'{did_you_mean(key, _arguments(kind))}"
    path = complaint.path(tree)
    if name := _NAME.search(complaint.text):
        kinds = " or ".join(map(_short, complaint.bases)) or "class"
        return f"{path}: no {kinds} is called '{name['name']}'{did_you_mean(name['name'], _names(complaint.bases))}"
    what = complaint.text
    if _TYPE.fullmatch(what):
        types = [_types(found["type"]) for text in complaint.siblings if (found := _TYPE.fullmatch(text))]
        what = f"expected {' or '.join(types)}"
    return (f"{path}: " if path else "") + what + (f", got '{complaint.value}'" if complaint.value else "")


@dataclass(frozen=True)
class Complaint:
    """The deepest complaint of an account: the complaint of the alternative that got furthest."""

    text: str
    siblings: list[str]
    """The complaints of all alternatives of its union."""
    value: str
    """The given value."""
    keys: list[str]
    """Those around it, the outermost first."""
    classes: list[str]
    """Import paths of the classes around it, the outermost first."""
    bases: list[str]
    """Import paths of the allowed classes."""

    @classmethod
    def innermost(cls, message: str) -> Complaint | None:
        """The first of the deepest lines; None where the account is of another form."""
        lines = [line for line in _CALLABLE.sub("", message).splitlines() if line.strip(" -")]
        depths = [len(line) - len(line.lstrip(" -")) for line in lines]
        texts = [line.strip(" -") for line in lines]
        leaves = [number for number, text in enumerate(texts) if not _FRAME.match(text)]
        if not leaves:
            return None
        place = max(leaves, key=depths.__getitem__)
        around: list[str] = []
        depth = depths[place]
        for number in reversed(range(place)):
            if depths[number] < depth:
                around.insert(0, texts[number])
                depth = depths[number]
        text, _, value = texts[place].partition(_GOT)
        siblings = [texts[number].split(_GOT)[0] for number in leaves if depths[number] == depths[place]]
        values = [later[len(_GIVEN) :].split(_GOT)[0] for later in texts[place:] if later.startswith(_GIVEN)]
        value = value or next(iter(values), "")
        plugin = _PLUGIN.match(value)
        unions = [earlier for earlier in texts[:place] if earlier.startswith("Subtypes: ")]
        return cls(
            text,
            siblings,
            plugin["path"] if plugin else value,
            re.findall(_KEY, "\n".join(around)) or re.findall(_KEY, message)[:1],
            re.findall(r"class_path[= ]'([\w.]+)'", "\n".join([value, *around])),
            _plugins(re.findall(r"\w+(?:\.\w+)+", "".join(unions[-1:]))),
        )

    def path(self, tree: Mapping[str, Any], key: str = "") -> str:
        """Dotted path of the offending value, or of a key, as on the command line."""
        first, last = (self.keys[0], self.keys[-1].rpartition(".")[2]) if self.keys else ("", "")
        here = [
            path
            for path, value in walk(tree)
            if path.startswith(first) and (path.endswith(f".{key}") if key else _is_written(value, self.value))
        ]
        under_key = [path for path in here if path.endswith(f".{last}")]
        return [*under_key, *here, ".".join([*self.keys, key] if key else self.keys)][0]


def _is_written(value: Any, text: str) -> bool:
    """Whether an account may write a value of the configuration so: a plug-in by its class alone."""
    name = str(value.get("class_path")) if isinstance(value, Mapping) else str(value)
    return text in (str(value), name) or (isinstance(value, Mapping) and _short(text) == _short(name))


def _plugins(paths: list[str]) -> list[str]:
    """Those that lead to classes which may have subclasses by name, once each."""
    found = [path for path in dict.fromkeys(paths) if not path.startswith(("collections.", "typing."))]
    return [path for path in found if isinstance(locate(path), type)]


def _short(kind: str) -> str:
    return kind.rpartition(".")[2]


def _arguments(kind: str) -> Iterable[str]:
    target: Any = locate(kind)
    try:
        return inspect.signature(target).parameters
    except ValueError:  # written in C
        return ()


def _names(bases: Iterable[str]) -> list[str]:
    """The names of the classes that are imported below some others."""
    kinds: list[Any] = [locate(path) for path in bases]
    for kind in kinds:  # which grows
        kinds += kind.__subclasses__()
    return [kind.__name__ for kind in kinds if not inspect.isabstract(kind)]


def _types(text: str) -> str:
    text = re.sub(r"<class '(?:\w+\.)*(\w+)'>", r"\1", text)
    return re.sub(r"\b(?:[a-zA-Z_]\w*\.)+(\w+)", r"\1", text).replace("NoneType", "null")
