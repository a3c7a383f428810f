"""An attribute of an encoder is followed by later passes, or cannot be set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from sentrep import EncoderServices, InputError, SentenceEncoder
from sentrep.encoder import Compute, Lora
from support import text_batch, tiny_encoder, toy_sentences


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("pooling", "mean", "build another encoder"),
        ("prompt", '"[X]" means [MASK].', "build another encoder"),
        ("subtract_template", True, "build another encoder"),
        ("backbone", tiny_encoder().backbone, "build another encoder"),
        ("tokenize", tiny_encoder().tokenize, "build another encoder"),
        ("adapter", Lora(), "build another encoder"),
        ("compute", Compute(layout="padded"), "call set_compute"),
        ("sentence_modules", nn.ModuleList(), "call set_modules"),
    ],
)
def test_what_a_pass_is_built_from_cannot_be_set(name: str, value: Any, remedy: str) -> None:
    encoder = tiny_encoder()
    vectors = encoder.encode("a dog")
    with pytest.raises(InputError, match=rf"encoder\.{name} cannot be set; {remedy}"):
        setattr(encoder, name, value)
    np.testing.assert_array_equal(encoder.encode("a dog"), vectors)


def test_tokens_added_to_a_built_encoder_are_refused_before_ids_are_read_or_stored(tmp_path: Path) -> None:
    encoder = tiny_encoder()
    encoder.tokenize.tokenizer.add_tokens(["kubernetes"])
    for use in (
        lambda: encoder.encode("a dog"),
        lambda: encoder.tokenize.fingerprint,
        lambda: EncoderServices(encoder, 0).frozen("teacher"),
        lambda: encoder.save_pretrained(tmp_path / "model"),
    ):
        with pytest.raises(InputError, match=r"had 2110 tokens .* has 2111 now; add tokens to a model folder"):
            use()


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_layers_may_be_cut_off(pooling: str, tmp_path: Path) -> None:
    encoder = tiny_encoder(pooling=pooling)
    encoder.backbone.encoder.layer = encoder.backbone.encoder.layer[:1]
    encoder.backbone.config.num_hidden_layers = 1
    encoder(text_batch(encoder, toy_sentences(4)).anchor).embedding.sum().backward()
    vectors = encoder.encode(toy_sentences(4))
    with torch.no_grad():
        inputs = encoder.tokenize.tokenizer(toy_sentences(4), return_tensors="pt", padding=True)
        states = encoder.eval().backbone(**inputs).last_hidden_state
    if pooling == "cls":
        np.testing.assert_allclose(vectors, states[:, 0].numpy(), atol=1e-5)
    encoder.save_pretrained(tmp_path)
    loaded = SentenceEncoder.from_pretrained(tmp_path)
    np.testing.assert_allclose(loaded.encode(toy_sentences(4)), vectors, atol=1e-6)


def test_a_weight_has_one_name() -> None:
    encoder = tiny_encoder(pooling="mean", prompt='"[X]" means [MASK].')
    assert {name.partition(".")[0] for name in encoder.state_dict()} == {"backbone"}
    assert all(module is encoder.backbone for module in encoder.model.modules() if type(module).__name__ == "BertModel")
