"""The last layer for one token of each sentence: the vectors and gradients of the whole layer."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor

from sentrep import InputError, SentenceEncoder
from sentrep.encoder import Prompt
from sentrep.encoder.compute.bert import FAMILIES as BERTS
from sentrep.encoder.compute.bert import is_bert
from sentrep.types import Need
from support import FAMILIES, text_batch, tiny_encoder, toy_sentences

SHAPES = {name: {**FAMILIES.get(name, FAMILIES["roberta"]), "model_type": name} for name in sorted(BERTS)}
PROMPT = '"[X]" means [MASK].'
POOLINGS = [
    {"pooling": "cls"},
    {"pooling": "last"},
    {"pooling": "mask", "prompt": PROMPT},
    {"pooling": "mask", "prompt": Prompt(PROMPT, subtract=True)},
    {"pooling": "mean"},
]


def encoder_of(family: str, **arguments: Any) -> SentenceEncoder:
    """In float64, without dropout."""
    torch.manual_seed(0)
    return SentenceEncoder(dict(SHAPES[family]), tokenizer="toy", dropout=0.0, **arguments).double()


@pytest.mark.parametrize("rows", [None, 4])
@pytest.mark.parametrize("family", SHAPES)
@pytest.mark.parametrize("arguments", POOLINGS, ids=lambda arguments: "-".join(map(str, arguments)))
def test_a_vector_does_not_depend_on_who_reads_the_other_tokens(
    family: str, arguments: dict[str, Any], rows: int | None
) -> None:
    encoder = encoder_of(family, **arguments)
    tokens = text_batch(encoder, toy_sentences(10)).anchor
    both = []
    for need in (Need(), Need(tokens=False)):
        vectors = encoder(tokens, need=need).embedding
        weight = torch.linspace(-1, 1, vectors.numel(), dtype=vectors.dtype)
        loss = (vectors.flatten() * weight).square().sum()
        both.append([vectors, *torch.autograd.grad(loss, list(encoder.parameters()), materialize_grads=True)])
    torch.testing.assert_close(both[1], both[0], atol=1e-8, rtol=1e-6)


@pytest.mark.parametrize("layout", ["padded", "auto"])
@pytest.mark.parametrize("pooling", ["cls", "last"])
def test_with_dropout_a_vector_is_the_state_of_its_token(pooling: str, layout: str) -> None:
    encoder = tiny_encoder(dropout=0.3, layout=layout, pooling=pooling)
    tokens = text_batch(encoder, toy_sentences(6)).anchor
    output = encoder(tokens, need=Need(layers=(-1,)))
    last = tokens.attention_mask.sum(1) - 1
    position = torch.zeros_like(last) if pooling == "cls" else last
    for states in (output.token_states, output.layers[-1]):
        assert torch.equal(states[torch.arange(6), position], output.embedding)


@pytest.mark.parametrize("pooling", ["cls", "last", "pooler", "max"])
def test_with_dropout_a_vector_does_not_depend_on_who_reads_the_other_tokens(pooling: str) -> None:
    encoder = tiny_encoder(dropout=0.3, pooling=pooling)
    tokens = text_batch(encoder, toy_sentences(6)).anchor
    vectors = []
    for need in (Need(), Need(tokens=False)):
        torch.manual_seed(3)
        vectors.append(encoder(tokens, need=need).embedding)
        after = torch.rand(1)
        vectors.append(after)
    torch.testing.assert_close(vectors[:2], vectors[2:], atol=0, rtol=0)


def test_whoever_reads_the_other_tokens_is_told_what_to_do() -> None:
    encoder = tiny_encoder()
    output = encoder(text_batch(encoder, toy_sentences(4)).anchor, need=Need(tokens=False))
    with pytest.raises(InputError, match="must say reads_tokens = True"):
        output.token_states.sum()


def test_a_backbone_that_recomputes_its_layers_computes_all_of_them() -> None:
    both = []
    for recompute in (False, True):
        encoder = tiny_encoder(dropout=0.0, cheap_dropout=False).double()
        if recompute:
            encoder.backbone.gradient_checkpointing_enable()
        vectors = encoder(text_batch(encoder, toy_sentences(10)).anchor, need=Need(tokens=False)).embedding
        gradients = torch.autograd.grad(vectors.sin().sum(), list(encoder.parameters()), materialize_grads=True)
        both.append([vectors, *gradients])
    torch.testing.assert_close(both[1], both[0], atol=1e-9, rtol=1e-7)


def test_a_causal_backbone_is_run_by_its_own_forward() -> None:
    encoder = SentenceEncoder({**FAMILIES["bert"], "is_decoder": True}, tokenizer="toy", pooling="last", dropout=0.0)
    assert not is_bert(encoder.backbone)
    tokens = text_batch(encoder, toy_sentences(6)).anchor
    states = encoder.backbone(tokens.input_ids, attention_mask=tokens.attention_mask).last_hidden_state
    last = tokens.attention_mask.sum(1) - 1
    torch.testing.assert_close(encoder(tokens).embedding, states[torch.arange(6), last])


@pytest.mark.parametrize("layout", ["padded", "auto"])
def test_a_pass_is_freed_with_its_output(layout: str) -> None:
    encoder = tiny_encoder(dropout=0.1, layout=layout)
    seen: list[weakref.ref[Tensor]] = []
    layer = encoder.backbone.encoder.layer[0]
    layer.register_forward_pre_hook(lambda module, arguments: seen.append(weakref.ref(arguments[0])))
    gc.disable()
    try:
        output = encoder(text_batch(encoder, toy_sentences(4)).anchor, need=Need(tokens=False))
        del output
        assert [found() for found in seen] == [None]
    finally:
        gc.enable()
