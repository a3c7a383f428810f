"""The shortened last layer: the vectors and gradients of the whole one."""

from __future__ import annotations

import copy
import gc
import weakref

import pytest
import torch
from torch import Tensor

from sentrep import InputError, SentenceEncoder
from sentrep.encoder import Compute, Prompt
from sentrep.encoder.compute.layout import Padded
from sentrep.encoder.compute.plan import can_end_early
from sentrep.types import Need
from support import FAMILIES, text_batch, tiny_encoder, toy_sentences

SHORTENED = [family for family in FAMILIES if can_end_early(tiny_encoder(family).backbone)]
PROMPT = '"[X]" means [MASK].'
POOLINGS = [
    {"pooling": "cls"},
    {"pooling": "last"},
    {"pooling": "mask", "prompt": PROMPT},
    {"pooling": "mask", "prompt": Prompt(PROMPT, subtract=True)},
    {"pooling": "mean"},
]


def vectors_and_gradients(encoder: SentenceEncoder, need: Need) -> tuple[Tensor, list[Tensor]]:
    tokens = text_batch(encoder, toy_sentences(10)).anchor
    output = encoder(tokens, need=need)
    weight = torch.linspace(-1, 1, output.embedding.numel(), dtype=output.embedding.dtype)
    (output.embedding.flatten() * weight).square().sum().backward()
    return output.embedding, [torch.zeros_like(p) if p.grad is None else p.grad for p in encoder.parameters()]


def test_bert_and_roberta_are_shortened() -> None:
    assert {"bert", "roberta", "electra"} <= set(SHORTENED)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("arguments", POOLINGS, ids=lambda arguments: "-".join(map(str, arguments)))
@pytest.mark.parametrize(("layout", "rows"), [("padded", None), ("auto", None), ("auto", 4)])
def test_it_changes_neither_vectors_nor_gradients(
    family: str, arguments: dict[str, object], layout: str, rows: int | None
) -> None:
    both = []
    for shortened in (False, True):
        how = {"layout": layout, "rows_at_once": rows, "short_last_layer": shortened}
        encoder = tiny_encoder(family, dropout=0.0, **how, **arguments).double()
        both.append(vectors_and_gradients(encoder, Need(tokens=not shortened)))
    (whole, wanted), (short, found) = both
    torch.testing.assert_close(short, whole, atol=1e-10, rtol=1e-9)
    torch.testing.assert_close(found, wanted, atol=1e-8, rtol=1e-6)


@pytest.mark.parametrize("family", SHORTENED)
@pytest.mark.parametrize("arguments", POOLINGS, ids=lambda arguments: "-".join(map(str, arguments)))
@pytest.mark.parametrize("layout", ["padded", "auto"])
def test_the_states_of_all_tokens_are_those_of_the_whole_layer(
    family: str, arguments: dict[str, object], layout: str
) -> None:
    both = []
    for shortened in (False, True):
        how = {"layout": layout, "short_last_layer": shortened}
        encoder = tiny_encoder(family, dropout=0.0, **how, **arguments).double()
        tokens = text_batch(encoder, toy_sentences(6)).anchor
        output = encoder(tokens, need=Need(layers=(-1,)))
        real = tokens.attention_mask.bool()
        found = [output.embedding, output.token_states[real], output.layers[-1][real]]
        weighted = [(x * torch.linspace(-1, 2, x.numel(), dtype=x.dtype).view_as(x)).square().sum() for x in found]
        gradients = torch.autograd.grad(sum(weighted), list(encoder.parameters()), materialize_grads=True)  # type: ignore
        both.append([*found, *gradients])
    torch.testing.assert_close(both[1], both[0], atol=1e-9, rtol=1e-8)


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


@pytest.mark.parametrize("family", ["camembert", "xlm-roberta"])
def test_families_of_robertas_build(family: str) -> None:
    both = []
    for shortened in (False, True):
        torch.manual_seed(0)
        shape = {**FAMILIES["roberta"], "model_type": family}
        encoder = SentenceEncoder(shape, tokenizer="toy", dropout=0.0, compute=Compute(short_last_layer=shortened))
        assert can_end_early(encoder.backbone)
        both.append(vectors_and_gradients(encoder, Need(tokens=not shortened)))
    torch.testing.assert_close(both[1], both[0], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("family", SHORTENED)
@pytest.mark.parametrize(("shortened", "length"), [(True, 1), (False, None)])
def test_the_last_layer_ends_for_one_token(family: str, shortened: bool, length: int | None) -> None:
    encoder = tiny_encoder(family, layout="padded", short_last_layer=shortened)
    tokens = text_batch(encoder, toy_sentences(4)).anchor
    shapes = []
    hook = encoder.backbone.encoder.layer[-1].output.register_forward_hook(lambda *seen: shapes.append(seen[-1].shape))
    encoder(tokens, need=Need(tokens=False))
    encoder.embed(tokens)
    hook.remove()
    assert [shape[1] for shape in shapes] == [length or tokens.input_ids.shape[1]] * 2


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
        both.append(vectors_and_gradients(encoder, Need(tokens=False)))
    torch.testing.assert_close(both[1], both[0], atol=1e-9, rtol=1e-7)


def test_a_causal_backbone_is_neither_packed_nor_shortened() -> None:
    encoder = SentenceEncoder({**FAMILIES["bert"], "is_decoder": True}, tokenizer="toy", pooling="last")
    assert (encoder.prepared.packs, encoder.prepared.last_layer) == (False, None)


@pytest.mark.parametrize("layout", ["padded", "auto"])
def test_a_pass_is_freed_with_its_output(layout: str) -> None:
    encoder = tiny_encoder(dropout=0.1, layout=layout)
    seen: list[weakref.ref[Tensor]] = []
    layer = encoder.backbone.encoder.layer[-1]
    layer.register_forward_pre_hook(lambda module, arguments: seen.append(weakref.ref(arguments[0])))
    gc.disable()
    try:
        output = encoder(text_batch(encoder, toy_sentences(4)).anchor, need=Need(tokens=False))
        del output
        assert [found() for found in seen] == [None]
    finally:
        gc.enable()


def test_a_copy_has_a_last_layer_of_its_own() -> None:
    encoder = tiny_encoder(layout="padded").eval()
    tokens = text_batch(encoder, toy_sentences(4)).anchor
    other = copy.deepcopy(encoder)
    assert encoder.prepared.last_layer is not None
    with encoder.prepared.last_layer.only(Padded(tokens.attention_mask), None):
        assert other.backbone(tokens.input_ids).last_hidden_state.shape[1] > 1
    torch.testing.assert_close(other.embed(tokens), encoder.embed(tokens))


def test_the_backbone_is_left_as_it_was() -> None:
    encoder = tiny_encoder(layout="padded").eval()
    tokens = text_batch(encoder, toy_sentences(4)).anchor
    assert encoder.prepared.last_layer is not None
    with pytest.raises(RuntimeError), encoder.prepared.last_layer.only(Padded(tokens.attention_mask), None):
        raise RuntimeError
    encoder.embed(tokens)
    assert encoder(tokens).token_states.shape[1] == tokens.input_ids.shape[1]
