"""Every file under configs/ trains a few steps on a tiny encoder, with the flags that its own header names."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sentrep.cli import main
from support import FAMILIES, toy_sentences

CONFIGS = Path(__file__).resolve().parents[1] / "configs"
OVERRIDE = CONFIGS / "overrides" / "minilm.yaml"
RECIPES = sorted(path for path in CONFIGS.rglob("*.yaml") if path.parent != OVERRIDE.parent)


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Flags that put a tiny model, corpus and development set into any recipe; the current folder is empty."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PL_GLOBAL_SEED", raising=False)
    texts = [sentence for sentence in toy_sentences(200) if "," not in sentence]
    triplets = [",".join(texts[i : i + 3]) for i in range(0, 60, 3)]
    (tmp_path / "triplets.csv").write_text("\n".join(["sent0,sent1,hard_neg", *triplets]) + "\n")
    (tmp_path / "corpus.txt").write_text("\n".join(texts[:40]) + "\n")
    pairs = [f"{texts[2 * i]},{texts[2 * i + 1]},{i}" for i in range(6)]
    (tmp_path / "dev.csv").write_text("\n".join(["sentence1,sentence2,score", *pairs]) + "\n")
    (tmp_path / "tiny.yaml").write_text(
        json.dumps(
            {
                "model": {"encoder": {"backbone": FAMILIES["bert"], "tokenizer": "toy"}},
                "data": {"val": ["dev.csv"], "test": ["dev.csv"], "batch_size": 4},
                "trainer": {"max_steps": 3, "val_check_interval": 3, "accelerator": "cpu"},
            }
        )
    )
    return ["-c", "tiny.yaml", "--trainer.enable_progress_bar", "false", "--trainer.enable_model_summary", "false"]


def flags(recipe: Path, teacher: str) -> list[str]:
    """The header's own flags for local data and models; the tiny model, which has no folder, comes by a file."""
    header = recipe.read_text(encoding="utf-8").split("\n\n")[0]
    frozen = [key for key in re.findall(r"(--\S+) FOLDER", header) if key != "--model.encoder.backbone"]
    corpus = "triplets.csv" if "sent1" in recipe.read_text(encoding="utf-8") else "corpus.txt"
    overrides = ["-c", str(OVERRIDE)] if "overrides/minilm.yaml" in header else []
    return [*overrides, "--data.train", corpus, *(word for key in frozen for word in (key, teacher))]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: str(path.relative_to(CONFIGS)))
def test_every_recipe_trains(recipe: Path, tiny: list[str], teacher: str, tmp_path: Path) -> None:
    assert main(["fit", "-c", str(recipe), *flags(recipe, teacher), *tiny]) == 0
    (checkpoint,) = tmp_path.rglob("last.ckpt")
    assert checkpoint.stat().st_size > 0


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
