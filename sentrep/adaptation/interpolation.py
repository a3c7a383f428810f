"""Weights between the start and the end of training."""

from __future__ import annotations

from copy import deepcopy

import torch

from sentrep.encoder import SentenceEncoder

SHARES = (0.25, 0.5, 0.75)
"""Shares of the trained end that are tried, between the two ends: 0 is the untouched model, 1 the trained one."""


def interpolate(start: SentenceEncoder, end: SentenceEncoder, share: float) -> SentenceEncoder:
    """An encoder with the weights (1 − share) · start + share · end (Wortsman et al. 2022, WiSE-FT, eq. 1).

    Args:
        start: the untouched model.
        end: the trained model, of the same architecture; tensors that are not floating point come from it.
        share: in [0, 1].
    """
    first, encoder = start.state_dict(), deepcopy(end)
    mixed = {
        name: torch.lerp(first[name].float(), weight.float(), share).to(weight.dtype)
        if weight.is_floating_point()
        else weight
        for name, weight in end.state_dict().items()
    }
    encoder.load_state_dict(mixed)
    return encoder.eval()
