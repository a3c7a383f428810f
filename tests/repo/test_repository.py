"""The rules of the house that a machine can check (CONTRIBUTING.md).

Each test checks one rule and lists every offender with its file and line.
``python tests/repo/test_repository.py --write`` writes the import order into CONTRIBUTING.md.
"""

from __future__ import annotations

import ast
import functools
import graphlib
import importlib
import importlib.metadata
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

import sentrep
import sentrep.data

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "sentrep"
SOURCES = sorted(PACKAGE.rglob("*.py"))

IMPORT_ORDER = [
    "version", "lazy", "errors", "extras", "io", "checks", "types", "config", "distributed", "random", "functional",
    "data", "encoder", "views", "negatives", "weighting", "decoders", "objectives", "stability",
    "checkpoint", "evaluation", "training", "module", "integrations", "testing", "cli",
]  # fmt: skip
"""A file may import from its own entry and from those before it."""

PRIVATE = {
    "sentrep/encoder/compute/plan.py: module._forward_hooks": "transformers keeps no handles of its hooks",
    "sentrep/testing.py: torch.utils._python_dispatch.TorchDispatchMode": "torch documents it, and has no public name",
}
"""Uses of other packages' private names, and why there is no way around each."""

START, END = "<!-- import order: python tests/repo/test_repository.py --write -->", "<!-- end -->"


def name_of(path: Path, node: ast.AST | None = None) -> str:
    """File and line, as an editor opens them."""
    line = f":{node.lineno}" if isinstance(node, ast.expr | ast.stmt) else ""
    return path.relative_to(ROOT).as_posix() + line


def refuse(offenders: Iterable[str]) -> None:
    """Fail with all of them."""
    found = sorted(set(offenders))
    assert not found, "\n" + "\n".join(found)


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(path): path for path in SOURCES}


def entry_of(module: str) -> str | None:
    """The entry of `IMPORT_ORDER` of ``sentrep.data.toy``: ``data``; None for the package's own root."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else None


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def nodes(*kinds: type[ast.AST]) -> Iterator[tuple[Path, ast.AST]]:
    """Every node of these kinds in every file."""
    for path in SOURCES:
        yield from ((path, node) for node in ast.walk(parsed(path)) if isinstance(node, kinds))


def imports(path: Path) -> Iterator[tuple[ast.stmt, str, str | None]]:
    """Every import statement, wherever it stands: the statement, the module's full name, the name taken from it."""
    package = [*path.relative_to(ROOT).parent.parts]
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, [base, node.module]))
            yield from ((node, module, alias.name) for alias in node.names)


def imported_modules(path: Path) -> Iterator[tuple[ast.stmt, str]]:
    """What a file imports of sentrep: the statement and the module's full name."""
    for node, module, name in imports(path):
        if module == "sentrep" and name is not None:  # from sentrep import functional
            yield node, f"sentrep.{name}"
        elif module.split(".")[0] == "sentrep":
            yield node, module


def test_imports_go_down_the_list_only() -> None:
    def offenders() -> Iterator[str]:
        for path in SOURCES:
            own = entry_of(".".join(path.relative_to(ROOT).with_suffix("").parts))
            if own in ("__init__", "__main__", "cli"):
                continue  # the root re-exports everything, the command line sits on top of everything
            if own not in IMPORT_ORDER:
                yield f"{name_of(path)}: {own} has no place in IMPORT_ORDER"
                continue
            for node, module in imported_modules(path):
                entry = entry_of(module)
                if entry not in IMPORT_ORDER:
                    yield f"{name_of(path, node)}: imports {module}; import from the file that defines it"
                elif IMPORT_ORDER.index(entry) > IMPORT_ORDER.index(own):
                    yield f"{name_of(path, node)}: {own} imports {module}, which comes after it"

    refuse(offenders())


def test_no_imports_go_in_a_circle() -> None:
    """Those within functions and those for type checkers alone are counted, too."""
    graph: dict[str, set[str]] = {}
    for name, path in MODULES.items():
        taken = {f"{module}.{part}" if f"{module}.{part}" in MODULES else module for _, module, part in imports(path)}
        graph[name] = taken & MODULES.keys()
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" imports\n".join(reversed(error.args[1])))


def test_the_import_order_stands_in_contributing() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert page == with_import_order(page), "run: python tests/repo/test_repository.py --write"


def with_import_order(page: str) -> str:
    """The page, with `IMPORT_ORDER` between its marks."""
    order = textwrap.fill(f"`{', '.join(IMPORT_ORDER)}`.", 118, initial_indent="  ", subsequent_indent="  ")
    before, _, rest = page.partition(START)
    return f"{before}{START}\n{order}\n  {END}{rest.partition(END)[2]}"


def test_private_names_of_other_packages_are_used_only_where_listed() -> None:
    found = dict(foreign_private_names())
    unlisted = ((place, use.split(": ")[1]) for use, place in found.items() if use not in PRIVATE)
    refuse(f"{place}: {name} is private; use a public way, or list it with the reason" for place, name in unlisted)
    refuse(f"{use}: is gone; take it out of PRIVATE" for use in PRIVATE.keys() - found)


def foreign_private_names() -> Iterator[tuple[str, str]]:
    """Uses of names with a leading underscore that no file of sentrep defines: the use and its place."""
    own = {"_asdict", "_fields", "_replace"}  # of named tuples, which are public
    for _, node in nodes(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Name, ast.Attribute):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            own.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            own.add(node.attr)

    def is_foreign(name: str) -> bool:
        return name.startswith("_") and not name.startswith("__") and name not in own

    for path, node in nodes(ast.Attribute, ast.Call):
        if isinstance(node, ast.Attribute):
            name, text = node.attr, ast.unparse(node)
        elif ast.unparse(node.func) in ("getattr", "hasattr", "setattr") and isinstance(node.args[1], ast.Constant):  # type: ignore[attr-defined]
            name = str(node.args[1].value)  # type: ignore[attr-defined]
            text = f"{ast.unparse(node.args[0])}.{name}"  # type: ignore[attr-defined]
        else:
            continue
        if is_foreign(name):
            yield f"{name_of(path)}: {text}", name_of(path, node)
    for path in SOURCES:
        for node, module, name in imports(path):
            if module.split(".")[0] != "sentrep" and any(
                part.startswith("_") and not part.startswith("__") for part in [*module.split("."), name or ""]
            ):
                yield f"{name_of(path)}: {module}.{name or ''}", name_of(path, node)


def test_committed_recipes_name_no_path_of_a_machine() -> None:
    pattern = r"\.\./|(?<![\w:/.])/(?:work|home|root|tmp|mnt|data)\b"
    base = re.compile(r" *base: (\.\./)+[\w/-]+\.yaml$")  # of a table, beside it
    refuse(
        f"{name_of(path)}:{number}: names {found.group()!r}; use a hub id, or a flag on the command line"
        for path in (ROOT / "configs").rglob("*.yaml")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (found := re.search(pattern, line)) and not base.match(line)
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
    pinned = {normalised(pin.split("==")[0]) for pin in pins}
    declared = re.findall(r'"([\w.-]+)(?:\[\w+\])?>=[\d.]+"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    names = {normalised(name) for name in declared} - {"setuptools"}
    assert len(names) >= 15
    assert names <= pinned, f"not pinned: {', '.join(sorted(names - pinned))}"


def test_every_imported_package_is_declared() -> None:
    declared = re.findall(r'"([\w.-]+)(?:\[\w+\])?>=[\d.]+"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    allowed = {normalised(name) for name in declared}
    distributions = importlib.metadata.packages_distributions()

    def offenders() -> Iterator[str]:
        for path in SOURCES:
            for node, module, _ in imports(path):
                package = module.split(".")[0]
                owners = {normalised(owner) for owner in distributions.get(package, [package])}
                if package not in (*sys.stdlib_module_names, "sentrep") and not owners & allowed:
                    yield f"{name_of(path, node)}: imports {package}, which pyproject.toml does not declare"

    refuse(offenders())


def normalised(name: str) -> str:
    """A package's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    assert sys.argv[1:] == ["--write"], "usage: python tests/repo/test_repository.py --write"
    contributing = ROOT / "CONTRIBUTING.md"
    contributing.write_text(with_import_order(contributing.read_text(encoding="utf-8")), encoding="utf-8")


@pytest.mark.parametrize("package", [sentrep, sentrep.data], ids=lambda package: package.__name__)
def test_lazy_names_are_those_that_type_checkers_read(package: ModuleType) -> None:
    nodes = [
        node
        for node in ast.walk(ast.parse(Path(str(package.__file__)).read_text()))
        if isinstance(node, ast.ImportFrom)
    ]
    assert {name.name for node in nodes for name in node.names if name.asname == name.name} == {*package.__all__}
    assert all(hasattr(package, name) for name in package.__all__)
