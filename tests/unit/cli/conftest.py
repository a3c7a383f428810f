"""A workplace with a tiny model, a corpus and a configuration, as a user would have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import tiny_encoder


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a tiny encoder with mean pooling."""
    folder = tmp_path_factory.mktemp("model")
    tiny_encoder(pooling="mean").save_pretrained(folder)
    return str(folder)


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: an empty one, of a process that no launcher has started."""
    monkeypatch.chdir(tmp_path)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path
