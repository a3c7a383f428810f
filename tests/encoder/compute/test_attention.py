"""Attention in groups of rows: the numbers of the whole batch, and no probabilities that are kept."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sentrep.encoder.compute import attention
from support import text_batch, tiny_encoder, toy_sentences


@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_groups_of_rows_change_no_number_and_keep_no_probabilities(
    layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Tensor] = []

    def result() -> list[Tensor]:
        kept.clear()
        encoder = tiny_encoder(dropout=0.1, layout=layout)
        tokens = text_batch(encoder, [*toy_sentences(7), "and " * 40]).anchor
        assert tokens.input_ids.shape[1] == 32
        torch.manual_seed(1)
        with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
            vectors = encoder(tokens).embedding
        vectors.square().sum(1).log().sum().backward()
        return [vectors.detach(), *(p.grad for p in encoder.parameters() if p.grad is not None)]

    def probabilities() -> int:
        return sum(x.dim() == 4 and x.shape[-2:] == (32, 32) and x.is_floating_point() for x in kept)

    whole = result()
    assert probabilities() > 0
    monkeypatch.setattr(attention, "_LONG", 0)
    monkeypatch.setattr(attention, "_GROUP", 3 * 2 * 32 * 32)
    torch.testing.assert_close(result(), whole)
    assert probabilities() == 0
