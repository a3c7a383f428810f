"""Projection heads between the encoder's vectors and the objectives."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from sentrep.config import Configurable
from sentrep.encoder.modules import linear_layer


class ProjectionHead(Configurable, nn.Module):
    """A layer D → D' for training only: ``linear`` (DenoSent) or ``mlp``, linear then tanh (SimCSE, §6.3).

    ``pooler`` is an ``mlp`` that starts from the backbone's ``pooler.dense`` (H → H), as in DCLR's training of large
    models: in a published SimCSE this layer *is* the trained MLP. For a checkpoint of `sentrep fit` it starts from the
    trained head, and for random weights at random.

    ``pooler_mlp`` is a ``pooler`` and a new ``mlp`` on top, as in DCLR's released code for base models. Its pooler
    starts at random if the model has no trained one, like RoBERTa.

    Unsupervised SimCSE trains with the MLP and drops it afterwards. Supervised SimCSE keeps the MLP, as a module of the
    encoder (`sentrep.encoder.Dense`).

    Args:
        kind: ``linear``, ``mlp``, ``pooler`` or ``pooler_mlp``.
        out_features: D'; None for D, which both kinds with a pooler always have.

    Examples:
        >>> import torch
        >>> from sentrep import ProjectionHead
        >>> ProjectionHead("mlp").kind
        'mlp'
    """

    def __init__(
        self, kind: Literal["linear", "mlp", "pooler", "pooler_mlp"] = "mlp", out_features: int | None = None
    ) -> None:
        super().__init__()
        self.kind = kind
        self.out_features = out_features

    def build(self, width: int, std: float = 0.02) -> None:
        """Create the layers for vectors of ``width``, see `linear_layer`."""
        self.dense = linear_layer(width, self.out_features or width, std)
        if self.kind == "pooler_mlp":
            self.second = linear_layer(width, width, std)

    def forward(self, x: Tensor) -> Tensor:
        """(B, D) → (B, D')."""
        x = self.dense(x)
        if self.kind == "linear":
            return x
        return self.second(x.tanh()).tanh() if self.kind == "pooler_mlp" else x.tanh()
