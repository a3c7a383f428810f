"""Rules of CONTRIBUTING.md that `make lint` does not check.

Each test checks one rule and lists every offender with its file and line.
"""

from __future__ import annotations

import ast
import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

import sentrep
import sentrep.data

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "sentrep").rglob("*.py"))
PRIVATE = {
    "sentrep/encoder/compute/plan.py: module._forward_hooks": "transformers keeps no handles of its hooks",
    "sentrep/testing.py: torch.utils._python_dispatch.TorchDispatchMode": "torch documents it, and has no public name",
}
"""Uses of other packages' private names, and why there is no way around each."""


def normalised(name: str) -> str:
    """A package's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
DECLARED = set(map(normalised, re.findall(r'"([\w.-]+)(?:\[\w+\])?>=[\d.]+"', PROJECT)))


def refuse(offenders: Iterable[str]) -> None:
    """Fail with all of them."""
    found = sorted(set(offenders))
    assert not found, "\n" + "\n".join(found)


def nodes() -> Iterator[tuple[str, ast.AST]]:
    """Every node of every file, with its place, as an editor opens it."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            yield f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}", node


def imported() -> Iterator[tuple[str, str]]:
    """All imports, also within functions: the place and the dotted name of each."""
    for place, node in nodes():
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            yield from ((place, module + alias.name) for alias in node.names)


def test_private_names_of_other_packages_are_used_only_where_listed() -> None:
    """A private name is foreign where no file of sentrep defines it."""
    own, used = {"_asdict", "_fields", "_replace"}, [*imported()]  # of named tuples, which are public
    for place, node in nodes():
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                own.add(name)
            case ast.Attribute(attr=name, ctx=ast.Store(), value=ast.Name(id="self")):
                own.add(name)
            case ast.Attribute(attr=name) if name.startswith("_"):
                used.append((place, ast.unparse(node)))
            case ast.Call(func=ast.Name(id="getattr" | "hasattr" | "setattr"), args=[owner, ast.Constant(name), *_]):
                used.append((place, f"{ast.unparse(owner)}.{name}"))
    foreign = {
        f"{place.split(':')[0]}: {name}": place
        for place, name in used
        if any(part not in own for part in re.findall(r"\b_(?!_)\w+", name))
    }
    refuse(f"{foreign[use]}: {use} is private; use a public way, or list it" for use in foreign.keys() - PRIVATE.keys())
    refuse(f"{use}: is gone; take it out of PRIVATE" for use in PRIVATE.keys() - foreign)


def test_committed_recipes_name_no_path_of_a_machine() -> None:
    pattern = re.compile(r"\.\./|(?<![\w:/.])/(?:work|home|root|tmp|mnt|data)\b")
    base = re.compile(r" *base: (\.\./)+[\w/-]+\.yaml$")  # of a table, beside it
    refuse(
        f"{path.relative_to(ROOT)}:{number}: names a path; use a hub id, or a flag on the command line"
        for path in (ROOT / "configs").rglob("*.yaml")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line) and not base.match(line)
    )


def test_no_tracked_file_is_ignored() -> None:
    """A pattern of .gitignore that fits a folder of ours hides it from ruff, and its new files from ``git add``."""
    if not (ROOT / ".git").exists():
        pytest.skip("needs a git checkout")
    command = ["git", "-c", "core.excludesFile=", "ls-files", "--cached", "--ignored", "--exclude-standard"]
    found = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    refuse(f"{path}: .gitignore ignores it; narrow the pattern" for path in found)


def test_constraints_pin_every_declared_dependency_without_local_builds() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    for pin in pins:
        assert re.fullmatch(r"[\w.-]+==[0-9][0-9a-z.]*", pin), f"{pin}: expected name==version"
    assert len(DECLARED) >= 15
    missing = DECLARED - {"setuptools", *(normalised(pin.split("==")[0]) for pin in pins)}
    assert not missing, f"not pinned: {', '.join(sorted(missing))}"


def test_every_imported_package_is_declared() -> None:
    distributions = importlib.metadata.packages_distributions()

    def is_declared(package: str) -> bool:
        owners = map(normalised, distributions.get(package, [package]))
        return package in (*sys.stdlib_module_names, "sentrep") or not DECLARED.isdisjoint(owners)

    refuse(f"{place}: {name}" for place, name in imported() if not is_declared(name.split(".")[0]))


@pytest.mark.parametrize("package", [sentrep, sentrep.data], ids=lambda package: package.__name__)
def test_lazy_names_are_those_that_type_checkers_read(package: ModuleType) -> None:
    nodes = [
        node
        for node in ast.walk(ast.parse(Path(str(package.__file__)).read_text()))
        if isinstance(node, ast.ImportFrom)
    ]
    assert {name.name for node in nodes for name in node.names if name.asname == name.name} == {*package.__all__}
    assert all(hasattr(package, name) for name in package.__all__)
