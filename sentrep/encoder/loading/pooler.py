"""The backbone's own trained pooler, as the beginning of a projection head."""

from __future__ import annotations

from torch import Tensor, nn

from sentrep.encoder.loading.lm_head import HeadOrigin
from sentrep.encoder.loading.sources import Hub, load_backbone, open_source
from sentrep.errors import InputError


def pooler_weights(origin: HeadOrigin, width: int) -> dict[str, Tensor] | None:
    """``weight`` (H, H) and ``bias`` (H,) of the layer before the pooler's tanh; None where all weights are random.

    A model folder or hub id has them as ``pooler.dense``. A checkpoint of `sentrep fit` has those of the head that it
    was trained with, else its backbone's.

    Args:
        origin: of the encoder; a local folder is read without the network, once more and whole.
        width: H.

    Raises:
        InputError: for a model without a trained pooler.
    """
    if not origin.pretrained:
        return None
    found = origin.dense
    if origin.path is not None:
        hub = Hub(origin.hub.get("revision"), origin.hub["trust_remote_code"])
        pooler = load_backbone(open_source(origin.path, hub), pretrained=True, dropout=None, pooler=True).pooler
        dense = getattr(pooler, "dense", None)
        found = dense.state_dict() if isinstance(dense, nn.Linear) else {}
    if {key: tuple(tensor.shape) for key, tensor in found.items()} != {"weight": (width, width), "bias": (width,)}:
        raise InputError(f"{origin.name} has no trained pooler that a head could start from; choose head.kind mlp")
    return found
