"""Projection heads between the pooled vector and the objectives."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from sentrep.config import Configurable


class ProjectionHead(Configurable, nn.Module):
    """A layer D → D on the pooled vector: ``linear`` (DenoSent) or ``mlp``, linear then tanh (SimCSE, §6.3).

    Unsupervised SimCSE trains with the MLP and drops it afterwards; supervised SimCSE keeps it.

    Args:
        kind: ``linear`` or ``mlp``.
        keep: False: the head is for training only; `SentenceEncoder.encode` and exports do without it. True: it is part
            of the encoder.
    """

    def __init__(self, kind: Literal["linear", "mlp"] = "mlp", keep: bool = False) -> None:
        super().__init__()
        if kind not in ("linear", "mlp"):
            raise ValueError(f"kind of projection head must be 'linear' or 'mlp', got {kind!r}")
        self.kind = kind
        self.keep = keep

    def build(self, width: int, std: float = 0.02) -> None:
        """Create the layer for vectors of ``width``; weights from N(0, std²), bias 0, as the backbones do."""
        self.dense = nn.Linear(width, width)
        nn.init.normal_(self.dense.weight, std=std)
        nn.init.zeros_(self.dense.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(B, D) → (B, D)."""
        x = self.dense(x)
        return x.tanh() if self.kind == "mlp" else x
