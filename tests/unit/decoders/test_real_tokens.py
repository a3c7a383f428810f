from __future__ import annotations

import pytest
import torch

from sentrep.decoders import RealTokens

MASK = torch.tensor([[1, 1, 0], [1, 0, 0], [1, 1, 1]])


@pytest.mark.parametrize("count", [None, 6])
def test_packing_is_selecting_row_by_row(count: int | None) -> None:
    tokens = RealTokens.of(MASK, count)
    x = torch.randn(3, 3, 2, 5, dtype=torch.float64)
    packed = tokens.pack(x)
    assert torch.equal(packed, x[MASK.bool()])
    assert torch.equal(tokens.unpack(packed), x * MASK[..., None, None])


def test_gradients() -> None:
    tokens = RealTokens.of(MASK)
    x, rows = torch.randn(3, 3, 4, dtype=torch.float64), torch.randn(6, 4, dtype=torch.float64)
    assert torch.autograd.gradcheck(tokens.pack, x.requires_grad_())
    assert torch.autograd.gradcheck(tokens.unpack, rows.requires_grad_())
