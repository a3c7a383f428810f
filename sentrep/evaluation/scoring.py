"""The scores of a run's validations and tests; each set is one batch."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from lightning.pytorch import LightningModule
from torch import Tensor

from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.encoder.encode import TextEncoder, encode, encode_pairs
from sentrep.evaluation.sts import rank_correlation
from sentrep.functional import uniformity

GEOMETRY = ("alignment", "alignment_all", "uniformity", "uniformity_first")
"""Measures of a similarity set beside its score, logged as ``<set>/<name>``; lower is better."""
_SAME_MEANING = 0.8
"""Share of a set's highest gold score above which two sentences mean the same: 4 of 5 (SimCSE, footnote 3)."""
_EQUAL: Any = {"sync_dist": True, "reduce_fx": "max"}
"""Arguments of Lightning's ``log``: every process has the same score, and the largest of equal numbers is exact."""


def pair_scores(
    encoder: TextEncoder,
    pairs: ScoredPairs,
    stage: str = "val",
    shared: bool = False,
) -> tuple[dict[str, float], Tensor]:
    """The logged scores of one similarity set by name, and the cosine of every pair (P,), on the CPU.

    The names are ``<set>``, and ``<set>/`` with each of `GEOMETRY`:

    - ``<set>``: Spearman's rank correlation × 100 of cosines and gold scores, ties at their mean rank;
    - ``alignment``: mean ‖x − y‖² = 2 − 2 cos(x, y) of the pairs that mean the same (Wang & Isola 2020, eq. 1): those
      whose gold score is above 0.8 × the set's highest, on STS-B above 4 of 5, as in SimCSE (footnote 3) and DCLR
      (figure 4). A set without a gold score above 0 has none;
    - ``alignment_all``: of every pair, as the thesis's code computes table 6;
    - ``uniformity``: of all sentences, repetitions included (`sentrep.functional.uniformity`);
    - ``uniformity_first``: of the first sentence of each pair, as the thesis's code computes table 6.

    Args:
        encoder: the encoder.
        pairs: the set.
        stage: for the message.
        shared: every process is given the same pairs and encodes a share; all have all scores.

    Raises:
        InputError: a cosine is NaN, or all are equal.
    """
    reader = partial(encode, encoder, show_progress_bar=False, shared=shared)
    first, second = (x.to(encoder.device) for x in encode_pairs(reader, pairs.first, pairs.second))
    cosine, gold = (first * second).sum(1), torch.tensor(pairs.scores, device=encoder.device)
    score = rank_correlation(f"{stage} set {pairs.name}", cosine.cpu(), pairs.scores)
    distance, highest = 2 - 2 * cosine, gold.max()
    found: dict[str, Tensor] = {"alignment_all": distance.mean()}
    if highest > 0:
        found["alignment"] = distance[gold > _SAME_MEANING * highest].mean()
    found |= {"uniformity": uniformity(torch.cat([first, second])), "uniformity_first": uniformity(first)}
    scores = {pairs.name: score, **{f"{pairs.name}/{name}": float(value) for name, value in found.items()}}
    return scores, cosine.cpu()


class Scoring:
    """Logs the scores of each set of one stage, and the mean of the sets' scores.

    With several processes all get the same sets and each encodes a share; the scores equal one process's. Each
    distinct sentence of a set is encoded once.

    Args:
        stage: ``val`` or ``test``, the prefix of the metrics.
    """

    def __init__(self, stage: str) -> None:
        self.stage = stage
        self._scores: list[float] = []
        self.cosines: dict[str, Tensor] = {}
        """By set, the cosine of every pair (P,), of the last time that it was scored."""

    def score(self, module: LightningModule, pairs: ScoredPairs) -> None:
        """Log the `pair_scores` of one set.

        Args:
            module: with an ``encoder``; in a validation or a test.
            pairs: the set.

        Raises:
            InputError: for vectors that give no score.
        """
        encoder: Any = module.encoder
        values, self.cosines[pairs.name] = pair_scores(encoder, pairs, self.stage, shared=True)
        self._scores.append(values[pairs.name])
        for name, value in values.items():
            module.log(f"{self.stage}/{name}", value, add_dataloader_idx=False, batch_size=len(pairs), **_EQUAL)

    def finish(self, module: LightningModule) -> None:
        """Log ``<stage>/sts``, the mean over the similarity sets, where there are any, and start afresh."""
        if self._scores:
            module.log(f"{self.stage}/sts", sum(self._scores) / len(self._scores), prog_bar=True, **_EQUAL)
        self._scores = []
