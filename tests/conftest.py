"""Fixtures that tests of several packages share, and the wall around them: no test reaches the network."""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from multiprocessing import forkserver
from pathlib import Path
from unittest import mock

import pytest
import torch

WALL = Path(__file__).parent / "without_network"
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(WALL), os.environ.get("PYTHONPATH")]))
sys.path.insert(0, str(WALL))  # processes that tests start have it from the environment

CACHE = tempfile.TemporaryDirectory(prefix="sentrep-tests-")
os.environ["HF_DATASETS_CACHE"] = CACHE.name  # `datasets` reads it when it is imported

if not hasattr(sys.modules.get("sitecustomize"), "blocked"):
    sys.modules.pop("sitecustomize", None)  # a Python may come with one of its own
import sitecustomize  # noqa: E402 (it blocks when it is imported, before anything of sentrep is)

from sentrep import SentenceEncoder  # noqa: E402
from sentrep.evaluation import plot_training_curves  # noqa: E402
from sentrep.training import run_report  # noqa: E402
from support import FAMILIES, PRELOADED, tiny_encoder, toy_sentences, write_workplace  # noqa: E402

# Lightning keeps its lines from the root logger, where `caplog` listens, if that had no handler when it was imported
logging.getLogger("lightning.pytorch").propagate = True


def pytest_sessionstart() -> None:
    """What tests need is imported before the first of them, in a worker and, meanwhile, in its server of processes."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        forkserver.ensure_running()
        for name in PRELOADED:
            importlib.import_module(name)


@pytest.fixture(autouse=True)
def own_environment() -> Iterator[None]:
    """What a test writes into the environment ends with it: Accelerate takes a left LOCAL_RANK for a launcher."""
    with mock.patch.dict(os.environ):
        yield


@pytest.fixture(autouse=True)
def without_network(request: pytest.FixtureRequest) -> Iterator[None]:
    """Sockets reach this machine only; a test with the marker ``hub`` is let through."""
    sitecustomize.blocked = request.node.get_closest_marker("hub") is None
    yield
    sitecustomize.blocked = True


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tracebacks are kept in a folder of these tests, not in the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SENTREP_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def without_curves() -> Iterator[None]:
    """The picture of a run, a fifth of a small run's time, is an empty file; the fixture ``curves`` draws it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_report, "plot_training_curves", lambda history, path, **_: Path(path).touch())
        yield


@pytest.fixture
def encoder() -> SentenceEncoder:
    """A tiny BERT of random weights, with the tokenizer of the toy corpus."""
    return tiny_encoder()


@pytest.fixture(scope="session")
def tracer() -> None:
    """What torch loads for its first graph, which takes longer than to trace one, is loaded."""
    torch.compile(torch.sin, backend="eager")(torch.ones(1))


@pytest.fixture
def curves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs draw their curves."""
    monkeypatch.setattr(run_report, "plot_training_curves", plot_training_curves)


@pytest.fixture(scope="session")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of a trained encoder with the toy tokenizer: mean pooling, 32 dimensions like `tiny_encoder`."""
    folder = tmp_path_factory.mktemp("teacher")
    tiny_encoder(seed=9, pooling="mean").save_pretrained(folder)
    return str(folder)


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Flags that put a tiny model, corpus and development set into any recipe; the current folder is empty."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PL_GLOBAL_SEED", raising=False)
    texts = [sentence for sentence in toy_sentences(200) if "," not in sentence]
    triplets = [",".join(texts[i : i + 3]) for i in range(0, 60, 3)]
    (tmp_path / "triplets.csv").write_text("\n".join(["sent0,sent1,hard_neg", *triplets]) + "\n")
    (tmp_path / "corpus.txt").write_text("\n".join(texts[:40]) + "\n")
    pairs = [f"{texts[2 * i]},{texts[2 * i + 1]},{i}" for i in range(6)]
    (tmp_path / "dev.csv").write_text("\n".join(["sentence1,sentence2,score", *pairs]) + "\n")
    (tmp_path / "tiny.yaml").write_text(
        json.dumps(
            {
                "model": {"encoder": {"backbone": FAMILIES["bert"], "tokenizer": "toy"}},
                "data": {"val": ["dev.csv"], "test": ["dev.csv"], "batch_size": 4},
                "trainer": {"max_steps": 3, "val_check_interval": 3, "accelerator": "cpu"},
            }
        )
    )
    return ["-c", "tiny.yaml", "--trainer.enable_progress_bar", "false", "--trainer.enable_model_summary", "false"]


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with corpus.txt, dev.csv and run.yaml (a tiny random BERT, 4 steps of batch 4)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SENTREP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PL_GLOBAL_SEED", raising=False)
    write_workplace(tmp_path)
    return tmp_path
