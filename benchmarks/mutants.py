"""Mutation check: how many small faults in the product's code does the default suite find?

    python -m pip install mutmut==3.8.1  # into a copy of the environment; nothing else needs it
    OMP_NUM_THREADS=1 python benchmarks/mutants.py run [package ...]  # appends to build/mutants, goes on after a stop
    OMP_NUM_THREADS=1 python benchmarks/mutants.py again [package ...]  # the survivors, after new tests
    python benchmarks/mutants.py table  # prints the table, writes the survivors to benchmarks/results/mutants.json

The operators are mutmut's, the runner is ours. mutmut's trampolines hide the signatures that `Configurable` reads, and
mutmut skips decorated functions and all code outside of functions. Here pytest imports and collects once. Every mutant
is a fork: its code replaces that of the live functions, then those tests run that reach its statement, until one fails.
A first run with a probe before every statement records which tests these are. Processes of tests are forks as well.
To record again, after larger changes of tests, delete build/mutants/map.jsonl.
Of a module's own values only plain ones are replaced (numbers, text, containers, context variables): mutants of others
count as survivors.

Not mutated: messages (of `raise` and warnings), type annotations, docstrings, decorators, imports. Two operators are
left out: where None replaces a positional argument or an assigned value, the next line fails in any test, which proves
little. A string is changed in one way instead of three. No `device=` is taken away: that needs a GPU to be seen.
"""

from __future__ import annotations

import ast
import builtins
import collections
import contextlib
import gc
import importlib
import itertools
import json
import os
import resource
import shutil
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
STATE, RESULTS = ROOT / "build/mutants", ROOT / "benchmarks/results/mutants.json"
MAP, RUN, KILLER = STATE / "map.jsonl", STATE / "run.jsonl", STATE / f"test-{os.getpid()}"
PACKAGES = ("functional", "weighting", "distributed.py", "random.py", "stability", "negatives", "views", "objectives")
PACKAGES = (*PACKAGES, "evaluation/significance.py")
TESTS = (
    "tests/unit/functional tests/unit/weighting tests/unit/negatives tests/unit/stability tests/unit/views "
    "tests/unit/objectives tests/unit/evaluation/test_significance.py tests/unit/test_distributed.py "
    "tests/unit/test_module.py tests/integration/test_lost_peer.py tests/integration/test_bad_inputs.py "
    "tests/contracts/test_samplers.py tests/contracts/test_samplers_on_processes.py "
    "tests/contracts/test_objectives.py tests/contracts/test_view_makers.py "
    "tests/contracts/test_paired_noise.py tests/contracts/test_every_plugin.py tests/contracts/test_ranges.py "
    "tests/contracts/test_grad_cache.py"
)
PARTS = 5  # a run that stops early has a fair sample: every fifth mutant of all files, then the next fifth
ALIVE = ("survived", "not reached")
SECONDS = {"run": 2, "again": 10}  # of tests for one mutant


def sources(package: str) -> list[Path]:
    place = ROOT / "sentrep" / package
    return [place] if place.is_file() else sorted(place.rglob("*.py"))


def blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements inside functions, outer ones first."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    inside = [node for function in ast.walk(tree) if isinstance(function, functions) for node in ast.walk(function)]
    for node in dict.fromkeys(inside):
        for name in ("body", "orelse", "finalbody"):
            if isinstance(block := getattr(node, name, None), list):
                yield block


def reached(source: str) -> tuple[dict[int, int], dict[int, str]]:
    """The line of the probe, and the function, by line."""
    probe, owner = {}, {}
    tree = ast.parse(source)
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            child.name_path = f"{getattr(node, 'name_path', '')}.{getattr(child, 'name', '')}".strip(".")  # type: ignore[attr-defined]
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            owner.update(dict.fromkeys(range(node.lineno, node.end_lineno + 1), node.name_path))
        if isinstance(node, ast.FunctionDef):
            probe.update(dict.fromkeys(range(node.lineno, node.body[0].lineno), node.body[-1].lineno))
    for block in blocks(tree):
        for statement in block:
            probe.update(dict.fromkeys(range(statement.lineno, statement.end_lineno + 1), statement.lineno))
    return probe, owner


def mutants(path: Path, part: int) -> Iterator[tuple[str, int, str]]:
    """Name, line and source of the mutants of a file, one in `PARTS`."""
    import libcst as cst
    from mutmut.mutation import mutators

    skipped = (cst.Annotation, cst.Raise, cst.Decorator, cst.Import, cst.ImportFrom)
    names_only = ("warn", "rank_zero_warn", "TypeVar", "__all__")

    def silent(node: cst.CSTNode) -> bool:
        part = node.func if isinstance(node, cst.Call) else node.targets[0] if isinstance(node, cst.Assign) else None
        text = isinstance(node, cst.Expr) and isinstance(node.value, cst.BaseString)
        kind = isinstance(node, cst.Subscript) and tree.code_for_node(node.value) == "Literal"
        word = tree.code_for_node(part).split(".")[-1].strip(" =") if part else ""
        return isinstance(node, skipped) or text or kind or word in names_only

    class Visitor(cst.CSTVisitor):
        def on_visit(self, node: cst.CSTNode) -> bool:
            if silent(node):
                return False
            for kind, operator in mutators.mutation_operators:
                if isinstance(node, kind) and operator is not mutators.operator_assignment:
                    changed = list(operator(node))
                    if operator is mutators.operator_arg_removal:  # of keyword arguments only
                        changed = [x for x in changed if len(x.args) < len(node.args)]
                        gone = [next(a.keyword for a in node.args if a not in x.args) for x in changed]
                        changed = [x for x, word in zip(changed, gone, strict=True) if word and word.value != "device"]
                    found.extend((node, x) for x in changed[: 1 if operator is mutators.operator_string else None])
            return True

    source, found = path.read_text(), []
    tree = cst.parse_module(source)
    tree.visit(Visitor())
    owner = reached(source)[1]
    for node, new in found[part::PARTS]:
        code = tree.deep_replace(node, new).code
        old, fresh = source.splitlines(), code.splitlines()
        while old[-1:] == fresh[-1:]:
            del old[-1], fresh[-1]
        line = next((n for n, (x, y) in enumerate(zip(old, fresh, strict=False)) if x != y), min(len(old), len(fresh)))
        change = " => ".join(" ".join(text.strip() for text in lines[line:]) for lines in (old, fresh))
        name = f"{path.relative_to(ROOT / 'sentrep')}:{owner.get(line + 1, '')}: {change}"
        yield name, line + 1, code


def insert(path: Path, source: str) -> None:
    """Give the module's live functions the code and defaults of a mutated source, and its constants the values."""
    module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
    fresh = types.ModuleType(module.__name__)
    fresh.__dict__.update(__file__=str(path), __package__=module.__package__)
    exec(compile(source, str(path), "exec"), fresh.__dict__)
    replace(module, fresh, str(path))


def replace(live: Any, fresh: Any, path: str) -> None:
    for name, new in list(vars(fresh).items()):
        old = vars(live).get(name)
        if isinstance(new, type) and isinstance(fresh, types.ModuleType) and new.__module__ == fresh.__name__:
            replace(old, new, path)
            continue
        parts = ("fget", "fset", "__func__", "func")  # of properties, class and static methods, cached properties
        pairs = [(getattr(old, part), getattr(new, part)) for part in parts if getattr(new, part, None)]
        functions = [(unwrap(x), unwrap(y)) for x, y in pairs or [(old, new)]]
        if all(isinstance(y, types.FunctionType) for _, y in functions):
            for x, y in functions:
                if y.__code__.co_filename in (path, "<string>"):  # dataclasses write their __init__
                    x.__code__ = y.__code__
                    if repr((x.__defaults__, x.__kwdefaults__)) != repr((y.__defaults__, y.__kwdefaults__)):
                        x.__defaults__, x.__kwdefaults__ = y.__defaults__, y.__kwdefaults__
            continue
        plain = (str, int, float, tuple, list, dict, set, frozenset, ContextVar)
        constant = isinstance(new, plain) and name[:2] != "__"
        if constant and repr(new) != repr(old):
            for module in [live, *(x for x in sys.modules.values() if isinstance(live, types.ModuleType))]:
                if module is live or vars(module).get(name) is old:  # who imported the constant by name
                    setattr(module, name, new)


def unwrap(function: Any) -> Any:
    while hasattr(function, "__wrapped__"):
        getattr(function, "cache_clear", bool)()
        function = function.__wrapped__
    return function


class Recorder:
    """Plug-in of the first run: which tests reach which statement, and the seconds of every test."""

    def __init__(self, to: Path) -> None:
        self.file, self.seen, self.test = os.open(to, os.O_WRONLY | os.O_APPEND | os.O_CREAT), set(), ""
        get_code, targets = SourceFileLoader.get_code, {str(path) for name in PACKAGES for path in sources(name)}

        def probed(loader: SourceFileLoader, name: str) -> Any:
            if loader.path not in targets:
                return get_code(loader, name)
            tree = ast.parse(Path(loader.path).read_text())
            for block in list(blocks(tree)):
                first = next((i for i, x in enumerate(block) if not isinstance(getattr(x, "value", 0), ast.Constant)
                              or not isinstance(x, ast.Expr)), len(block))  # fmt: skip
                block[first:] = [
                    y
                    for x in block[first:]
                    for y in (*ast.parse(f"_probe({str(Path(loader.path).relative_to(ROOT))!r}, {x.lineno})").body, x)
                ]
            return compile(ast.fix_missing_locations(tree), loader.path, "exec")

        SourceFileLoader.get_code = probed  # type: ignore[method-assign]
        builtins._probe = self.probe  # type: ignore[attr-defined]

    def probe(self, path: str, line: int) -> None:
        if self.test and (path, line) not in self.seen:
            self.seen.add((path, line))
            os.write(self.file, f"{json.dumps([self.test, path, line])}\n".encode())

    def pytest_runtest_setup(self, item: Any) -> None:
        self.seen, self.test, self.start = set(), item.nodeid, sum(os.times()[:4])

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        os.write(self.file, f"{json.dumps([nodeid, None, sum(os.times()[:4]) - self.start])}\n".encode())
        self.test = ""


class Runner:
    """Plug-in of the second run: instead of running the tests, run every mutant in a fork."""

    def __init__(self, packages: list[str], wanted: Callable[[str], bool], limit: int, lines: list[str]) -> None:
        self.packages, self.wanted, self.limit, self.sound = packages, wanted, limit, {}
        self.tests: dict[tuple[str, int], set[str]] = collections.defaultdict(set)
        self.seconds: dict[str, float] = {}
        for test, path, number in map(json.loads, lines):
            if path is None:
                self.seconds[test] = number
            else:
                self.tests[path, number].add(test)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            KILLER.write_text(report.nodeid)
            os._exit(1)

    def pytest_runtestloop(self, session: Any) -> bool:
        gc.collect()
        gc.freeze()  # a collection in a fork would copy every page
        self.items = {item.nodeid: item for item in session.items}
        new = self.items.keys() - self.seconds.keys()  # tests that came after the map
        kills: collections.Counter[tuple[str, str]] = collections.Counter()
        files = [path for package in self.packages for path in sources(package)]
        for part, path in itertools.product(range(PARTS), files):
            probe, relative = reached(path.read_text())[0], str(path.relative_to(ROOT))
            everywhere = set().union(*(tests for (name, _), tests in self.tests.items() if name == relative))
            for name, line, source in mutants(path, part):
                if not self.wanted(name):
                    continue
                known = self.tests[relative, probe[line]] if line in probe else everywhere
                if line not in probe or probe[line] > line:  # outside of functions, or a signature: read without a call
                    known = known | {test for test in self.items if "test_ranges.py" in test}
                # first the tests that killed most mutants of this file, then quick tests and tests named after it
                order = sorted(
                    known & self.items.keys() | new,
                    key=lambda test: (
                        -kills[relative, test],
                        self.seconds.get(test, 0) / (10 if path.stem in test else 1),
                    ),
                )
                status, test, start = "survived" if order else "not reached", None, time.monotonic()
                while order:
                    status, test = self.fork(order, path, source)
                    if test is None or self.is_sound(test):
                        break
                    order.remove(test)  # fails without a mutant, too
                    status, test = "survived", None
                kills[relative, test or ""] += 1
                row = {"mutant": name, "status": status, "test": test, "seconds": round(time.monotonic() - start, 1)}
                with RUN.open("a") as file:
                    file.write(json.dumps(row) + "\n")
        return True

    def is_sound(self, test: str) -> bool:
        if test not in self.sound:
            self.sound[test] = self.fork([test], None, "")[0] == "survived"
        return self.sound[test]

    def fork(self, tests: list[str], path: Path | None, source: str) -> tuple[str, str | None]:
        """Run tests in a process of their own: what became of the mutant, and the test that failed."""
        KILLER.write_text("")
        pid = os.fork()
        if pid == 0:
            os.setsid()
            seconds = 30 + 5 * self.limit
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            try:
                if path:
                    insert(path, source)
            except ValueError as error:
                os._exit(3 if "free vars" in str(error) else 2)
            except BaseException:
                os._exit(2)
            used = 0.0
            for test, following in zip(tests, [*tests[1:], None], strict=True):
                used += self.seconds.get(test, 0)
                if used > self.limit and test != tests[0]:
                    break
                KILLER.write_text(test)
                item = self.items[test]
                item.ihook.pytest_runtest_protocol(item=item, nextitem=following and self.items[following])
            os._exit(0)
        started, found = time.monotonic(), (0, 0)
        while not found[0]:
            found = os.waitpid(pid, os.WNOHANG)
            time.sleep(0.01)
            if time.monotonic() - started > 200 + 50 * self.limit:
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(found[1])
        test = KILLER.read_text() or None
        return {0: ("survived", None), 2: ("no import", None), 3: ("invalid", None)}.get(code, ("killed", test))


class Selection:
    """Plug-in: of the rows of bad input only those about the product's plug-ins."""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        rooms = tuple(f"[{room}:" for room in ("objectives", "negatives", "views", "weighting", "module"))
        items[:] = [x for x in items if "bad_input" not in x.nodeid or any(room in x.nodeid for room in rooms)]


def session(make: Callable[[], Any], log: Path) -> None:
    """Run pytest with a plug-in, in a process of its own."""
    if os.fork():
        if status := os.wait()[1]:
            sys.exit(f"pytest was ended ({status}), see {log}")
        return
    plugin = make()  # before sentrep is imported
    import hypothesis
    import pytest

    import sentrep.evaluation.significance  # before pytest, which rewrites a file that it is given
    import sentrep.testing
    import support

    phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]  # the smallest example is of no interest
    hypothesis.settings.register_profile("mutants", phases=phases, derandomize=True, database=None)
    hypothesis.settings.load_profile("mutants")
    sentrep.testing._START = "fork"
    support._FORKS = sentrep.testing.multiprocessing.get_context("fork")
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), 1)
    base = STATE / f"tmp-{os.getpid()}"
    options = ["-q", "-p", "no:cacheprovider", "--capture=no", f"--basetemp={base}"]
    tests = [*TESTS.split(), *(f"sentrep/{package}" for package in PACKAGES)]
    pytest.main([*options, *tests], plugins=[plugin, Selection()])
    shutil.rmtree(base, ignore_errors=True)
    os._exit(0)


def outcomes() -> dict[str, dict[str, Any]]:
    """The latest outcome of every mutant."""
    RUN.touch()
    return {row["mutant"]: row for row in map(json.loads, RUN.open())}


def run(packages: list[str], what: str) -> None:
    STATE.mkdir(parents=True, exist_ok=True)
    if not MAP.exists():
        part = MAP.with_suffix(".part")
        part.unlink(missing_ok=True)
        session(lambda: Recorder(part), STATE / "map.log")
        part.rename(MAP)
    known = outcomes()
    verdicts = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    again = {name for name, row in known.items() if row["status"] in ALIVE and verdicts.get(name, "")[:5] != "equiv"}
    wanted = (lambda name: name in again) if what == "again" else (lambda name: name not in known)
    lines = MAP.read_text().splitlines()
    session(lambda: Runner(packages, wanted, SECONDS[what], lines), STATE / f"run-{os.getpid()}.log")


def table() -> None:
    """Print a row for each package; write the survivors, each with its verdict."""
    verdicts = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    found = {name: row["status"] in ALIVE for name, row in outcomes().items() if row["status"] != "invalid"}
    print("| package | mutants | killed | of all | of those not equivalent | equivalent | new test | open |")
    print("| --- " + "| ---: " * 7 + "|")
    total = collections.Counter[str]()
    for package in PACKAGES:
        names = [name for name in found if name.startswith((f"{package}/", f"{package}:"))]
        of = collections.Counter({"mutants": len(names), "killed": sum(not found[name] for name in names)})
        of.update(verdicts.get(name, "open").split(":")[0] for name in names if found[name] or name in verdicts)
        total += of
        print(table_row(f"`{package}`", of))
    print(table_row("all", total))
    kept = {name: verdicts.get(name, "open") for name, alive in found.items() if alive or name in verdicts}
    RESULTS.write_text(json.dumps(kept, indent=1, ensure_ascii=False, sort_keys=True) + "\n")


def table_row(name: str, of: collections.Counter[str]) -> str:
    shares = [f"{of['killed'] / max(number, 1):.1%}" for number in (of["mutants"], of["mutants"] - of["equivalent"])]
    cells = (name, of["mutants"], of["killed"], *shares, of["equivalent"], of["new test"], of["open"])
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    what, *packages = sys.argv[1:]
    if what == "table":
        table()
    else:
        run(packages or list(PACKAGES), what)
