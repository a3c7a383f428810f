"""The masked-LM head: the family's own, on the trained word embeddings, without a second backbone or a network."""

from __future__ import annotations

import socket
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForMaskedLM

from sentrep import EncoderServices, InputError, SentenceEncoder
from support import FAMILIES, shared_path, text_batch, tiny_encoder, toy_sentences

SIZES: dict[str, Any] = {key: value for key, value in FAMILIES["bert"].items() if key != "model_type"}
CONFIGS: dict[str, dict[str, Any]] = {**FAMILIES, "deberta-v2": {"model_type": "deberta-v2", **SIZES}}
"""Every family of the encoder, and the one whose head transformers ties in a way of its own."""


def encoder_of(family: str, **arguments: Any) -> SentenceEncoder:
    torch.manual_seed(0)
    return SentenceEncoder(dict(CONFIGS[family]), tokenizer="toy", **arguments)


def saved_model(family: str, folder: Path, **config: Any) -> Any:
    """A masked-LM model of transformers with the toy tokenizer, in ``folder``."""
    encoder = encoder_of(family)
    torch.manual_seed(5)
    model = AutoModelForMaskedLM.from_config(encoder.backbone.config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)  # biases and norms too
    model.save_pretrained(folder)
    encoder.tokenize.tokenizer.save_pretrained(folder)
    return model.eval()


@pytest.mark.parametrize("family", CONFIGS)
def test_the_logits_are_those_of_the_masked_lm_model(family: str, tmp_path: Path) -> None:
    model = saved_model(family, tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder = SentenceEncoder(str(tmp_path), dropout=0.0)
        head = encoder.language_model_head(0)
    tokens = text_batch(encoder, toy_sentences(5)).anchor
    real = tokens.attention_mask.bool()
    expected = model(input_ids=tokens.input_ids, attention_mask=tokens.attention_mask).logits
    states = encoder(tokens).token_states
    torch.testing.assert_close(head(states)[real], expected[real], atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(head(states[real]), expected[real], atol=2e-5, rtol=1e-4)  # on (n, H) rows
    torch.testing.assert_close(head(states[0, 0]), expected[0, 0], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("family", CONFIGS)
def test_the_output_is_the_trained_word_embedding(family: str) -> None:
    encoder = encoder_of(family)
    head = encoder.language_model_head(0)
    words = encoder.backbone.get_input_embeddings().weight
    assert any(parameter is words for parameter in head.parameters())
    own = [parameter for parameter in head.parameters() if parameter is not words]
    assert sum(parameter.numel() for parameter in own) <= 32 * 32 + 3 * 32 + 4000, "more than transform and bias"
    both = torch.nn.ModuleList([encoder, head])
    assert len(list(both.parameters())) == len(list(encoder.parameters())) + len(own)
    assert head.training
    head(torch.randn(3, 32)).logsumexp(-1).sum().backward()
    for parameter in head.parameters():
        assert parameter.grad is not None
    assert words.grad.abs().sum() > 0


def test_fresh_weights_depend_on_the_seed_alone_and_leave_the_generator_as_it_was() -> None:
    encoder = tiny_encoder()
    heads = []
    for seed in (1, 1, 2):
        torch.manual_seed(len(heads))
        before = torch.get_rng_state()
        heads.append(encoder.language_model_head(seed).state_dict())
        assert torch.equal(torch.get_rng_state(), before)
    dense = "model.cls.predictions.transform.dense.weight"
    assert torch.equal(heads[0][dense], heads[1][dense])
    assert not torch.equal(heads[0][dense], heads[2][dense])
    assert 0.01 < heads[0][dense].std() < 0.03  # as the family initialises it


def test_a_source_without_a_head_is_warned_of_once_and_gets_a_fresh_one(tmp_path: Path) -> None:
    tiny_encoder().save_pretrained(tmp_path / "plain")
    encoder = SentenceEncoder(str(tmp_path / "plain"))
    services = EncoderServices(encoder, seed=0)
    with pytest.warns(UserWarning, match="plain has no complete masked-LM head") as caught:
        assert services.lm_head() is services.lm_head()
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SentenceEncoder(str(tmp_path / "plain"), pretrained=False).language_model_head(0)
        tiny_encoder().language_model_head(0)


def test_an_untied_model_keeps_its_own_output(tmp_path: Path) -> None:
    torch.manual_seed(0)
    encoder = SentenceEncoder({**FAMILIES["bert"], "tie_word_embeddings": False}, tokenizer="toy")
    head = encoder.language_model_head(0)
    words = encoder.backbone.get_input_embeddings().weight
    assert not any(parameter is words for parameter in head.parameters())


def test_it_follows_the_encoder_to_its_type() -> None:
    encoder = tiny_encoder().double()
    assert encoder.language_model_head(0)(torch.randn(2, 32).double()).dtype == torch.float64


def test_the_pretrained_head_of_a_real_model() -> None:
    folder = str(shared_path("models/bert-mini"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder = SentenceEncoder(folder).eval()
        head = encoder.language_model_head(0)
    tokens = text_batch(encoder, ["The river is the longest in the country.", "He was born in a small town."]).anchor
    real = tokens.attention_mask.bool()
    guessed = head(encoder(tokens).token_states)[real].argmax(-1)
    assert (guessed == tokens.input_ids[real]).float().mean() > 0.8  # a trained head names the words that it sees


UNUSABLE: dict[str, dict[str, Any]] = {
    # longformer's masked-LM model reads more than the hidden states of its backbone's output
    "longformer": {**SIZES, "attention_window": 4},
    "gpt2": {"vocab_size": 4000, "n_embd": 32, "n_layer": 1, "n_head": 2, "n_positions": 66},
}


@pytest.mark.parametrize("family", UNUSABLE)
def test_a_family_without_a_head_for_hidden_states_is_refused(family: str) -> None:
    encoder = SentenceEncoder({"model_type": family, **UNUSABLE[family]}, tokenizer="toy")
    with pytest.raises(InputError, match="masked-LM head cannot be used; leave out the objectives that need it"):
        encoder.language_model_head(0)


def test_a_local_folder_never_touches_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved_model("bert", tmp_path / "with")
    tiny_encoder().save_pretrained(tmp_path / "without")
    touched: list[Any] = []
    for owner, name in ((socket.socket, "connect"), (socket, "getaddrinfo"), (socket, "create_connection")):
        monkeypatch.setattr(owner, name, lambda *address, **options: touched.append(address))
    for folder in ("with", "without"):
        SentenceEncoder(str(tmp_path / folder)).language_model_head(0)
    assert not touched
