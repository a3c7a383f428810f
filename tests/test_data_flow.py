"""docs/data-flow.md: the files from token ids to the loss, as a training step runs through them."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import sentrep
from sentrep.cli import main
from sentrep.data import Collate
from support import FAMILIES, tiny_encoder

PACKAGE = Path(sentrep.__file__).parent
PAGE = (PACKAGE.parent / "docs" / "data-flow.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| \d+ \| `(\S+\.py)` \| `(\S+)` \|", PAGE, re.MULTILINE)
WALKS = {
    recipe: (int(changes), files.split())
    for recipe, changes, files in re.findall(r"^(\S+): \d+ files, (\d+) changes of file: (.*)$", PAGE, re.MULTILINE)
}


def test_every_function_of_the_table_is_there() -> None:
    for file, function in ROWS:
        found: Any = importlib.import_module(f"sentrep.{file.removesuffix('.py').replace('/', '.')}")
        for name in function.split("."):
            found = getattr(found, name)
        assert callable(found)


@pytest.mark.parametrize("recipe", ["simcse/bert-base", "dclr/bert-base", "denosent/bert-base-paper"])
def test_a_step_enters_these_files_and_changes_between_them_so_often(
    recipe: str, tiny: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_encoder().save_pretrained(tmp_path / "judge")
    entered: list[str] = []
    collate, step = Collate.__call__, sentrep.SentRepModule.training_step

    def follow(frame: FrameType, event: str, argument: Any) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(str(PACKAGE)):
            file = str(Path(path).relative_to(PACKAGE))
            entered.extend([file] if entered[-1:] != [file] else [])

    def first_collate(self: Any, rows: Any) -> Any:
        if not entered:
            sys.setprofile(follow)
        return collate(self, rows)

    def first_step(self: Any, *arguments: Any) -> Any:
        try:
            return step(self, *arguments)
        finally:
            sys.setprofile(None)

    monkeypatch.setattr(Collate, "__call__", first_collate)
    monkeypatch.setattr(sentrep.SentRepModule, "training_step", first_step)
    flags = {
        "dclr": ["--data.train", "corpus.txt", "--model.objectives.dclr.weighting.model", "judge"],
        "denosent": ["--data.train", "triplets.csv", "--data.columns", "[sent0, sent1]"],
    }.get(recipe.split("/")[0], ["--data.train", "corpus.txt"])
    four_layers = ["--model.encoder.backbone", json.dumps({**FAMILIES["bert"], "num_hidden_layers": 4})]
    how = ["--model.encoder.compute.products", "torch", "--trainer.max_steps", "1", "--data.val", "[]"]
    assert main(["fit", "-c", recipe, *tiny, *flags, *four_layers, *how]) == 0
    changes, files = WALKS[recipe]
    assert list(dict.fromkeys(entered)) == files
    assert len(entered) <= changes  # fewer where a chunk holds all tokens
    if recipe.startswith("simcse"):
        assert (len(entered), files) == (changes, [file for file, _ in ROWS])
