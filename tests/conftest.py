"""Fixtures that tests of several packages share."""

from __future__ import annotations

import pytest

from support import tiny_encoder


@pytest.fixture(scope="session")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of a trained encoder with the toy tokenizer: mean pooling, 32 dimensions like `tiny_encoder`."""
    folder = tmp_path_factory.mktemp("teacher")
    tiny_encoder(seed=9, pooling="mean").save_pretrained(folder)
    return str(folder)
