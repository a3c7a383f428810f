"""The JSON schema of recipes for editors accepts every shipped recipe, and marks a misspelt key at any depth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
RECIPES = sorted({*ROOT.glob("configs/**/*.yaml")} - {*ROOT.glob("configs/*/tables/*")})


@pytest.fixture(scope="module")
def schema() -> Any:
    jsonschema = pytest.importorskip("jsonschema", reason="reads a JSON schema")
    return jsonschema.Draft7Validator(json.loads((ROOT / "docs/recipe.schema.json").read_text("utf-8")))


def test_the_schema_accepts_every_shipped_recipe(schema: Any) -> None:
    for path in RECIPES:
        assert not [*schema.iter_errors(yaml.safe_load(path.read_text("utf-8")))], path


@pytest.mark.parametrize(
    "misspelt",
    [
        {"modle": {}},
        {"model": {"warmup": 3}},
        {"model": {"encoder": {"pool": "cls"}}},
        {"model": {"encoder": {"compute": {"layouts": "auto"}}}},
        {"model": {"objectives": {"a": {"class_path": "Contrastive", "init_args": {"temprature": 0.1}}}}},
        {"model": {"objectives": {"a": {"class_path": "sentrep.objectives.Contrastive", "temprature": 0.1}}}},
        {"model": {"objectives": {"a": {"class_path": "Contrastive", "init_args": {"negatives": {"b": {
            "class_path": "MemoryBank", "init_args": {"length": 3}}}}}}}},
        {"model": {"views": {"class_path": "EncodedViews", "init_args": {"augmentations": [
            {"class_path": "TokenDeletion", "init_args": {"share": 0.1}}]}}}},
        {"data": {"batch_size": "large"}},
        {"trainer": {"max_step": 3}},
        {"checkpoint": {"class_path": "sentrep.training.BestCheckpoint", "init_args": {"monitr": "val/sts"}}},
    ],
    ids=lambda tree: "-".join(tree),
)  # fmt: skip
def test_the_schema_marks_a_misspelt_key(schema: Any, misspelt: dict[str, Any]) -> None:
    assert [*schema.iter_errors(misspelt)]


def test_a_user_s_own_class_and_the_value_of_another_key_are_accepted(schema: Any) -> None:
    own = {"class_path": "mine.Own", "init_args": {"anything": 1}}
    tree = {"model": {"objectives": {"a": own, "b": None}}, "data": {"batch_size": "${trainer.max_steps}"}}
    assert not [*schema.iter_errors(tree)]
