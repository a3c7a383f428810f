"""Criteria without labels: two dropout views of held-out sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from sentrep import distributed
from sentrep.encoder import SentenceEncoder
from sentrep.encoder.encode import AVERAGE_TOKENS, length_batches, pad
from sentrep.errors import InputError
from sentrep.functional import retrieval_accuracy
from sentrep.functional.geometry import view_statistics

CRITERIA: dict[str, Literal["max", "min"]] = {
    "retrieval@1": "max",
    "alignment": "min",
    "uniformity": "min",
    "alignment+uniformity": "min",
    "effective_rank": "max",
}
"""Name of each criterion, and whether the greatest or the least value is the best."""

_BATCH = 32
"""Sentences of average length that are encoded at once."""


def label_free_criteria(
    encoder: SentenceEncoder, ids: Sequence[Sequence[int]], shared: bool = False
) -> dict[str, float]:
    """The `CRITERIA` on two dropout views of each sentence (`dropout_views`).

    - ``retrieval@1``: share in % of the sentences whose second view is the nearest of all second views;
    - ``alignment``, ``uniformity`` (Wang & Isola 2020, eq. 1 and 2) and their sum: of the pairs of views, of the first
      views;
    - ``effective_rank``: of the first views.

    Args:
        encoder: with dropout.
        ids: token ids of at least two sentences, no two the same.
        shared: every process is given the same sentences and encodes a share.

    Raises:
        InputError: for an encoder without dropout, whose two views are one.
    """
    first, second = dropout_views(encoder, ids, shared)
    statistics = view_statistics(first, second)
    values = {
        "retrieval@1": 100 * retrieval_accuracy(first, second),
        "alignment+uniformity": statistics["alignment"] + statistics["uniformity"],
        **statistics,
    }
    return {name: float(values[name]) for name in CRITERIA}


def dropout_views(
    encoder: SentenceEncoder, ids: Sequence[Sequence[int]], shared: bool = False
) -> tuple[Tensor, Tensor]:
    """Two vectors of each sentence, as `SentenceEncoder.encode` gives them, but each under a dropout mask.

    The masks depend only on the sentences, not on the run's seed, earlier draws or the number of
    processes. So checkpoints and runs are compared under the same masks. torch's random state does not change.

    Args:
        encoder: with dropout.
        ids: token ids of n sentences.
        shared: every process is given the same sentences and encodes a share of the batches; all get all vectors.

    Returns:
        (n, D) and (n, D), float32, on the CPU.

    Raises:
        InputError: for an encoder without dropout.
    """
    if not encoder.has_dropout:
        raise InputError(
            "held-out sentences are judged by two dropout views, and this encoder has no dropout: set "
            "model.encoder.dropout, say to 0.1, or data.held_out to 0"
        )
    device = encoder.device
    batches = list(enumerate(length_batches([len(x) for x in ids], _BATCH * AVERAGE_TOKENS)))
    out = torch.zeros(2, len(ids), encoder.embedding_dim)
    was_training = encoder.training
    encoder.train()
    try:
        with torch.inference_mode():
            for number, batch in distributed.share(batches) if shared else batches:
                tokens = pad([ids[row] for row in batch], encoder.tokenize.pad_token_id, device)
                for view in range(2):
                    with distributed.own_draws("dropout view", number, view, device=device):
                        out[view, batch] = encoder.embed(tokens).float().cpu()
    finally:
        encoder.train(was_training)
    both = distributed.total(out.to(device)).cpu() if shared else out
    return both[0], both[1]
