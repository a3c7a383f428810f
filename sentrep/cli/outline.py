"""A module's outline: a command's arguments and their help in milliseconds, where what it imports takes seconds."""

from __future__ import annotations
import __future__

import ast
import builtins
import functools
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import docstring_parser

_ROOT = Path(__file__).resolve().parents[2]


class Outline(dict[str, Any]):
    """The names of a module, each defined when it is first asked for: what nobody asks for is never imported.

    Enough for a signature, the defaults and dataclasses in it, and their documentation. The classes are not those of
    the module itself.

    Args:
        module: its dotted name.
    """

    def __init__(self, module: str) -> None:
        path = _source(module)
        self._statements: dict[str, ast.stmt] = {}
        body = ast.parse(path.read_text(encoding="utf-8")).body
        for statement in [*body, *(part for block in body if isinstance(block, ast.If) for part in block.body)]:
            self._statements |= dict.fromkeys(_names(statement), statement)
        self._file = str(path)
        super().__init__(__name__=f"outline of {module.replace('.', '/')}", __file__=self._file, __builtins__=builtins)
        sys.modules[self["__name__"]] = _Module(self)  # type: ignore[assignment] # where `inspect` looks for sources

    def statement(self, name: str) -> ast.stmt | None:
        """The statement that defines a name, in whichever module that is; None where no source says it."""
        found = self._statements.get(name)
        if not isinstance(found, ast.ImportFrom) or not found.module or found.level:
            return found
        original = next(alias.name for alias in found.names if name in (alias.asname, alias.name))
        return outline(found.module).statement(original) if _has_source(found.module) else None

    def __missing__(self, name: str) -> Any:
        statement = self._statements[name]
        if isinstance(statement, ast.ImportFrom) and str(statement.module).startswith("sentrep."):
            original = next(alias.name for alias in statement.names if name in (alias.asname, alias.name))
            self[name] = outline(str(statement.module))[original]
        else:
            block = ast.Module([statement], [])
            flags = __future__.annotations.compiler_flag
            exec(compile(block, self._file, "exec", flags, dont_inherit=True), self)
            for needed in _annotated(statement) & self._statements.keys() - self.keys():
                self[needed]  # annotations are evaluated in a copy, which defines nothing more
        return self[name]


class _Module:
    def __init__(self, names: Outline) -> None:
        self.__dict__ = names


@functools.cache
def outline(module: str) -> Outline:
    """The outline of a module; nothing is imported for it but the packages that a foreign one lies in."""
    return Outline(module)


def arguments(module: str, name: str) -> dict[str, str]:
    """The arguments of a constructor with their types as they are written.

    There are none where no source says them, or where it takes any others.
    """
    init = _constructor(module, name)
    if init is None or init.args.kwarg is not None:
        return {}
    found = (*init.args.args[1:], *init.args.kwonlyargs)
    return {argument.arg: ast.unparse(argument.annotation) if argument.annotation else "" for argument in found}


def documentation(module: str, name: str) -> tuple[str, dict[str, str]]:
    """What the docstring of a class says in its first line, and of each argument in the first sentence."""
    docstrings = [ast.get_docstring(node) or "" for node in (_class(module, name), _constructor(module, name)) if node]
    found = [docstring_parser.parse(text) for text in docstrings]
    texts = {part.arg_name: " ".join(str(part.description).split()) for doc in found for part in doc.params}
    summary = str(found[0].short_description if found else "")
    return summary, {argument: text.split(". ")[0] for argument, text in texts.items()}


def _class(module: str, name: str) -> ast.ClassDef | None:
    found = outline(module).statement(name) if _has_source(module) else None
    return found if isinstance(found, ast.ClassDef) else None


def _constructor(module: str, name: str) -> ast.FunctionDef | None:
    found = _class(module, name)
    parts = (part for part in (found.body if found else ()) if isinstance(part, ast.FunctionDef))
    return next((part for part in parts if part.name == "__init__"), None)


def _names(statement: ast.stmt) -> list[str]:
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return [alias.asname or alias.name.split(".")[0] for alias in statement.names]
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [statement.name]
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", statement)]
    return [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]


def _annotated(statement: ast.stmt) -> set[str]:
    """The names in the annotations of a function's arguments, or of a class's fields."""
    parts: list[Any] = statement.body if isinstance(statement, ast.ClassDef) else []
    if isinstance(statement, ast.FunctionDef):
        parts = [*statement.args.args, *statement.args.kwonlyargs]
    found = [part.annotation for part in parts if getattr(part, "annotation", None)]
    return {node.id for annotation in found for node in ast.walk(annotation) if isinstance(node, ast.Name)}


def _source(module: str) -> Path:
    """The file of a module of ours or of another package, which is not imported."""
    top, *below = module.split(".")
    if top == "sentrep":
        place = _ROOT / top
    else:
        spec = find_spec(top)
        place = Path(str(spec and spec.origin)).parent
    place = place.joinpath(*below)
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


def _has_source(module: str) -> bool:
    return _source(module).is_file()
