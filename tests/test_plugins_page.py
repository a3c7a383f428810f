"""docs/plugins.md names every plug-in, and a recipe for every later method."""

from __future__ import annotations

import inspect
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


def test_the_page_names_every_plugin() -> None:
    assert len(PLUGINS) > 40
    assert not {name for name in PLUGINS if f"`{name}`" not in PAGE}


def test_every_later_method_has_a_recipe() -> None:
    rows = [line.split("|")[4].strip(" `") for line in METHODS.splitlines() if line.startswith("|")][2:]
    assert len(rows) == 18
    for recipe in rows:
        assert (ROOT / "configs" / recipe).exists(), recipe
