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
    """The data of one YAML (or JSON) document.

    Args:
        content: the text.
        name: of the file or flag, for the messages.

    Raises:
        UsageError: names the line: no YAML, a key twice, a key that is no text, an alias within what it stands for, a
            tag for anything but plain data, more levels or values than any configuration has.
    """
    try:
        check_yaml(content, name)
        return yaml.load(content, _SafeLoader)
    except UsageError:
        raise
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else "?"
        raise UsageError(f"{name}, line {line}: no valid YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise UsageError(f"{name}: no valid YAML: {error}") from None
    except ValueError as error:  # of numbers with thousands of digits
        raise UsageError(f"{name}: no valid YAML: {str(error).split(';')[0]}") from None


def check_yaml(content: str, name: str) -> None:
    """Refuse YAML that says something else than it seems to, or that would not end.

    Raises:
        UsageError: as `read_yaml`.
        yaml.YAMLError: it is no YAML.
    """
    depth = 0
    for event in yaml.parse(content, _SafeLoader):
        if isinstance(event, (yaml.SequenceStartEvent, yaml.MappingStartEvent)):
            depth += 1
            if depth > DEEPEST:
                line = event.start_mark.line + 1 if event.start_mark else "?"
                raise UsageError(f"{name}, line {line}: nested more than {DEEPEST} levels deep; is it a configuration?")
        elif isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            depth -= 1
    if root := yaml.compose(content, _SafeLoader):
        _Walk(name).check(root)


class _Walk:
    """Through all nodes, those behind aliases every time they are named."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._seen = 0
        self._open: list[yaml.Node] = []

    def check(self, node: yaml.Node) -> None:
        """Refuse what `check_yaml` refuses, in this node and below."""
        self._seen += 1
        if self._seen > MOST:
            raise self._error(node, f"more than {MOST} values; do aliases multiply them?")
        if any(node is outer for outer in self._open):
            raise self._error(node, "an alias stands within what it repeats, without end; write the values out")
        if node.tag not in _TAGS:
            tag = node.tag.replace("tag:yaml.org,2002:", "!!")
            raise self._error(node, f"no valid YAML here: the tag {tag} is not read; write plain data")
        self._open.append(node)
        for below in self._below(node):
            self.check(below)
        self._open.pop()

    def _below(self, node: yaml.Node) -> Iterator[yaml.Node]:
        if isinstance(node, yaml.SequenceNode):
            yield from node.value
        elif isinstance(node, yaml.MappingNode):
            keys: set[str] = set()
            for key, value in node.value:
                if not isinstance(key, yaml.ScalarNode) or key.tag not in _KEYS:
                    shown = key.value if isinstance(key, yaml.ScalarNode) else f"a {key.id}"
                    raise self._error(key, f"the key {shown or 'null'} is no text; put it in quotation marks")
                if key.value in keys:
                    raise self._error(key, f"the key '{key.value}' stands here a second time; keep one of the two")
                keys.add(key.value)
                yield value

    def _error(self, node: yaml.Node, what: str) -> UsageError:
        return UsageError(f"{self._name}, line {node.start_mark.line + 1}: {what}")


_TAGS = frozenset(f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq"))
_KEYS = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge", "tag:yaml.org,2002:value")
"""``<<`` and ``=`` beside text."""
