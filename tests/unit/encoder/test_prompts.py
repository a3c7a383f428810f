"""Prompts by name, beside sentence-transformers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sentrep import SentenceEncoder
from sentrep.errors import InputError
from support import tiny_encoder

PROMPTS = {"query": "who asks: ", "passage": "it says: "}


@pytest.mark.slow
def test_prompts_travel_and_are_those_of_sentence_transformers(tmp_path: Path) -> None:
    encoder = tiny_encoder(pooling="mean").eval()
    encoder.prompts = PROMPTS
    encoder.save_pretrained(tmp_path / "model")
    again = SentenceEncoder.from_pretrained(tmp_path / "model")
    assert again.prompts == {**PROMPTS, "document": ""}  # as there
    np.testing.assert_array_equal(encoder.encode("a cat"), again.encode("a cat"))  # takes none
    np.testing.assert_array_equal(encoder.encode_query("a cat"), again.encode(["who asks: a cat"])[0])
    from sentence_transformers import SentenceTransformer

    theirs = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    for name in ("encode_query", "encode_document"):
        np.testing.assert_allclose(getattr(again, name)(["a cat"]), getattr(theirs, name)(["a cat"]), atol=1e-5)
    theirs.save(str(tmp_path / "theirs"))
    assert SentenceEncoder.from_pretrained(tmp_path / "theirs").prompts == again.prompts
    tiny_encoder(pooling="mean").save_pretrained(tmp_path / "model")
    assert not any(SentenceEncoder.from_pretrained(tmp_path / "model").prompts.values())
    stored = json.loads((tmp_path / "theirs/config_sentence_transformers.json").read_text())
    (tmp_path / "theirs/config_sentence_transformers.json").write_text(json.dumps({**stored, "prompts": {"query": 3}}))
    with pytest.raises(InputError, match="holds no model that sentence-transformers can load"):
        SentenceEncoder.from_pretrained(tmp_path / "theirs")
