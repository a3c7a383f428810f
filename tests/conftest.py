"""Fixtures that tests of several packages share, and the wall around them: no test reaches the network."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

WALL = Path(__file__).parent / "without_network"
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(WALL), os.environ.get("PYTHONPATH")]))
sys.path.insert(0, str(WALL))  # processes that tests start have it from the environment

sys.modules.pop("sitecustomize", None)  # a Python may come with one of its own
import sitecustomize  # noqa: E402 (it blocks when it is imported, before anything of sentrep is)

from support import tiny_encoder  # noqa: E402


@pytest.fixture(autouse=True)
def without_network(request: pytest.FixtureRequest) -> Iterator[None]:
    """Sockets reach this machine only; a test with the marker ``hub`` is let through."""
    if request.node.get_closest_marker("hub") is None:
        sitecustomize.block()
        yield
    else:
        sitecustomize.allow()
        yield
        sitecustomize.block()


@pytest.fixture(scope="session")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of a trained encoder with the toy tokenizer: mean pooling, 32 dimensions like `tiny_encoder`."""
    folder = tmp_path_factory.mktemp("teacher")
    tiny_encoder(seed=9, pooling="mean").save_pretrained(folder)
    return str(folder)
