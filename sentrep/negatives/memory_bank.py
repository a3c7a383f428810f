"""Outputs of past batches."""

from __future__ import annotations

from typing import Any

import torch
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor

from sentrep import checks
from sentrep.negatives.base import NegativeSampler, finite_rows
from sentrep.types import EncoderSpec


class MemoryBank(NegativeSampler):
    """The last ``size`` anchors of past global batches: first in, first out (thesis, "memory bank").

    The bank starts empty: M grows from 0 to ``size``. A global batch may
    have any size; of a batch larger than the bank, the last ``size`` sentences are kept, with a warning. Non-finite
    anchors are replaced by other anchors of their batch (`finite_rows`).

    Args:
        size: rows of the bank; the thesis has as many as the batch.
        weight: λ ≥ 0.

    Raises:
        InputError: for values out of range.

    Examples:
        >>> import torch
        >>> from types import SimpleNamespace
        >>> from sentrep.negatives import MemoryBank
        >>> bank = MemoryBank(size=3)
        >>> bank.build(SimpleNamespace(embedding_dim=2), "bank"); bank.after_step(torch.eye(2))
        >>> bank.sample(torch.eye(2), torch.eye(2))
        tensor([[1., 0.],
                [0., 1.]])
    """

    rows: Tensor
    """(size, D) float32; the first `fill` of them are outputs."""

    def __init__(self, size: int, weight: float = 1.0) -> None:
        super().__init__(weight)
        checks.at_least(self, 1, size=size)
        self.size = size
        self.pointer = 0
        self.fill = 0

    def build(self, spec: EncoderSpec, stream: str) -> None:
        """Make room for ``size`` rows."""
        super().build(spec, stream)
        self.register_buffer("rows", torch.zeros(self.size, spec.embedding_dim))

    def sample(self, anchors: Tensor, keys: Tensor) -> Tensor:
        """The outputs in the bank (fill, D), a copy."""
        return self.rows[: self.fill].float().clone()

    def after_step(self, anchors: Tensor) -> None:
        """Put the anchors in, over the oldest rows."""
        if len(anchors) > self.size and self.fill == 0:
            rank_zero_warn(
                f"MemoryBank {self.stream!r} has {self.size} rows, fewer than the global batch of {len(anchors)}: only "
                f"the last {self.size} sentences of each batch are remembered."
            )
        newest = finite_rows(anchors)[-self.size :]
        upwards = min(len(newest), self.size - self.pointer)  # the rest starts again at row 0
        self.rows[self.pointer : self.pointer + upwards] = newest[:upwards]
        self.rows[: len(newest) - upwards] = newest[upwards:]
        self.pointer = (self.pointer + len(newest)) % self.size
        self.fill = min(self.fill + len(newest), self.size)

    def get_extra_state(self) -> dict[str, Any]:
        """Pointer and fill."""
        return {"pointer": self.pointer, "fill": self.fill}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Take pointer and fill from a checkpoint."""
        self.pointer, self.fill = state["pointer"], state["fill"]
