"""Every recipe and every row of a table under configs/ can be built; one of each structure trains on a tiny encoder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from lightning.pytorch import Trainer

from sentrep.cli import main
from sentrep.cli.configuration import Tree, read_config
from sentrep.cli.paper_tables import read_table

CONFIGS = Path(__file__).resolve().parents[1] / "configs"
OVERRIDE = CONFIGS / "overrides" / "minilm.yaml"
TABLES = sorted(CONFIGS.glob("*/tables/*.yaml"))
RECIPES = sorted({*CONFIGS.rglob("*.yaml")} - {*TABLES, *OVERRIDE.parent.iterdir()})


@dataclass(frozen=True)
class Case:
    """A recipe, or a row of a table."""

    name: str
    words: list[str]
    tree: Tree
    header: str

    def flags(self, teacher: str) -> list[str]:
        """Local data and models; the tiny model, which has no folder, comes by a file."""
        columns = self.tree["data"].get("columns")
        overrides = ["-c", str(OVERRIDE)] if "overrides/minilm.yaml" in self.header else []
        train = ["--data.train", "triplets.csv" if columns else "corpus.txt"]
        return [*overrides, *train, *(word for key in frozen_models(self.tree) for word in (f"--{key}", teacher))]

    def structure(self) -> str:
        """What tells recipes apart but for numbers and names of models: classes, pooling, prompt, columns."""
        keys = ("prompt", "pretrained")
        encoder = {key: bool(value) for key, value in self.tree["model"]["encoder"].items() if key in keys}
        classes = re.findall(r"class_path: (\S+)|views: (\w+)", yaml.safe_dump(self.tree))
        return repr((sorted(classes), encoder, len(self.tree["data"].get("columns") or [])))


def frozen_models(tree: Any, path: str = "") -> Iterator[str]:
    """The dotted keys of frozen encoders: a plug-in's argument ``model``."""
    if not isinstance(tree, dict):
        return
    if "class_path" in tree and "model" in tree.get("init_args", {}):
        yield f"{path}.model"
    for key, value in (tree.get("init_args", {}) if "class_path" in tree else tree).items():
        yield from frozen_models(value, f"{path}.{key}" if path else key)


def header(path: Path) -> str:
    return path.read_text(encoding="utf-8").split("\n\n")[0]


def cases() -> Iterator[Case]:
    for path in RECIPES:
        name = str(path.relative_to(CONFIGS).with_suffix(""))
        yield Case(name, ["-c", str(path)], read_config(str(path))[1], header(path))
    for path in TABLES:
        for name, row in read_table(str(path)).rows.items():
            words = ["--table", str(path), "--row", name]
            if row.absent is None and not row.untrained:
                yield Case(f"{path.relative_to(CONFIGS)}: {name}", words, row.tree, header(path))


CASES = list(cases())
STRUCTURES = list({case.structure(): case for case in reversed(CASES)}.values())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_recipe_and_row_is_built(
    case: Case, tiny: list[str], teacher: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[tuple[Any, ...]] = []
    monkeypatch.setattr(Trainer, "fit", lambda trainer, model, **kwargs: built.append((trainer, model, kwargs)))
    assert main(["fit", *case.words, *case.flags(teacher), *tiny]) == 0
    ((trainer, model, _),) = built
    assert list(model.objectives.terms) == list(case.tree["model"]["objectives"])
    assert trainer.logger.name == case.words[-1].rsplit("/", 1)[-1].removesuffix(".yaml")


@pytest.mark.parametrize(
    "options",
    [
        pytest.param([], marks=pytest.mark.slow, id="fp32"),
        pytest.param(["--trainer.precision=bf16-mixed", "--trainer.gradient_clip_val=1.0"], id="bf16, clipped"),
    ],
)
@pytest.mark.parametrize("case", STRUCTURES, ids=lambda case: case.name)
def test_every_structure_trains(case: Case, options: list[str], tiny: list[str], teacher: str, tmp_path: Path) -> None:
    assert main(["fit", *case.words, *case.flags(teacher), *tiny, "--trainer.max_steps", "2", *options]) == 0
    (checkpoint,) = tmp_path.rglob("last.ckpt")
    state = torch.load(checkpoint, weights_only=True)["state_dict"]
    assert all(value.isfinite().all() for value in state.values() if isinstance(value, torch.Tensor))


@pytest.mark.parametrize("path", [*RECIPES, *TABLES], ids=lambda path: str(path.relative_to(CONFIGS)))
def test_every_file_says_how_to_run_it(path: Path) -> None:
    command = "fit --config" if path in RECIPES else "compare --table"
    assert f"# Run:    sentrep {command} {path.relative_to(CONFIGS.parent)}" in header(path)
    assert path in TABLES or "# Expect: " in header(path)
    assert all(line.startswith("#") for line in header(path).splitlines())


def test_the_row_of_a_tables_header_is_there() -> None:
    for path in TABLES:
        assert re.search(r"^# Row:    sentrep fit --table \S+ --row (\S+)", header(path), re.MULTILINE)[1] in (
            read_table(str(path)).rows
        )


def test_rows_of_one_name_are_the_same() -> None:
    trees: dict[tuple[str, str], Tree] = {}
    for path in TABLES:
        for name, row in read_table(str(path)).rows.items():
            assert trees.setdefault((path.parts[-3], name), row.tree) == row.tree, f"{path}: {name}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_adamw_is_fused(case: Case) -> None:
    text = yaml.dump(case.tree, Dumper=WithoutAliases)
    assert text.count("fused: true") == text.count("class_path: torch.optim.AdamW")


class WithoutAliases(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True
