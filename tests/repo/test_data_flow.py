"""docs/data-flow.md: the files from a recipe to the Trainer, and from token ids to the loss, as they are entered."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterator
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


@pytest.fixture
def entered() -> Iterator[list[str]]:
    """The files whose functions are called in what `sys.setprofile` follows by `note`, in this order."""
    FOUND.clear()
    yield FOUND
    sys.setprofile(None)


FOUND: list[str] = []


def note(frame: FrameType, event: str, argument: Any) -> None:
    """Profiler: note the file of a function, which is no module, class or lambda."""
    path = frame.f_code.co_filename
    named = frame.f_code.co_flags & 1 and not frame.f_code.co_name.startswith("<")
    if event == "call" and named and path.startswith(str(PACKAGE)):
        FOUND.append(str(Path(path).relative_to(PACKAGE)))


@pytest.mark.slow
def test_a_start_enters_these_files_in_this_order_and_no_other(
    entered: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SENTREP_CACHE", str(tmp_path / "cache"))
    importlib.import_module("sentrep.cli.run")  # what a module calls while it is imported is no part of a start
    monkeypatch.setattr(Trainer, "fit", lambda trainer, *arguments, **options: sys.setprofile(None))
    sys.setprofile(note)
    assert main(["fit", "-c", "quickstart", "--trainer.accelerator", "cpu"]) == 0
    files = [file for file, _ in START]
    assert [file for file in dict.fromkeys(entered) if file in files] == files
    listed = set(re.findall(r"`([\w/]+\.py)`", PAGE.split("enters these files and no other:")[1].split("\n## ")[0]))
    assert set(entered) - {"lazy.py"} == listed - {"lazy.py"}  # what was imported before asks no lazy package


def test_a_step_enters_these_files_in_this_order(
    entered: list[str], tiny: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the collator and the step, the trainer's callbacks run, which are no part of the step."""

    def followed(function: Any) -> Any:
        def follow(*arguments: Any) -> Any:
            sys.setprofile(note)
            try:
                return function(*arguments)
            finally:
                sys.setprofile(None)

        return follow

    monkeypatch.setattr(Collate, "__call__", followed(Collate.__call__))
    monkeypatch.setattr(sentrep.SentRepModule, "training_step", followed(sentrep.SentRepModule.training_step))
    four_layers = ["--model.encoder.backbone", json.dumps({**FAMILIES["bert"], "num_hidden_layers": 4})]
    how = ["--trainer.max_steps", "1", "--data.val", "[]"]
    assert main(["fit", "-c", "simcse/bert-base", *tiny, "--data.train", "corpus.txt", *four_layers, *how]) == 0
    assert list(dict.fromkeys(entered)) == [file for file, _ in STEP]
