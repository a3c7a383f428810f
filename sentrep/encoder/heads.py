"""Projection heads between the pooled vector and the objectives."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor, nn

from sentrep import checks
from sentrep.config import Configurable
from sentrep.errors import InputError


class ProjectionHead(Configurable, nn.Module):
    """A layer H → D on the pooled vector: ``linear`` (DenoSent) or ``mlp``, linear then tanh (SimCSE, §6.3).

    ``pooler`` is an ``mlp`` that starts from the backbone's own ``pooler.dense`` (H → H), as DCLR trains large models:
    in a published SimCSE that *is* its trained MLP. Of a checkpoint of `sentrep fit` it is the head trained there, and
    with random weights a fresh one.

    Unsupervised SimCSE trains with the MLP and drops it afterwards; supervised SimCSE keeps it. A linear head that is
    kept also holds what is fitted after training (`sentrep.encoder.fit_whitening`).

    Args:
        kind: ``linear``, ``mlp`` or ``pooler``.
        keep: False: the head is for training only; `SentenceEncoder.encode` and exports do without it. True: it is part
            of the encoder.
        out_features: D; None for the width of the pooled vector, which a ``pooler`` always has.

    Raises:
        InputError: for an unknown kind, a width below 1, or one with ``pooler``.
    """

    def __init__(
        self, kind: Literal["linear", "mlp", "pooler"] = "mlp", keep: bool = False, out_features: int | None = None
    ) -> None:
        super().__init__()
        checks.one_of(self, ("linear", "mlp", "pooler"), kind=kind)
        checks.flag(self, keep=keep)
        checks.whole(self, 1, 10**7, **checks.given(out_features=out_features))
        if kind == "pooler" and out_features is not None:
            raise InputError("ProjectionHead: a pooler has its own width; leave out_features out, or take kind mlp")
        self.kind = kind
        self.keep = keep
        self.out_features = out_features

    def build(self, width: int, std: float = 0.02) -> None:
        """Create the layer for vectors of ``width``; weights from N(0, std²), bias 0, as the backbones do."""
        self.dense = nn.Linear(width, self.out_features or width)
        nn.init.normal_(self.dense.weight, std=std)
        nn.init.zeros_(self.dense.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(B, H) → (B, D)."""
        x = self.dense(x)
        return x if self.kind == "linear" else x.tanh()

    def trained(self) -> dict[str, Any]:
        """Arguments for a head that is given this one's weights: where those began does not matter then."""
        return {**self.init_args, "kind": "linear" if self.kind == "linear" else "mlp"}


def check_kept(head: ProjectionHead) -> None:
    """Refuse a head that belongs to the model and is of a class of its own: only a head's settings are stored.

    Raises:
        InputError: for such a head.
    """
    if head.keep and type(head) is not ProjectionHead:
        raise InputError(
            f"a head that is kept must be a ProjectionHead itself: {type(head).__name__} would come back from a "
            "checkpoint or folder without its own code; train with keep: false, or keep a ProjectionHead"
        )
