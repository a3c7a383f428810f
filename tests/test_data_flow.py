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
from support import FAMILIES

PACKAGE = Path(sentrep.__file__).parent
PAGE = (PACKAGE.parent / "docs" / "data-flow.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| \d+ \| `(\S+\.py)` \| `(\S+)` \|", PAGE, re.MULTILINE)


def test_every_function_of_the_table_is_there() -> None:
    for file, function in ROWS:
        found: Any = importlib.import_module(f"sentrep.{file.removesuffix('.py').replace('/', '.')}")
        for name in function.split("."):
            found = getattr(found, name)
        assert callable(found)


def test_a_step_enters_these_files_in_this_order(tiny: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[str] = []
    collate, step = Collate.__call__, sentrep.SentRepModule.training_step

    def follow(frame: FrameType, event: str, argument: Any) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(str(PACKAGE)):
            file = str(Path(path).relative_to(PACKAGE))
            entered.append(file)

    def followed(function: Any, *arguments: Any) -> Any:
        """Between the two, the trainer's callbacks run, which are no part of the step."""
        sys.setprofile(follow)
        try:
            return function(*arguments)
        finally:
            sys.setprofile(None)

    def first_collate(self: Any, rows: Any) -> Any:
        return collate(self, rows) if entered else followed(collate, self, rows)

    def first_step(self: Any, *arguments: Any) -> Any:
        return followed(step, self, *arguments)

    monkeypatch.setattr(Collate, "__call__", first_collate)
    monkeypatch.setattr(sentrep.SentRepModule, "training_step", first_step)
    four_layers = ["--model.encoder.backbone", json.dumps({**FAMILIES["bert"], "num_hidden_layers": 4})]
    how = ["--model.encoder.compute.products", "torch", "--trainer.max_steps", "1", "--data.val", "[]"]
    assert main(["fit", "-c", "simcse/bert-base", *tiny, "--data.train", "corpus.txt", *four_layers, *how]) == 0
    assert list(dict.fromkeys(entered)) == [file for file, _ in ROWS]
