"""Where a model is looked for by its name, and which of a hub's files are fetched."""

from __future__ import annotations

import fnmatch
import shutil
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pytest

from sentrep import InputError, SentenceEncoder
from support import tiny_encoder


@pytest.fixture
def fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A hub with one model, sentence-transformers/tiny, which in more forms than are needed; what was fetched."""
    there, cache = tmp_path / "there", tmp_path / "cache"
    tiny_encoder(pooling="mean").save_pretrained(there)
    (there / "onnx").mkdir()
    for name in ("pytorch_model.bin", "tf_model.h5", "onnx/model.onnx", "onnx/model.onnx_data"):
        (there / name).write_text("x")
    asked: list[str] = []

    def snapshot(name: str, revision: Any = None, ignore_patterns: Any = (), allow_patterns: str = "*") -> str:
        if name != "sentence-transformers/tiny":
            raise OSError(name)
        for path in filter(Path.is_file, there.rglob("*")):
            file = path.relative_to(there).as_posix()
            left_out = any(fnmatch.fnmatch(file, pattern) for pattern in ignore_patterns)
            if fnmatch.fnmatch(file, allow_patterns) and not left_out:
                (cache / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, cache / file)
                asked.append(file)
        return str(cache)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    return asked


def test_a_short_name_stands_for_a_model_of_sentence_transformers(fetched: list[str]) -> None:
    encoder = SentenceEncoder.from_pretrained("tiny")
    assert encoder.pooling == "mean"
    assert "model.safetensors" in fetched
    assert not any("onnx" in file or file.endswith((".bin", ".h5")) for file in fetched)
    np.testing.assert_array_equal(SentenceEncoder("tiny", "mean").eval().encode("a"), encoder.encode("a"))
    with pytest.raises(InputError, match="the model hub did not answer or has no such model"):
        SentenceEncoder.from_pretrained("someone/tiny")


def test_older_weights_are_fetched_where_there_are_no_others(fetched: list[str], tmp_path: Path) -> None:
    (tmp_path / "there" / "model.safetensors").unlink()
    with pytest.raises(InputError, match="tiny: this folder holds no model"):  # as they are none
        SentenceEncoder.from_pretrained("tiny")
    assert "pytorch_model.bin" in fetched


def test_a_tokenizer_is_fetched_without_weights(fetched: list[str]) -> None:
    tiny_encoder(tokenizer="tiny")
    assert "tokenizer.json" in fetched
    assert not any(file.endswith((".safetensors", ".bin")) for file in fetched)
