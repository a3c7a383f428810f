"""The pages for those who write plug-ins: their Python is run, their YAML is built and trained."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from lightning.pytorch import Trainer

from sentrep import SentRepModule
from sentrep.cli import main
from sentrep.objectives import Contrastive
from sentrep.testing import check_objective
from support import (
    assert_equal_to_one_process,
    loss_and_gradients,
    run_processes,
    text_batch,
    tiny_encoder,
    toy_sentences,
    write_workplace,
)  # fmt: skip

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted((DOCS / "writing").glob("*.md"))
SLOW = ("processes",)
LONGEST = 30
"""Lines of an example that are neither blank nor imports."""


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


EXAMPLES = {page.stem: blocks(page, "python") for page in PAGES}
CONFIGURATIONS = [(page.stem, text) for page in PAGES for text in blocks(page, "yaml")]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with a small run and the files that the pages show; one that is imported is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("PL_GLOBAL_SEED", raising=False)
    write_workplace(tmp_path)
    before = set(sys.modules)
    for shown in EXAMPLES.values():
        for example in shown:
            (tmp_path / name_of(example)).write_text(example)
    yield tmp_path
    for name in [*sys.modules.keys() - before]:
        if (tmp_path / f"{name}.py").exists():
            del sys.modules[name]


def name_of(example: str) -> str:
    """Of its file, by its first line: ``# hinge.py``."""
    return example.splitlines()[0].removeprefix("# ")


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.slow) if page in SLOW else page for page in EXAMPLES]
)
def test_the_example_of_a_page_runs(page: str, desk: Path) -> None:
    (example,) = EXAMPLES[page]
    code = [line for line in example.splitlines() if line.strip() and not re.match(r"#|import |from ", line)]
    assert len(code) <= LONGEST, len(code)
    assert "    assert " in example or ".assert_" in example
    module = importlib.import_module(name_of(example).removesuffix(".py"))
    tests = [value for name, value in vars(module).items() if name.startswith("test_")]
    assert tests
    for test in tests:
        test()


def test_the_objective_of_readme_keeps_its_promises(desk: Path) -> None:
    (example,) = (block for block in blocks(DOCS.parent / "README.md", "python") if block.startswith("# hinge.py"))
    (desk / "hinge.py").write_text(example)
    check_objective(importlib.import_module("hinge").HardestNegative)


def run(configuration: str, desk: Path, *flags: str) -> int:
    tree: dict[str, Any] = yaml.safe_load(configuration)
    (desk / "page.yaml").write_text(configuration)
    if "UncertaintyWeighted" not in configuration and "objectives" in tree.get("model", {}):
        flags = (*flags, *(["--model.objectives.simcse", "null"] if "simcse" not in configuration else []))
    return main(["fit", "-c", "run.yaml", "-c", "page.yaml", "--model.head", "null", *flags])


@pytest.mark.parametrize(("page", "configuration"), CONFIGURATIONS, ids=[page for page, _ in CONFIGURATIONS])
def test_what_a_page_configures_trains(
    page: str, configuration: str, desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "rank: " in configuration:
        pytest.importorskip("peft")
    trained: list[Any] = []
    fit = Trainer.fit

    def watched(trainer: Trainer, model: Any, **options: Any) -> None:
        trained.extend([*model.modules(), *trainer.callbacks])
        fit(trainer, model, **options)

    monkeypatch.setattr(Trainer, "fit", watched)
    assert run(configuration, desk, "--trainer.max_steps", "2") == 0
    assert list(desk.rglob("last.ckpt"))
    named = re.findall(r"class_path: ([\w.]+)", configuration)
    assert {name.rpartition(".")[2] for name in named} <= {type(part).__name__ for part in trained}


def step() -> dict[str, Any]:
    """Loss and gradients of the terms of the pages; each process holds its share of eight rows."""
    shown = {page: vars(importlib.import_module(name_of(*examples)[:-3])) for page, examples in EXAMPLES.items()}
    samplers = {"past": shown["negatives"]["HardestPast"](size=16), "even": shown["state"]["Reservoir"](8)}
    terms = {
        "contrastive": Contrastive(negatives=samplers, weighting=shown["weighting"]["Hardness"](2.0)),
        "bootstrap": shown["second-encoder"]["Bootstrap"](0.9),
        "triplet": shown["processes"]["RandomTriplet"](),
    }
    found = {}
    for name, term in terms.items():
        module = SentRepModule(tiny_encoder(dropout=0.0, pooling="mean"), {name: term})
        for sampler in samplers.values() if name == "contrastive" else ():
            sampler.after_step(torch.randn(12, 32, generator=torch.Generator().manual_seed(3)))
        sentences = toy_sentences(16)
        found[name] = loss_and_gradients(module, text_batch(module.encoder, sentences[:8], sentences[8:]))
    return found


@pytest.mark.slow
def test_the_examples_on_two_processes_equal_one(desk: Path) -> None:
    shares = run_processes(step, 2)
    for name, (loss, gradients) in step().items():
        bound = 1e-6 if name == "triplet" else 1e-10  # its cosines are in float32
        assert_equal_to_one_process([share[name] for share in shares], loss, gradients, bound)


def test_every_page_has_an_example_and_stands_in_the_entry_page() -> None:
    entry = (DOCS / "writing" / "objective.md").read_text(encoding="utf-8")
    for page in PAGES:
        assert blocks(page, "yaml"), page.name
        assert page.stem == "objective" or f"]({page.name})" in entry, page.name
