"""A workplace with a tiny model, a corpus and a configuration, as a user would have them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support import FAMILIES

PAIRS = [(f"a cat sat on mat {i}", f"a dog ran over hill {i * 7 % 5}", i % 6) for i in range(12)]


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with corpus.txt, dev.csv and run.yaml (a tiny random BERT, 4 steps of batch 4)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PL_GLOBAL_SEED", raising=False)
    (tmp_path / "corpus.txt").write_text("".join(f"the number {i} is here\n" for i in range(16)))
    rows = [f"{first},{second},{score}\n" for first, second, score in PAIRS]
    (tmp_path / "dev.csv").write_text("".join(["sentence1,sentence2,score\n", *rows]))
    configuration = {
        "model": {
            "encoder": {"backbone": FAMILIES["bert"], "tokenizer": "toy", "pooling": "mean"},
            "head": {"kind": "mlp"},
            "objectives": {"simcse": {"class_path": "Contrastive", "init_args": {"temperature": 0.1}}},
        },
        "data": {"train": "corpus.txt", "val": ["dev.csv"], "batch_size": 4},
        "trainer": {
            "max_steps": 4,
            "val_check_interval": 2,
            "accelerator": "cpu",
            "enable_model_summary": False,
            "enable_progress_bar": False,
        },
    }
    (tmp_path / "run.yaml").write_text(json.dumps(configuration))  # JSON is YAML
    return tmp_path
