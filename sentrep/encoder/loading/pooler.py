"""The backbone's own trained pooler, as the beginning of a projection head."""

from __future__ import annotations

from torch import Tensor

from sentrep.encoder.loading.sources import Source
from sentrep.errors import InputError


def pooler_weights(source: Source, width: int) -> dict[str, Tensor] | None:
    """``weight`` (H, H) and ``bias`` (H,) of the layer before the pooler's tanh; None where all weights are random.

    A checkpoint of `sentrep fit` has those of the head that it was trained with, else its backbone's.

    Args:
        source: of the encoder.
        width: H.

    Raises:
        InputError: for a model without a trained pooler.
    """
    if source.path is None and not source.payload:
        return None
    weight = source.dense.get("weight")
    if weight is None or weight.shape != (width, width):
        raise InputError(f"{source.name} has no trained pooler that a head could start from; choose head.kind mlp")
    return source.dense
