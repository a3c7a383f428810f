"""A workplace with a tiny model, a corpus and a configuration, as a user would have them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support import FAMILIES, toy_sentences

# Without commas, so that they stand in a csv as they are; known words, so that no two are the same to the tokenizer.
SENTENCES = [sentence for sentence in toy_sentences(120) if "," not in sentence]
PAIRS = [(SENTENCES[2 * i], SENTENCES[2 * i + 1], i % 6) for i in range(12)]


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with corpus.txt, dev.csv and run.yaml (a tiny random BERT, 4 steps of batch 4)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SENTREP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PL_GLOBAL_SEED", raising=False)
    (tmp_path / "corpus.txt").write_text("".join(f"{sentence}\n" for sentence in SENTENCES[24:40]))
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
