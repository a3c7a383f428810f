"""The rules of the house that a machine can check (CONTRIBUTING.md)."""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.metadata
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import sentrep

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "sentrep"
SOURCES = sorted(PACKAGE.rglob("*.py"))

IMPORT_ORDER = [
    "version", "errors", "io", "checks", "types", "config", "distributed", "functional", "data", "encoder", "views",
    "negatives", "weighting", "decoders", "objectives", "training", "stability", "checkpoint", "module", "evaluation",
    "doctor", "cli",
]  # fmt: skip
"""A file may import from its own entry and from those before it."""


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


each_source = pytest.mark.parametrize("path", SOURCES, ids=name_of)


def entry_of(module: str) -> str | None:
    """The entry of `IMPORT_ORDER` of ``sentrep.data.toy``: ``data``; None for the package's own root."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else None


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported_modules(path: Path) -> Iterator[str]:
    """Full names of what a file imports of sentrep, wherever the statement stands."""
    package = [*path.relative_to(ROOT).parent.parts]
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "sentrep")
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, [base, node.module]))
            if module == "sentrep":  # from sentrep import functional
                yield from (f"sentrep.{alias.name}" for alias in node.names)
            elif module.startswith("sentrep."):
                yield module


@functools.cache
def classes() -> dict[str, type]:
    """Every class that is defined in sentrep, by its full name."""
    modules = [sentrep] + [
        importlib.import_module(found.name)
        for found in pkgutil.walk_packages(sentrep.__path__, "sentrep.")
        if not found.name.endswith("__main__")
    ]
    return {
        f"{cls.__module__}.{cls.__qualname__}": cls
        for module in modules
        for _, cls in inspect.getmembers(module, inspect.isclass)
        if cls.__module__ == module.__name__
    }


@each_source
def test_imports_go_down_the_list_only(path: Path) -> None:
    own = entry_of(".".join(path.relative_to(ROOT).with_suffix("").parts))
    if own in ("__init__", "__main__", "cli"):
        return  # the root re-exports everything, the command line sits on top of everything
    assert own in IMPORT_ORDER, f"{own} has no place in the import order: put it into IMPORT_ORDER and CONTRIBUTING.md"
    for module in imported_modules(path):
        entry = entry_of(module)
        assert entry in IMPORT_ORDER, (
            f"imports {module}: import from the file that defines it, not from the package's root"
        )
        assert IMPORT_ORDER.index(entry) <= IMPORT_ORDER.index(own), f"{own} imports {module}, which comes after it"


def test_the_import_check_sees_every_kind_of_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("test_repository.ROOT", tmp_path)
    path = tmp_path / "sentrep" / "data" / "corpus.py"
    path.parent.mkdir(parents=True)
    path.write_text(
        "import os, sentrep.cli\nfrom sentrep import module\nfrom . import sampler\nfrom ..errors import InputError\n"
        "def late():\n    from sentrep.encoder.loading.export import save\n    import sentrepository\n"
    )
    assert sorted(imported_modules(path)) == [
        "sentrep.cli", "sentrep.data", "sentrep.encoder.loading.export", "sentrep.errors", "sentrep.module",
    ]  # fmt: skip


@each_source
def test_no_file_is_called_utils(path: Path) -> None:
    assert path.stem not in ("utils", "util", "helpers", "misc"), "name the file after what is in it"


@each_source
def test_everything_public_has_a_docstring(path: Path) -> None:
    tree = parsed(path)
    definitions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    missing = [node.name for node in definitions if not node.name.startswith("_") and not ast.get_docstring(node)]
    assert not missing, f"no docstring: {', '.join(missing)}"
    assert ast.get_docstring(tree), "no docstring that says what the file is for"


def test_a_class_is_abstract_or_final() -> None:
    def may_be_inherited(base: type) -> bool:
        plain = "Configurable" in base.__name__ or getattr(base, "_is_protocol", False) or issubclass(base, Exception)
        return plain or inspect.isabstract(base) or not base.__module__.startswith("sentrep")

    for name, cls in classes().items():
        for base in cls.__bases__:
            assert may_be_inherited(base), f"{name} inherits from the concrete {base.__qualname__}: compose instead"


def test_there_is_one_level_of_inheritance() -> None:
    for name, cls in classes().items():
        ours = [base for base in cls.__mro__[1:] if f"{base.__module__}.{base.__qualname__}" in classes()]
        levels = [base for base in ours if "Configurable" not in base.__name__ and not issubclass(base, Exception)]
        assert len(levels) <= 1, f"{name} inherits from {', '.join(base.__qualname__ for base in levels)}"


def test_committed_recipes_name_no_path_of_a_machine() -> None:
    for path in sorted((ROOT / "configs").rglob("*.yaml")):
        text = re.sub(r"(?m)^ *base: (\.\./)+[\w/-]+\.yaml$", "", path.read_text(encoding="utf-8"))  # of a table, here
        found = re.search(r"\.\./|(?<![\w:/.])/(?:work|home|root|tmp|mnt|data)\b", text)
        assert not found, (
            f"{name_of(path)} names {found and found.group()!r}: use a hub id, or a flag on the command line"
        )


def test_the_makefile_has_the_documented_targets() -> None:
    targets = set(re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert targets >= {"help", "quickstart", "test", "lint", "docs", "clean"}
    for page in ("README.md", "CONTRIBUTING.md", ".ci/run"):
        if (ROOT / page).exists():
            commands = re.findall(
                r"(?:^|`)make(?: --\S+)* ([a-z]+)", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE
            )
            assert set(commands) <= targets, f"{page} names make {', '.join(set(commands) - targets)}"


def test_constraints_pin_every_declared_dependency_without_local_builds() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    for pin in pins:
        assert re.fullmatch(r"[\w.-]+==[0-9][0-9a-z.]*", pin), f"{pin}: expected name==version"
    pinned = {normalised(pin.split("==")[0]) for pin in pins}
    declared = re.findall(r'"([\w-]+)(?:\[\w+\])?>=[\d.]+"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    names = {normalised(name) for name in declared} - {"setuptools"}
    assert len(names) >= 15
    assert names <= pinned, f"not pinned: {', '.join(sorted(names - pinned))}"


def test_every_imported_package_is_declared() -> None:
    declared = re.findall(r'"([\w-]+)(?:\[\w+\])?>=[\d.]+"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    allowed = {normalised(name) for name in declared} | {"sentrep"}
    distributions = importlib.metadata.packages_distributions()
    for path in SOURCES:
        for node in ast.walk(parsed(path)):
            modules = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module]
                if isinstance(node, ast.ImportFrom) and not node.level and node.module
                else []
            )
            for package in {module.split(".")[0] for module in modules} - sys.stdlib_module_names:
                owners = {normalised(owner) for owner in distributions.get(package, [package])}
                assert owners & allowed, f"{name_of(path)} imports {package}, which pyproject.toml does not declare"


def normalised(name: str) -> str:
    """A package's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()
