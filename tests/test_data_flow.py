"""docs/data-flow.md: the files from token ids to the loss, as a training step runs through them."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import sentrep
from sentrep import ProjectionHead, SentRepModule
from sentrep.data import Collate, TokenRow
from sentrep.objectives import Contrastive
from support import tiny_encoder

PACKAGE = Path(sentrep.__file__).parent
PAGE = (PACKAGE.parent / "docs" / "data-flow.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| \d+ \| `(\S+)\.py` \| `(\S+)` \|", PAGE, re.MULTILINE)
TOOLS = set(re.findall(r"`(\S+)\.py`", PAGE[PAGE.index("files of tools") :].split("\n\n")[0]))


def test_every_function_of_the_table_is_there() -> None:
    assert 10 < len(ROWS) <= 14
    assert len({file for file, _ in ROWS}) == len(ROWS)
    for file, function in ROWS:
        found: Any = importlib.import_module(f"sentrep.{file.replace('/', '.')}")
        for name in function.split("."):
            found = getattr(found, name)
        assert callable(found)


def test_a_step_runs_through_these_files_and_no_other() -> None:
    encoder = tiny_encoder(dropout=0.1, products="onednn")  # as by itself on some processors
    module = SentRepModule(encoder, {"simcse": Contrastive()}, head=ProjectionHead())
    ids, _ = encoder.tokenize(["a dog", "the old dog sleeps", "a cat runs home"] * 4, encoder.max_length)
    rows = [TokenRow(number, (np.array(row),)) for number, row in enumerate(ids)]
    collate, seen = Collate(encoder.tokenize.pad_token_id), dict[str, set[str]]()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            seen.setdefault(str(path.relative_to(PACKAGE).with_suffix("")), set()).add(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        module.training_step(collate(rows), 0)
    finally:
        sys.setprofile(None)
    assert seen.keys() - TOOLS == {file for file, _ in ROWS}
    assert seen.keys() >= TOOLS
    for file, function in ROWS:
        assert function.rsplit(".", 1)[-1] in seen[file], f"{file}: {function} was not called"
