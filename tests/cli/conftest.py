"""A workplace with a tiny model, a corpus and a configuration, as a user would have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import write_workplace


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with corpus.txt, dev.csv and run.yaml (a tiny random BERT, 4 steps of batch 4)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SENTREP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PL_GLOBAL_SEED", raising=False)
    write_workplace(tmp_path)
    return tmp_path
