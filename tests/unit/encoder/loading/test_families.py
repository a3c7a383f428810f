"""Families that need something of their own: loaded, trained and encoded as in sentence-transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers
from sentence_transformers import SentenceTransformer

from sentrep import InputError, SentenceEncoder
from sentrep.data import toy
from support import FAMILIES, text_batch, toy_sentences

T5 = {
    "model_type": "t5", "vocab_size": 4000, "d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 2, "num_heads": 2,
    "pad_token_id": 0,
}  # fmt: skip
OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "nomic-bert": ({**FAMILIES["bert"], "model_type": "nomic_bert"}, "NomicBertModel"),
    "layoutlm": ({**FAMILIES["bert"], "model_type": "layoutlm"}, "LayoutLMModel"),
    "the encoder of a T5": (T5, "T5EncoderModel"),
    "a whole T5": (T5, "T5Model"),
}


def written(name: str, folder: Path) -> Path:
    """A folder of transformers."""
    description, model = OTHERS[name]
    config = transformers.AutoConfig.for_model(**description)
    getattr(transformers, model)(config).save_pretrained(folder)
    toy.tokenizer().save_pretrained(folder)
    return folder


@pytest.mark.parametrize("name", OTHERS)
def test_a_family_loads_trains_and_encodes_as_elsewhere(name: str, tmp_path: Path) -> None:
    encoder = SentenceEncoder(str(written(name, tmp_path / "given")), pooling="mean")
    output = encoder(text_batch(encoder, toy_sentences(4)).anchor)
    output.embedding.square().sum().backward()
    assert all(parameter.grad is not None for parameter in encoder.parameters() if parameter.requires_grad)
    vectors = encoder.encode(toy_sentences(4))
    encoder.save_pretrained(tmp_path / "saved")
    for loaded in (
        SentenceEncoder.from_pretrained(tmp_path / "saved"),
        SentenceTransformer(str(tmp_path / "saved"), device="cpu"),
    ):
        np.testing.assert_allclose(loaded.encode(toy_sentences(4)), vectors, atol=1e-6)


def test_the_pooler_of_a_nomic_bert_is_loaded(tmp_path: Path) -> None:
    description, _ = OTHERS["nomic-bert"]
    encoder = SentenceEncoder(dict(description), tokenizer="toy", pooling="pooler")
    with pytest.warns(UserWarning, match="refuses it otherwise"):
        encoder.save_pretrained(tmp_path)
    np.testing.assert_array_equal(SentenceEncoder.from_pretrained(tmp_path).encode("a dog"), encoder.encode("a dog"))


def test_an_encoder_decoder_without_an_encoder_of_its_own_is_refused() -> None:
    with pytest.raises(InputError, match="bart is an encoder-decoder model"):
        SentenceEncoder({"model_type": "bart"}, tokenizer="toy")
