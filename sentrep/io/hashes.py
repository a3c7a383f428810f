"""Telling two models apart by their weights."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor


def hash_weights(settings: str, weights: Mapping[str, Tensor]) -> str:
    """16 hexadecimal digits that follow a model's settings and its weights by name, bit for bit."""
    digest = hashlib.blake2b(settings.encode(), digest_size=8)
    for name, tensor in sorted(weights.items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
