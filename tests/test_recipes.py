"""Every file under configs/ trains a few steps on a tiny encoder, with the flags that its own header names.

Recipes that differ in numbers and names alone take the same paths: by default one of them trains, and the others are
read and checked key by key. With the marker ``slow`` all of them train.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
import yaml

from sentrep.cli import main

CONFIGS = Path(__file__).resolve().parents[1] / "configs"
OVERRIDE = CONFIGS / "overrides" / "minilm.yaml"
RECIPES = sorted(path for path in CONFIGS.rglob("*.yaml") if path.parent != OVERRIDE.parent)


def flags(recipe: Path, teacher: str) -> list[str]:
    """The header's own flags for local data and models; the tiny model, which has no folder, comes by a file."""
    header = recipe.read_text(encoding="utf-8").split("\n\n")[0]
    frozen = [key for key in re.findall(r"(--\S+) FOLDER", header) if key != "--model.encoder.backbone"]
    corpus = "triplets.csv" if "sent1" in recipe.read_text(encoding="utf-8") else "corpus.txt"
    overrides = ["-c", str(OVERRIDE)] if "overrides/minilm.yaml" in header else []
    return [*overrides, "--data.train", corpus, *(word for key in frozen for word in (key, teacher))]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: str(path.relative_to(CONFIGS)))
def test_every_recipe_is_read(recipe: Path, tiny: list[str], teacher: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "-c", str(recipe), *flags(recipe, teacher), *tiny, "--print_config"]) == 0
    assert yaml.safe_load(capsys.readouterr().out)["model"]["encoder"]


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: str(path.relative_to(CONFIGS)))
def test_every_recipe_trains(recipe: Path, tiny: list[str], teacher: str, tmp_path: Path) -> None:
    assert main(["fit", "-c", str(recipe), *flags(recipe, teacher), *tiny]) == 0
    (checkpoint,) = tmp_path.rglob("last.ckpt")
    assert checkpoint.stat().st_size > 0


def structure(recipe: Path) -> str:
    """What tells recipes apart but for numbers and names of models: classes, pooling, prompt, columns."""
    tree = yaml.safe_load(recipe.read_text(encoding="utf-8"))
    encoder = {key: bool(value) for key, value in tree["model"]["encoder"].items() if key in ("prompt", "pretrained")}
    classes = re.findall(r"class_path: (\S+)|views: (\w+)", recipe.read_text(encoding="utf-8"))
    return repr((sorted(classes), encoder, len(tree["data"].get("columns") or [])))


STRUCTURES = list({structure(recipe): recipe for recipe in reversed(RECIPES)}.values())


@pytest.mark.parametrize("recipe", STRUCTURES, ids=lambda path: str(path.relative_to(CONFIGS)))
def test_every_structure_trains_in_bf16_with_clipped_gradients(
    recipe: Path, tiny: list[str], teacher: str, tmp_path: Path
) -> None:
    options = ["--trainer.precision", "bf16-mixed", "--trainer.gradient_clip_val", "1.0", "--trainer.max_steps", "2"]
    assert main(["fit", "-c", str(recipe), *flags(recipe, teacher), *tiny, *options]) == 0
    (checkpoint,) = tmp_path.rglob("last.ckpt")
    state = torch.load(checkpoint, weights_only=True)["state_dict"]
    assert all(value.isfinite().all() for value in state.values() if isinstance(value, torch.Tensor))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: str(path.relative_to(CONFIGS)))
def test_every_recipe_says_how_to_run_it(recipe: Path) -> None:
    header = recipe.read_text(encoding="utf-8").split("\n\n")[0]
    name = recipe.relative_to(CONFIGS.parent)
    assert f"# Run:    sentrep fit --config {name}" in header
    assert "# Expect: " in header
    assert all(line.startswith("#") for line in header.splitlines())


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: str(path.relative_to(CONFIGS)))
def test_every_recipes_adamw_is_fused(recipe: Path) -> None:
    text = recipe.read_text(encoding="utf-8")
    assert text.count("fused: true") == text.count("class_path: torch.optim.AdamW")
