"""YAML and JSON of a configuration, as plain data: what PyYAML takes in silence, or chokes on, is one sentence here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from sentrep.cli.errors import UsageError

DEEPEST = 100
"""Levels of nesting; PyYAML's own recursion ends the process at some thousands."""
MOST = 100_000
"""Values, those that aliases repeat included."""


class _SafeLoader(yaml.SafeLoader):
    """YAML 1.2 as far as people expect it: 1e-4 is a number, 2020-01-01 a text."""


_SafeLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_SafeLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)[eE][-+]?\d+$"), list("-+0123456789.")
)


class _SafeDumper(yaml.SafeDumper):
    """Quotes the texts that `_SafeLoader` would take for something else."""


_SafeDumper.yaml_implicit_resolvers = _SafeLoader.yaml_implicit_resolvers


def write_yaml(tree: Any) -> str:
    """Plain data as a document that `read_yaml` reads as the same data."""
    return yaml.dump(tree, Dumper=_SafeDumper, sort_keys=False, allow_unicode=True)


def read_yaml(content: str, name: str) -> Any:
    """The data of one YAML (or JSON) document; ``name`` is of the file or flag, for the messages.

    Raises:
        UsageError: as `check_yaml`, and for what is no YAML.
    """
    try:
        check_yaml(content, name)
        return yaml.load(content, _SafeLoader)
    except UsageError:
        raise
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else "?"
        raise UsageError(f"{name}, line {line}: no valid YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError) as error:  # ValueError: of numbers with thousands of digits
        raise UsageError(f"{name}: no valid YAML: {str(error).split(';')[0]}") from None


def check_yaml(content: str, name: str) -> None:
    """Refuse YAML that says something else than it seems to, or that would not end.

    Raises:
        UsageError: names the line: a key twice, a key that is no text, an alias within what it stands for, a tag for
            anything but plain data, more levels or values than any configuration has.
        yaml.YAMLError: it is no YAML.
    """
    depth = 0
    for event in yaml.parse(content, _SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise _error(event, name, f"nested more than {DEEPEST} levels deep; is it a configuration?")
    if root := yaml.compose(content, _SafeLoader):
        _check(root, name, iter(range(MOST)))


def _check(node: yaml.Node, name: str, left: Iterator[int], outer: tuple[yaml.Node, ...] = ()) -> None:
    """Check a node and all below it, those behind aliases every time they are named."""
    if next(left, None) is None:
        raise _error(node, name, f"more than {MOST} values; do aliases multiply them?")
    if any(node is one for one in outer):
        raise _error(node, name, "an alias stands within what it repeats, without end; write the values out")
    if node.tag not in _TAGS:
        tag = node.tag.replace("tag:yaml.org,2002:", "!!")
        raise _error(node, name, f"no valid YAML here: the tag {tag} is not read; write plain data")
    keys: set[str] = set()
    for below in node.value if isinstance(node, yaml.CollectionNode) else ():
        if isinstance(node, yaml.MappingNode):
            key, below = below
            if not isinstance(key, yaml.ScalarNode) or key.tag not in _KEYS:
                shown = key.value if isinstance(key, yaml.ScalarNode) else f"a {key.id}"
                raise _error(key, name, f"the key {shown or 'null'} is no text; put it in quotation marks")
            if key.value in keys:
                raise _error(key, name, f"the key '{key.value}' stands here a second time; keep one of the two")
            keys.add(key.value)
        _check(below, name, left, (*outer, node))


def _error(place: Any, name: str, what: str) -> UsageError:
    return UsageError(f"{name}, line {place.start_mark.line + 1}: {what}")


_TAGS = frozenset(f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq"))
_KEYS = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge", "tag:yaml.org,2002:value")
"""``<<`` and ``=`` beside text."""
