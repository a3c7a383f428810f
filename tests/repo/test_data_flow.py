"""docs/data-flow.md: the files from a recipe to the Trainer, and from token ids to the loss, as they are entered."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from lightning.pytorch import Trainer

import sentrep
from sentrep.cli import main
from sentrep.data import Collate
from support import FAMILIES

PACKAGE = Path(sentrep.__file__).parent
PAGE = (PACKAGE.parent / "docs" / "data-flow.md").read_text(encoding="utf-8")
START, _, STEP = (
    re.findall(r"^\| \d+ \| `(\S+\.py)` \| `(\S+)` \|", section, re.MULTILINE)
    for section in PAGE.split("\n## From ")[1:]
)
READ = [
    (f"data/{file}", function)
    for file, functions in re.findall(r"^\| `([\w/]+\.py)` \| (`[^|]+`) \|", PAGE, re.MULTILINE)
    for function in re.findall(r"`(\S+?)`", functions)
]
"""From ``train`` to a batch."""


def test_every_function_of_the_tables_is_there() -> None:
    for file, function in [*START, *READ, *STEP]:
        found: Any = importlib.import_module(f"sentrep.{file.removesuffix('.py').replace('/', '.')}")
        for name in function.split("."):
            found = getattr(found, name)
        assert callable(found) or isinstance(found, dict)


def follower(entered: list[str]) -> Callable[[FrameType, str, Any], None]:
    """A profiler that notes the files whose functions are called."""

    def follow(frame: FrameType, event: str, argument: Any) -> None:
        path = frame.f_code.co_filename
        named = frame.f_code.co_flags & 1 and not frame.f_code.co_name.startswith("<")  # no module, class or lambda
        if event == "call" and named and path.startswith(str(PACKAGE)):
            entered.append(str(Path(path).relative_to(PACKAGE)))

    return follow


def test_a_start_enters_these_files_in_this_order(tiny: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[str] = []
    monkeypatch.setattr(Trainer, "fit", lambda trainer, *arguments, **options: sys.setprofile(None))
    sys.setprofile(follower(entered))
    try:
        assert main(["fit", "-c", "simcse/bert-base", *tiny, "--data.train", "corpus.txt"]) == 0
    finally:
        sys.setprofile(None)
    files = [file for file, _ in START]
    assert [file for file in dict.fromkeys(entered) if file in files] == files


def test_a_start_enters_no_other_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SENTREP_CACHE", str(tmp_path / "cache"))
    entered: list[str] = []
    importlib.import_module("sentrep.cli.run")  # what a module calls while it is imported is no part of a start
    monkeypatch.setattr(Trainer, "fit", lambda trainer, *arguments, **options: sys.setprofile(None))
    sys.setprofile(follower(entered))
    try:
        assert main(["fit", "-c", "quickstart", "--trainer.accelerator", "cpu"]) == 0
    finally:
        sys.setprofile(None)
    listed = set(re.findall(r"`([\w/]+\.py)`", PAGE.split("enters these files and no other:")[1].split("\n## ")[0]))
    assert set(entered) - {"lazy.py"} == listed - {"lazy.py"}  # what was imported before asks no lazy package


def test_a_step_enters_these_files_in_this_order(tiny: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[str] = []
    follow = follower(entered)
    collate, step = Collate.__call__, sentrep.SentRepModule.training_step

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
    how = ["--trainer.max_steps", "1", "--data.val", "[]"]
    assert main(["fit", "-c", "simcse/bert-base", *tiny, "--data.train", "corpus.txt", *four_layers, *how]) == 0
    assert list(dict.fromkeys(entered)) == [file for file, _ in STEP]
