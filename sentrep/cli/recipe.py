"""From recipes and flags to one tree: ruamel.yaml reads them as YAML 1.2, OmegaConf merges them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from omegaconf import OmegaConf
from ruamel.yaml import YAML
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.error import YAMLError

from sentrep.cli.errors import UsageError
from sentrep.cli.recipes import locate, no_recipe
from sentrep.config import class_name
from sentrep.io.paths import expanded

Tree = dict[str, Any]
Flags = Sequence[tuple[str, str]]
"""``(dotted key, text)`` of each flag, in their order."""


def read(name: str) -> Tree:
    """The tree of `read_file`."""
    return read_file(name)[1]


def read_file(name: str) -> tuple[str, Tree]:
    """The path and the tree of a file, or of a shipped recipe if no such file exists.

    Raises:
        UsageError: there is no such file or recipe, or it is no configuration.
    """
    place = locate(name)
    try:
        tree = _yaml(expanded(place).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{place}: {error.strerror}{no_recipe(name)}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{place}: no UTF-8 text (byte {error.start})") from None
    except YAMLError as error:
        mark, what = getattr(error, "problem_mark", None), getattr(error, "problem", None) or str(error)
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise UsageError(f"{place}{line}: no valid YAML: {what}") from None
    if not isinstance(tree, dict):
        raise UsageError(f"{place}: expected keys such as 'model:' and 'data:', found {type(tree).__name__}")
    return place, {key: value for key, value in tree.items() if key != "about"}  # which is of the file, see `recipes`


def with_flags(tree: Tree, flags: Flags) -> Tree:
    """The tree with flags over it.

    A key leads through plug-ins without ``init_args``. A value is YAML 1.2 (``null`` removes a plug-in), or else the
    text itself.

    Examples:
        >>> with_flags({"objectives": {"simcse": "Contrastive"}}, [("objectives.simcse.temperature", "0.1")])
        {'objectives': {'simcse': {'class_path': 'Contrastive', 'init_args': {'temperature': 0.1}}}}
    """
    return merged([tree, *(nested(key, value_of(text)) for key, text in flags)])


def nested(key: str, value: Any) -> Tree:
    """The tree that has only a value at a dotted key.

    Examples:
        >>> nested("a.b", 1)
        {'a': {'b': 1}}
    """
    first, _, rest = key.partition(".")
    return {first: nested(rest, value) if rest else value}


def value_of(text: str) -> Any:
    """The value of a flag: a number, a truth value, null, a list or a dict as in YAML 1.2; otherwise the text.

    Examples:
        >>> [value_of(text) for text in ("1e-4", "[a, b]", "1:30", "no", "{sentence} means [MASK].")]
        [0.0001, ['a', 'b'], '1:30', 'no', '{sentence} means [MASK].']
    """
    try:
        found = _yaml(text)
    except YAMLError:
        return text
    is_plain = isinstance(found, (bool, int, float)) or text.strip() in ("null", "~")
    return found if is_plain or text.lstrip().startswith(("{", "[", '"', "'")) else text


def merged(trees: Iterable[Tree]) -> Tree:
    """Later trees over earlier ones; another class drops the arguments of the class that it replaces.

    Examples:
        >>> merged([{"a": {"x": 1, "y": 2}}, {"a": {"y": 3}}])
        {'a': {'x': 1, 'y': 3}}
        >>> merged([{"head": {"class_path": "A", "init_args": {"x": 1}}}, {"head": "B"}])
        {'head': {'class_path': 'B'}}
    """
    whole: Any = {}
    for tree in trees:
        layer = _flat(tree)
        _make_room(whole, layer)
        whole = OmegaConf.to_container(OmegaConf.merge(whole, layer))
    return _with_init_args(whole)


def resolved(tree: Tree) -> Tree:
    """The tree with the values that ``${key}`` stands for.

    Examples:
        >>> resolved({"batch_size": 8, "size": "${batch_size}"})
        {'batch_size': 8, 'size': 8}
    """
    found: Any = OmegaConf.to_container(OmegaConf.create(tree), resolve=True)
    return found


_CLASS = re.compile(r"(\w+\.)*[A-Z]\w*")
"""A class by its name: the short form of a plug-in, ``simcse: Contrastive``."""


class _Constructor(SafeConstructor):
    """Reads a date as the text that it is."""


_Constructor.add_constructor("tag:yaml.org,2002:timestamp", SafeConstructor.construct_yaml_str)


def _yaml(content: str) -> Any:
    reader = YAML(typ="safe", pure=True)  # one for each text: it keeps state
    reader.Constructor = _Constructor
    return reader.load(content)


def _make_room(tree: Any, layer: Any) -> None:
    """Turn class names into dicts where the other tree has a dict; remove arguments of a class that is replaced."""
    for key, new in layer.items():
        old = tree.get(key)
        if isinstance(old, str) and isinstance(new, dict) and _CLASS.fullmatch(old):
            old = tree[key] = {"class_path": old}
        if isinstance(new, str) and isinstance(old, dict) and "class_path" in old:
            new = layer[key] = {"class_path": new}
        if isinstance(old, list) != isinstance(new, list) or _is_other_class(old, new):
            tree[key] = None
        elif isinstance(old, dict) and isinstance(new, dict):
            _make_room(old, new)


def _is_other_class(old: Any, new: Any) -> bool:
    paths = {str(value["class_path"]) for value in (old, new) if isinstance(value, dict) and "class_path" in value}
    return len(paths) > 1 and len(set(map(class_name, paths))) > 1


_NODE = ("class_path", "dict_kwargs")
"""Keys of a plug-in beside its arguments."""


def _flat(value: Any) -> Any:
    """A copy in which the arguments of a plug-in are beside its ``class_path``, as flags name them."""
    if isinstance(value, list):
        return [_flat(item) for item in value]
    if not isinstance(value, dict):
        return value
    value = {key: _flat(below) for key, below in value.items()}
    if not isinstance(arguments := value.get("init_args") or {}, dict):  # which jsonargparse refuses
        return value
    value.pop("init_args", None)
    return {**value, **arguments}


def _with_init_args(value: Any) -> Any:
    """The copy back in jsonargparse's form: the arguments of a plug-in below ``init_args``."""
    if isinstance(value, list):
        return [_with_init_args(item) for item in value]
    if not isinstance(value, dict):
        return value
    value = {key: _with_init_args(below) for key, below in value.items()}
    if "class_path" not in value:
        return value
    node = {key: value.pop(key) for key in _NODE if key in value}
    return {**node, **({"init_args": value} if value else {})}
