"""The real tokens of a padded batch in one row, without its padding."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


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
        return x.flatten(0, 1).index_select(0, self.index)

    def unpack(self, rows: Tensor) -> Tensor:
        """(T, ...) → (B, L, ...), zero on padding."""
        padded = rows.new_zeros(self.mask.numel(), *rows.shape[1:]).index_copy_(0, self.index, rows)
        return padded.view(*self.mask.shape, *rows.shape[1:])
