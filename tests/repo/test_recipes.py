"""Every recipe and every row of a table under configs/ can be built; one of each structure trains on a tiny encoder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from lightning.pytorch import Trainer

from sentrep import SentenceEncoder, SentRepModule
from sentrep.cli import main
from sentrep.cli.recipe import Tree, read, read_file
from sentrep.cli.recipes import read_about
from sentrep.cli.tables import read_table

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
OVERRIDE = CONFIGS / "overrides" / "minilm.yaml"
TABLES = sorted(CONFIGS.glob("*/tables/*.yaml"))
RECIPES = sorted({*CONFIGS.rglob("*.yaml")} - {*TABLES, *OVERRIDE.parent.iterdir()})
FROZEN = ("model", "second_model", "generator")
"""Arguments that name a frozen encoder."""
FIRST = ("quickstart", "simcse", "gs_infonce", "dclr", "denosent", "baselines", "pretrain")


@dataclass(frozen=True)
class Case:
    """A recipe, or a row of a table."""

    name: str
    words: list[str]
    tree: Tree
    about: str

    @property
    def paper(self) -> str:
        """The folder."""
        return self.name.split("/")[0]

    @property
    def is_cheap(self) -> bool:
        """Whether it trains in the default suite: the recipes that the others are made of."""
        return "--row" not in self.words and self.paper in FIRST

    def flags(self, teacher: str) -> list[str]:
        """Local data and models, heads that divide 32; the tiny model, which has no folder, comes by a file."""
        columns = self.tree["data"].get("columns")
        overrides = ["-c", str(OVERRIDE)] if "overrides/minilm.yaml" in self.about else []
        train = ["--data.train", "corpus.txt", "--data.columns", "null"]
        if len(columns or []) > 1:
            train = ["--data.train", "triplets.csv"]
        frozen = [word for key in frozen_models(self.tree) for word in (f"--{key}", teacher)]
        small = {"dims": "[32,8]", "projection": "16"}
        fewer = [
            f"--model.objectives.{name}.{key}={small.get(key, '2')}"
            for name, term in self.tree["model"]["objectives"].items()
            for key, value in term.get("init_args", {}).items()
            if key in small or (key == "heads" and 32 % value)
        ]
        return [*overrides, *train, *frozen, *fewer]

    @cached_property
    def structure(self) -> tuple[Any, ...]:
        """What tells recipes apart but for numbers and names of models: classes, prompt, head, columns."""
        encoder, head = self.tree["model"]["encoder"], self.tree["model"].get("head") or {}
        classes = re.findall(r"class_path: (\S+)|views: (\w+)", yaml.safe_dump(self.tree))
        settings = [bool(encoder.get(key)) for key in ("prompt", "pretrained")]
        return (*sorted(classes), *settings, head.get("kind"), len(self.tree["data"].get("columns") or []))


def frozen_models(tree: Any, path: str = "") -> Iterator[str]:
    """The dotted keys of frozen encoders: what a plug-in's arguments name."""
    if not isinstance(tree, dict):
        return
    if "class_path" in tree:
        yield from (f"{path}.{key}" for key in FROZEN if key in tree.get("init_args", {}))
    for key, value in (tree.get("init_args", {}) if "class_path" in tree else tree).items():
        yield from frozen_models(value, f"{path}.{key}" if path else key)


def told(path: Path) -> str:
    """What a file says of itself."""
    return "\n".join(read_about(path).values())


def cases() -> Iterator[Case]:
    for path in RECIPES:
        name = str(path.relative_to(CONFIGS).with_suffix(""))
        yield Case(name, ["-c", str(path)], read(str(path)), told(path))
    for path in TABLES:
        about = told(path)
        for name, row in read_table(str(path)).rows.items():
            words = ["--table", str(path), "--row", name]
            if row.absent is None and not row.untrained:
                yield Case(f"{path.relative_to(CONFIGS)}: {name}", words, row.tree, about)


CASES = list(cases())
STRUCTURES = list({case.structure: case for case in reversed(CASES)}.values())


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in CASES if case not in STRUCTURES], ids=lambda case: case.name)
def test_every_other_recipe_and_row_is_built(
    case: Case, tiny: list[str], teacher: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another case trains the same classes with other numbers."""
    built: list[Any] = []
    monkeypatch.setattr(Trainer, "fit", lambda trainer, model, **_: built.append(model))
    assert main(["fit", *case.words, *case.flags(teacher), *tiny]) == 0
    (model,) = built
    assert list(model.objectives.terms) == list(case.tree["model"]["objectives"])


@pytest.mark.parametrize(
    ("case", "precision"),
    [
        pytest.param(case, precision, marks=() if case.is_cheap else pytest.mark.slow, id=case.name)
        for case, precision in zip(STRUCTURES, cycle(["bf16-mixed", "32-true"]), strict=False)
    ],
)
def test_every_structure_trains_and_what_is_loaded_gives_the_vectors_of_the_run(
    case: Case, precision: str, tiny: list[str], teacher: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the checkpoint and by the folder; sentence-transformers gives them too, or refuses the folder."""
    from sentence_transformers import SentenceTransformer

    sentences = ["a sentence", "another one, of more words than the first"]
    scored: list[Any] = []
    finish = SentRepModule.on_validation_epoch_end

    def keep(module: SentRepModule) -> None:
        with torch.autocast("cpu", enabled=False):
            scored.append(module.encoder.encode(sentences))
        finish(module)

    monkeypatch.setattr(SentRepModule, "on_validation_epoch_end", keep)
    steps = ["--trainer.max_steps=2", "--trainer.val_check_interval=2", "--trainer.gradient_clip_val=1.0"]
    assert main(["fit", *case.words, *case.flags(teacher), *tiny, *steps, f"--trainer.precision={precision}"]) == 0
    (checkpoint,) = tmp_path.glob("runs/*/version_0/checkpoints/last.ckpt")
    state = torch.load(checkpoint, weights_only=True)["state_dict"]
    assert all(value.isfinite().all() for value in state.values() if isinstance(value, torch.Tensor))
    config = yaml.safe_load(checkpoint.parents[1].joinpath("config.yaml").read_text(encoding="utf-8"))
    assert list(config["model"]["objectives"]) == list(case.tree["model"]["objectives"])
    folder = checkpoint.parents[1] / "model"
    for place in (checkpoint, folder):
        np.testing.assert_allclose(SentenceEncoder.from_pretrained(place).encode(sentences), scored[-1], atol=1e-6)
    if "sentrep." in (folder / "modules.json").read_text(encoding="utf-8"):
        with pytest.raises((ValueError, ImportError, OSError), match=r"trust_remote_code|sentrep"):
            SentenceTransformer(str(folder), device="cpu")
    else:
        theirs = SentenceTransformer(str(folder), device="cpu").encode(sentences)
        np.testing.assert_allclose(theirs, scored[-1], atol=1e-6)


@pytest.mark.parametrize("path", [*RECIPES, *TABLES], ids=lambda path: str(path.relative_to(CONFIGS)))
def test_every_file_says_what_it_is(path: Path) -> None:
    about = read_about(path)
    assert about["title"].endswith(".")
    assert path in TABLES or (about["expect"] and about["runs_on"] in ("one GPU", "two CPU cores"))
    assert "about" not in read_file(str(path))[1]


def test_rows_of_one_name_are_the_same() -> None:
    trees: dict[tuple[str, str], Tree] = {}
    for case in CASES:
        if "--row" in case.words:
            assert trees.setdefault((case.paper, case.words[-1]), case.tree) == case.tree, case.name
