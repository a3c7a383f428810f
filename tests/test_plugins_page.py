"""docs/plugins.md names every plug-in, and says of the later methods what is so."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import sentrep.encoder
import sentrep.negatives
import sentrep.objectives
import sentrep.stability
import sentrep.views
import sentrep.weighting
from sentrep import NegativeSampler, Objective, PairWeighting, Perturbation, TokenAugmentation, ViewMaker
from sentrep.encoder import SentenceModule
from sentrep.stability import PerturbedWeights

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
PACKAGES = (
    sentrep.encoder, sentrep.negatives, sentrep.objectives, sentrep.stability, sentrep.views, sentrep.weighting,
)  # fmt: skip
BASES = (
    NegativeSampler, Objective, PairWeighting, Perturbation, PerturbedWeights, SentenceModule, TokenAugmentation,
    ViewMaker,
)  # fmt: skip
EXPORTED = {name: getattr(package, name) for package in PACKAGES for name in package.__all__}
PLUGINS = {
    name
    for name, kind in EXPORTED.items()
    if inspect.isclass(kind) and issubclass(kind, BASES) and not inspect.isabstract(kind)
}
METHODS = PAGE.partition("## Later methods")[2].partition("\n## ")[0]
LONGEST = 60
"""Lines of code of a class's file: where a method takes more, the seam is wrong."""


def code_lines(path: Path) -> int:
    """Those without docstrings, comments, imports and blank lines."""
    text = path.read_text(encoding="utf-8")
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        said = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        if said or isinstance(node, ast.Import | ast.ImportFrom):
            left_out |= {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}  # type: ignore[attr-defined]
    lines = [line.strip() for line in text.splitlines()]
    return sum(bool(line) and line[0] != "#" and place not in left_out for place, line in enumerate(lines, 1))


def test_the_page_names_every_plugin() -> None:
    assert len(PLUGINS) > 40
    assert not {name for name in PLUGINS if f"`{name}`" not in PAGE}


def test_the_later_methods_are_as_long_as_the_page_says() -> None:
    rows = re.findall(r"`(\w+)` (\d+)", METHODS)
    assert len(rows) > 15
    for name, shown in rows:
        lines = code_lines(Path(inspect.getfile(EXPORTED[name])))
        assert abs(int(shown) - lines) <= 5, f"{name} has {lines} lines, docs/plugins.md says {shown}"
        assert lines <= LONGEST, f"{name} has {lines} lines"


def test_every_later_method_has_a_recipe() -> None:
    rows = [line.split("|")[4].strip(" `") for line in METHODS.splitlines() if line.startswith("|")][2:]
    assert len(rows) == 18
    for recipe in rows:
        assert (ROOT / "configs" / recipe).exists(), recipe
