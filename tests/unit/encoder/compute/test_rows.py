"""Packed rows: what one sentence a row gives, in value and gradient."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor
from transformers import AutoConfig, AutoModel

from sentrep import SentenceEncoder
from sentrep.encoder import POOLINGS, Prompt
from sentrep.encoder.compute.rows import PACKABLE, PackedRows, best_fit, first_position, rounded_rows, row_width
from sentrep.types import Need, TokenBatch
from support import FAMILIES, text_batch, tiny_encoder, toy_sentences

SHAPES = {**FAMILIES, **{name: {**FAMILIES["roberta"], "model_type": name} for name in ("camembert", "xlm-roberta")}}
LENGTHS = np.array([3, 7, 1, 5])
MASK = (torch.arange(7) < torch.from_numpy(LENGTHS)[:, None]).long()


def tokens_of(lengths: np.ndarray, seed: int = 0, pad_token_id: int = 0) -> TokenBatch:
    """Random ids above 9."""
    mask = (torch.arange(int(lengths.max())) < torch.from_numpy(lengths)[:, None]).long()
    ids = torch.randint(10, 4000, mask.shape, generator=torch.Generator().manual_seed(seed))
    return TokenBatch(ids.where(mask.bool(), pad_token_id), mask, lengths)


@given(st.lists(st.integers(1, 64), min_size=1, max_size=80))
@example([33] * 5)
def test_no_two_sentences_share_a_place_and_none_is_cut(lengths: list[int]) -> None:
    starts, rows = best_fit(lengths, 64)
    taken = np.zeros(rows * 64, int)
    for start, length in zip(starts, lengths, strict=True):
        taken[start : start + length] += 1
        assert start // 64 == (start + length - 1) // 64
    assert taken.max() == 1
    loads = np.sort(taken.reshape(rows, 64).sum(1))
    assert loads[0] > 0
    assert loads[:2].sum() > 64 or rows == 1  # a row is begun for a sentence that no earlier row has room for


def test_the_lengths_of_real_sentences_fill_the_rows() -> None:
    lengths = np.clip(np.random.default_rng(0).normal(24, 8, 1024).astype(int), 4, 32).tolist()
    _, rows = best_fit(lengths, 128)
    assert sum(lengths) / (rows * 128) > 0.98


def test_rows_hold_the_tokens_their_positions_and_their_sentences() -> None:
    tokens = tokens_of(LENGTHS)
    rows = PackedRows.pack(tokens, 8, first_position=2)
    ids = rows.of_tokens(tokens.input_ids)
    assert ids.shape == (2, 8)
    assert torch.equal(rows.of_sentences(ids)[MASK.bool()], tokens.input_ids[MASK.bool()])
    positions = rows.of_sentences(rows.position_ids)
    assert torch.equal(positions[MASK.bool()], (torch.arange(7) + 2).expand(4, 7)[MASK.bool()])
    segments = rows.of_sentences(rows.segments)
    assert torch.equal(segments[MASK.bool()], torch.arange(4)[:, None].expand(4, 7)[MASK.bool()])
    bias = rows.bias(torch.float32)
    assert bias is not None
    assert torch.equal(bias[:, 0] == 0, rows.segments[:, :, None] == rows.segments[:, None, :])
    assert torch.equal(rows.one_token(ids, torch.tensor([2, 6, 0, 4])), tokens.input_ids[range(4), LENGTHS - 1])


def test_one_sentence_a_row_without_padding_has_no_bias() -> None:
    assert PackedRows.one_each(tokens_of(np.array([4, 4])), 0).bias(torch.float32) is None
    assert PackedRows.one_each(tokens_of(np.array([4, 3])), 0).bias(torch.float32) is not None


def test_an_epoch_has_few_numbers_of_rows() -> None:
    draws = np.random.default_rng(0)
    for batch in (64, 512):
        sizes = set()
        for _ in range(300):
            lengths = np.clip(draws.normal(24, 8, batch).astype(int), 4, 32).tolist()
            sizes.add(rounded_rows(best_fit(lengths + lengths, 128)[1]))
        assert len(sizes) <= 4
    assert all(rounded_rows(count) >= count for count in range(1, 600))


def test_the_width_of_a_row() -> None:
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    assert [row_width(longest, cpu) for longest in (12, 64, 65)] == [64, 64, 96]
    assert [row_width(longest, cuda) for longest in (32, 129)] == [128, 160]


@pytest.mark.parametrize("family", sorted(PACKABLE))
def test_every_declared_family_by_transformers_own_forward(family: str) -> None:
    config = AutoConfig.for_model(**SHAPES[family])
    torch.manual_seed(0)
    backbone = AutoModel.from_config(config).double().eval()
    tokens = tokens_of(np.array([5, 30, 12, 1, 22]), pad_token_id=config.pad_token_id)
    expected = backbone(tokens.input_ids, attention_mask=tokens.attention_mask).last_hidden_state
    rows = PackedRows.pack(tokens, 64, first_position(config))
    packed = {"position_ids": rows.position_ids, "attention_mask": rows.bias(torch.float64)}
    found = rows.of_sentences(backbone(rows.of_tokens(tokens.input_ids), **packed).last_hidden_state)
    real = tokens.attention_mask.bool()
    torch.testing.assert_close(found[real], expected[real], rtol=0, atol=1e-12)


def gradients(loss: Tensor, encoder: SentenceEncoder) -> list[Tensor]:
    found = torch.autograd.grad(loss, list(encoder.parameters()), allow_unused=True)
    return [gradient for gradient in found if gradient is not None]


POOLED: list[dict[str, Any]] = [
    *({"pooling": name} for name in POOLINGS if name != "mask"),
    *({"pooling": "mask", "prompt": Prompt('"[X]" means [MASK].', subtract)} for subtract in (False, True)),
]


@pytest.mark.parametrize("arguments", POOLED, ids=str)
def test_packed_rows_give_what_one_sentence_a_row_gives(arguments: dict[str, Any]) -> None:
    results = []
    for layout in ("padded", "auto"):
        encoder = tiny_encoder(layout=layout, dropout=0.0, **arguments).double()
        tokens = text_batch(encoder, toy_sentences(9)).anchor
        real = tokens.attention_mask.bool()
        output = encoder(tokens)
        states, inputs = output.token_states[real], output.input_embeddings[real]
        loss = output.embedding.square().sum() + states.sin().sum() + inputs.cos().sum()
        alone = encoder(tokens, need=Need(tokens=False)).embedding
        results.append([output.embedding, states, inputs, *gradients(loss, encoder)])
        results[-1] += [alone, *gradients(alone.sin().sum(), encoder)]
    assert len(results[0]) > 20
    torch.testing.assert_close(*results, rtol=0, atol=1e-10)


def positions_computed(encoder: SentenceEncoder, tokens: TokenBatch, need: Need = Need()) -> list[int]:
    """Of every linear layer in the order of a pass, how many tokens it sees."""
    seen: list[int] = []
    hooks = [
        module.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0].shape[:-1].numel()))
        for module in encoder.backbone.modules()
        if isinstance(module, torch.nn.Linear)
    ]
    encoder(tokens, need=need)
    for hook in hooks:
        hook.remove()
    return seen


def test_training_on_a_cpu_computes_packed_rows_and_the_last_layer_for_the_pooled_token() -> None:
    encoder = tiny_encoder(dropout=0.0)
    tokens = text_batch(encoder, toy_sentences(24)).anchor
    packed = best_fit(tokens.lengths.tolist(), 64)[1] * 64  # type: ignore[union-attr]
    assert packed < tokens.input_ids.numel()
    seen = positions_computed(encoder, tokens)
    # the last layer for the pooled tokens: query, key, value, output, feed-forward; then for all tokens
    assert seen[-12:-6] == [24, packed, packed, 24, 24, 24]
    assert set(seen[:-12] + seen[-6:]) == {packed}
    seen = positions_computed(encoder, tokens, Need(tokens=False))
    assert seen[-6:] == [24, packed, packed, 24, 24, 24]
    assert set(seen[:-6]) == {packed}


def test_a_family_that_cannot_be_packed_is_padded() -> None:
    for config in (FAMILIES["mpnet"], {**FAMILIES["modernbert"], "global_attn_every_n_layers": 2}):
        encoder = SentenceEncoder(dict(config), tokenizer="toy")
        tokens = text_batch(encoder, toy_sentences(9)).anchor
        assert set(positions_computed(encoder, tokens)) == {tokens.input_ids.numel()}


def test_lengths_that_only_a_device_knows_are_padded() -> None:
    run = tiny_encoder().plan()
    tokens = TokenBatch(torch.zeros_like(MASK, device="meta"), MASK.to("meta"))
    assert run._rows(tokens).visible.shape == (4, 7)
    assert run._rows(tokens).places is None
    assert run._rows(replace(tokens, lengths=LENGTHS)).segments.shape == (1, 128)
