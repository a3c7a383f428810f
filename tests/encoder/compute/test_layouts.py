"""A batch as one row, packed or in length groups: what the padded batch gives, in value and gradient."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import varlen

from sentrep import InputError, SentenceEncoder
from sentrep.encoder.compute import layouts
from sentrep.encoder.compute.attention import mask_without_waiting
from sentrep.encoder.compute.layouts import LengthGroups, Packing
from sentrep.types import TokenBatch
from support import FAMILIES, text_batch, tiny_encoder, toy_sentences

PACKABLE = [family for family in FAMILIES if family != "mpnet"]
LENGTHS = torch.tensor([3, 7, 1, 5])
MASK = (torch.arange(7) < LENGTHS[:, None]).long()


def one_by_one(
    query: Tensor, key: Tensor, value: Tensor, cu_seq_q: Tensor, cu_seq_k: Tensor, max_q: int, max_k: int,
    *, scale: float | None = None,
) -> Tensor:  # fmt: skip
    """`torch.nn.attention.varlen.varlen_attn` as a loop over the sentences."""
    assert torch.equal(cu_seq_q, cu_seq_k)
    assert cu_seq_q.dtype == torch.int32
    ends = cu_seq_q.tolist()
    assert max(b - a for a, b in pairwise(ends)) <= min(max_q, max_k)
    out = []
    for start, stop in pairwise(ends):
        q, k, v = (x[start:stop].transpose(0, 1) for x in (query, key, value))
        scores = q @ k.transpose(1, 2) * (q.shape[-1] ** -0.5 if scale is None else scale)
        out.append((scores.softmax(-1) @ v).transpose(0, 1))
    return torch.cat(out)


def heads(dtype: torch.dtype = torch.float64, device: str = "cpu") -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    made = [torch.randn(int(LENGTHS.sum()), 2, 16, generator=generator) for _ in range(3)]
    return [x.to(device, dtype).requires_grad_() for x in made]


def plain(dropout: float = 0.0, scaling: float | None = None) -> layouts.Attend:
    """torch's attention over padded sentences."""

    def attend(query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None) -> Tensor:
        out = F.scaled_dot_product_attention(query, key, value, visible, dropout_p=dropout, scale=scaling)
        return out.transpose(1, 2)

    return attend


@pytest.mark.parametrize("scaling", [None, 0.3])
def test_attention_is_that_of_each_sentence_alone(scaling: float | None) -> None:
    tensors, packing = heads(), Packing.of(MASK, None)
    expected = one_by_one(*tensors, packing.boundaries, packing.boundaries, 7, 7, scale=scaling)
    found = packing.attend(*tensors, plain(scaling=scaling), 0.0, scaling)
    torch.testing.assert_close(found, expected)
    weights = torch.randn_like(expected)
    for one, other in zip(*(torch.autograd.grad((x * weights).sum(), tensors) for x in (found, expected)), strict=True):
        torch.testing.assert_close(one, other)


def test_the_kernel_is_called_as_torch_documents_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop in its place, with its signature, as there is no such kernel for a CPU."""
    tensors, packing = heads(), Packing.of(MASK, None)
    expected = packing.attend(*tensors, plain(scaling=0.3), 0.0, 0.3)
    monkeypatch.setattr(varlen, "varlen_attn", one_by_one)
    monkeypatch.setattr(layouts, "has_kernel", lambda query, dropout: True)
    torch.testing.assert_close(packing.attend(*tensors, plain(scaling=0.3), 0.0, 0.3), expected)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_kernel_is_attention_in_value_and_gradient() -> None:
    tensors = heads(torch.bfloat16, "cuda")
    packing = Packing.of(MASK.cuda(), int(LENGTHS.sum()))
    assert layouts.has_kernel(tensors[0], 0.0)
    found = packing.attend(*tensors, plain(), 0.0, None)
    expected = one_by_one(*tensors, packing.boundaries, packing.boundaries, 7, 7)
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)
    for one, other in zip(*(torch.autograd.grad(x.sum(), tensors) for x in (found, expected)), strict=True):
        torch.testing.assert_close(one, other, rtol=2e-2, atol=2e-2)


ROWS = [{"packed": True}, {"chunks": 3}]
"""What the encoder is told so that a batch becomes one row."""
one_row = pytest.mark.parametrize("how", ROWS, ids=["packed", "length groups"])


def pair(how: dict[str, Any], family: str = "bert", **arguments: Any) -> tuple[SentenceEncoder, SentenceEncoder]:
    arguments.setdefault("dropout", 0.0)
    padded, row = (tiny_encoder(family, **{"chunks": 1, **arguments, **more}).double() for more in ({}, how))
    row.load_state_dict(padded.state_dict())  # trying it out draws nothing, but not every family is built alike
    return padded, row


def gradients(loss: Tensor, encoder: SentenceEncoder) -> list[Tensor]:
    found = torch.autograd.grad(loss, list(encoder.parameters()), allow_unused=True)
    return [gradient for gradient in found if gradient is not None]


def assert_same_pass(padded: SentenceEncoder, row: SentenceEncoder, words: bool = False) -> None:
    tokens = text_batch(padded, toy_sentences(9)).anchor
    real = tokens.attention_mask.bool()
    results = []
    for encoder in (padded, row):
        embedded = encoder.look_up(tokens) if words else None
        encoder.cache_gradients(None, keep_tokens=True)
        output = encoder(tokens, embedded)
        states, inputs = output.token_states[real], output.input_embeddings[real]
        loss = output.embedding.square().sum() + states.sin().sum() + inputs.cos().sum()
        encoder.cache_gradients(None, keep_tokens=False)
        alone = encoder(tokens).embedding
        results.append([output.embedding, states, inputs, *gradients(loss, encoder)])
        results[-1] += [alone, *gradients(alone.sin().sum(), encoder)]
    assert len(results[0]) > 20
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


@one_row
@pytest.mark.parametrize("family", PACKABLE)
@pytest.mark.parametrize(("words", "fast_dropout"), [(False, False), (False, True), (True, True)])
def test_every_family_in_value_and_gradient(how: dict[str, Any], family: str, words: bool, fast_dropout: bool) -> None:
    padded, row = pair(how, family, pooling="mean", fast_dropout=fast_dropout)
    assert (row.packed, row.joins_groups) == ("packed" in how, "chunks" in how)
    assert_same_pass(padded, row, words)


@one_row
@pytest.mark.parametrize("pooled_token_only", [False, True])
@pytest.mark.parametrize("pooling", ["cls", "max", "last", "mean_first_last", "mean_last_two"])
def test_poolings(how: dict[str, Any], pooling: str, pooled_token_only: bool) -> None:
    assert_same_pass(*pair(how, pooling=pooling, pooled_token_only=pooled_token_only))


@one_row
@pytest.mark.parametrize("subtract", [False, True])
def test_prompts(how: dict[str, Any], subtract: bool) -> None:
    assert_same_pass(*pair(how, prompt='"[X]" means [MASK].', pooling="mask", subtract_template=subtract))


def rows_computed(encoder: SentenceEncoder, tokens: TokenBatch) -> list[int]:
    """Of every linear layer in the order of a pass, how many tokens it sees."""
    seen: list[int] = []
    hooks = [
        module.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0].shape[:-1].numel()))
        for module in encoder.backbone.modules()
        if isinstance(module, torch.nn.Linear)
    ]
    encoder(tokens)
    for hook in hooks:
        hook.remove()
    return seen


def test_no_layer_computes_padding() -> None:
    _, packed = pair({"packed": True})
    tokens = text_batch(packed, toy_sentences(9)).anchor
    assert set(rows_computed(packed, tokens)) == {tokens.count()}


def test_every_layer_runs_once_over_all_groups() -> None:
    _, grouped = pair({"chunks": 3})
    tokens = text_batch(grouped, toy_sentences(9)).anchor
    lengths = tokens.attention_mask.sum(1).sort(descending=True).values
    padded = int(3 * (lengths[0] + lengths[3] + lengths[6]))
    assert tokens.count() < padded < tokens.input_ids.numel()
    assert rows_computed(grouped, tokens) == [padded] * 12  # two layers of six


@one_row
def test_the_last_layer_ends_for_the_pooled_tokens(how: dict[str, Any]) -> None:
    _, row = pair(how)
    row.cache_gradients(None, keep_tokens=False)
    tokens = text_batch(row, toy_sentences(9)).anchor
    seen = rows_computed(row, tokens)
    assert seen[-3:] == [9] * 3  # output projection and the feed-forward block
    assert min(seen[:-3]) >= tokens.count()


@pytest.mark.parametrize("scaling", [None, 0.3])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_attention_in_groups_is_that_of_each_sentence_alone(scaling: float | None, count: int) -> None:
    groups, packing = LengthGroups.of(MASK, count), Packing.of(MASK, None)
    tensors = heads()
    expected = one_by_one(*tensors, packing.boundaries, packing.boundaries, 7, 7, scale=scaling)
    rows = (groups.tokens.pack(packing.tokens.unpack(x)) for x in tensors)
    out = groups.attend(*rows, plain(scaling=scaling), 0.0, scaling)
    found = packing.tokens.pack(groups.tokens.unpack(out))
    torch.testing.assert_close(found, expected)
    weights = torch.randn_like(expected)
    for one, other in zip(*(torch.autograd.grad((x * weights).sum(), tensors) for x in (found, expected)), strict=True):
        torch.testing.assert_close(one, other)


def test_where_groups_lie() -> None:
    groups = LengthGroups.of(MASK, 2)  # lengths 3, 7, 1, 5
    assert groups.starts.tolist() == [14, 0, 17, 7]
    assert [(height, width) for height, width, _ in groups.rectangles] == [(2, 7), (2, 3)]
    assert groups.tokens.index.tolist() == [*range(7, 14), *range(21, 28), *range(3), *range(14, 17)]
    alone = LengthGroups.of(MASK, 4)
    assert all(visible is None for *_, visible in alone.rectangles)  # nothing is padded


def test_encode() -> None:
    padded, packed = pair({"packed": True}, pooling="mean")
    torch.testing.assert_close(
        torch.tensor(packed.encode(toy_sentences(20))), torch.tensor(padded.encode(toy_sentences(20)))
    )


def test_dropout_reaches_attention_and_layers() -> None:
    encoder = tiny_encoder(dropout=0.3, packed=True)
    tokens = text_batch(encoder, toy_sentences(9)).anchor
    assert not torch.equal(encoder(tokens).embedding, encoder(tokens).embedding)
    tensors, packing = heads(), Packing.of(MASK, None)
    whole, dropped = (packing.attend(*tensors, plain(dropout=p), p, None) for p in (0.0, 0.5))
    assert not torch.allclose(whole, dropped)
    mean = torch.stack([packing.attend(*tensors, plain(dropout=0.5), 0.5, None) for _ in range(3000)]).mean(0)
    torch.testing.assert_close(mean, whole, rtol=0, atol=0.2)


def test_a_family_with_its_own_attention_keeps_padding() -> None:
    with pytest.warns(UserWarning, match="mpnet cannot be packed"):
        padded, packed = pair({"packed": True}, "mpnet")
    assert not packed.packed
    assert_same_pass(padded, packed)


@pytest.mark.parametrize(("family", "pooling"), [("mpnet", "cls"), ("bert", "pooler")])
def test_what_cannot_be_one_row_runs_group_by_group(family: str, pooling: str) -> None:
    padded, grouped = pair({"chunks": 3}, family, pooling=pooling)
    assert not grouped.joins_groups
    assert_same_pass(padded, grouped)
    seen = rows_computed(grouped, text_batch(grouped, toy_sentences(9)).anchor)
    assert len(set(seen)) > 1


def test_local_attention_keeps_padding() -> None:
    config = {**FAMILIES["modernbert"], "global_attn_every_n_layers": 2}
    with pytest.warns(UserWarning, match="modernbert cannot be packed"):
        assert not SentenceEncoder(config, tokenizer="toy", packed=True).packed


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(InputError, match="pooler"):
        tiny_encoder(packed=True, pooling="pooler")


def test_the_mask_never_asks_a_device() -> None:
    """transformers' own asks whether there is any padding; a device without data cannot answer."""
    sizes = {
        "batch_size": 4,
        "q_length": 7,
        "kv_length": 7,
        "allow_is_bidirectional_skip": True,
        "allow_is_causal_skip": False,
    }
    everyone = lambda *indices: indices[-1] >= 0  # noqa: E731
    mask = mask_without_waiting(
        **sizes, mask_function=everyone, attention_mask=MASK.bool().to("meta"), device=torch.device("meta")
    )
    assert mask is not None
    assert mask.is_meta
    assert mask_without_waiting(**sizes, mask_function=everyone, attention_mask=torch.ones(4, 7).bool()) is None
    tokens = TokenBatch(torch.zeros(4, 7, dtype=torch.long, device="meta"), MASK.to("meta"), int(LENGTHS.sum()))
    assert Packing.of(tokens.attention_mask, tokens.real_tokens).tokens.index.shape == (16,)
    assert F.pad(LENGTHS.cumsum(0), (1, 0)).tolist() == Packing.of(MASK, None).boundaries.tolist()
