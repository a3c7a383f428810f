"""README.md: its files and Python are written down as they stand there and run, its commands of `fit` take a step."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sentrep.testing import check_objective

TEXT = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
FILES = {first[1]: block for _, block in BLOCKS if (first := re.match(r"# (\w+\.\w+)\n", block))}


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with the page's files; one that is imported is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("PL_GLOBAL_SEED", raising=False)
    for name, content in FILES.items():
        Path(name).write_text(content)
    yield tmp_path
    for name in FILES:
        sys.modules.pop(Path(name).stem, None)


def test_the_objective_of_the_page_keeps_its_promises() -> None:
    check_objective(importlib.import_module("hinge").HardestNegative)
