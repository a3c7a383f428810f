"""The real tokens of a padded batch, one after the other: what need not look at other tokens skips the padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


@dataclass(frozen=True)
class RealTokens:
    """Where the T real tokens of a padded batch stand."""

    mask: Tensor
    """(B, L) bool."""
    index: Tensor
    """(T,) their positions in the batch, counted row by row."""

    @classmethod
    def of(cls, attention_mask: Tensor, count: int | None = None) -> RealTokens:
        """Find them.

        Args:
            attention_mask: (B, L), not 0 on real tokens.
            count: T, where the host knows it; otherwise an accelerator is asked, which waits for it.
        """
        mask = attention_mask.bool()
        flat = mask.flatten()
        if count is None or flat.device.type == "cpu":
            return cls(mask, flat.nonzero().flatten())
        return cls(mask, flat.int().argsort(descending=True, stable=True)[:count])

    def pack(self, x: Tensor) -> Tensor:
        """(B, L, ...) → (T, ...)."""
        return _Select.apply(x.flatten(0, 1), self.index)

    def unpack(self, rows: Tensor) -> Tensor:
        """(T, ...) → (B, L, ...), zero on padding."""
        return _Place.apply(rows, self.index, self.mask.numel()).view(*self.mask.shape, *rows.shape[1:])


# Every position occurs once, so the gradient of either is the other; torch's own index_select adds up instead.
class _Select(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.length = len(x)
        return x.index_select(0, index)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _placed(grad, ctx.saved_tensors[0], ctx.length), None


class _Place(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, index: Tensor, length: int) -> Tensor:
        ctx.save_for_backward(index)
        return _placed(rows, index, length)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return grad.index_select(0, ctx.saved_tensors[0]), None, None


def _placed(rows: Tensor, index: Tensor, length: int) -> Tensor:
    return rows.new_zeros(length, *rows.shape[1:]).index_copy_(0, index, rows)
