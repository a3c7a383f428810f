"""Scores of the validations and tests of a run: a development set or the held-out sentences are one batch each."""

from __future__ import annotations

import functools
from typing import Any

from lightning.pytorch import LightningModule

from sentrep.data.sets.held_out import HeldOut
from sentrep.data.sets.proxy_tasks import ProxyTasks
from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.encoder.encode import TextEncoder, Window, encode, encode_pairs, evaluation_batch
from sentrep.errors import InputError
from sentrep.evaluation.label_free import label_free_criteria
from sentrep.evaluation.proxy import proxy_values, rank_passages, score_rankings
from sentrep.functional import spearman
from sentrep.functional.geometry import pair_statistics


def pair_scores(
    encoder: TextEncoder,
    pairs: ScoredPairs,
    stage: str = "val",
    shared: bool = False,
    kept: dict[Any, list[Window]] | None = None,
) -> dict[str, float]:
    """What is logged of one similarity set, by name: ``<set>``, ``<set>/alignment`` and ``<set>/uniformity``.

    ``<set>`` is Spearman × 100 of the cosine; the other two are those of `pair_statistics`, of the same vectors.

    Args:
        encoder: the encoder.
        pairs: the set.
        stage: for the message.
        shared: every process is given the same pairs and encodes a share.
        kept: of the batches, see `sentrep.encoder.encode.encode`.

    Raises:
        InputError: for vectors that give no score.
    """
    size = evaluation_batch(encoder.device)
    run = functools.partial(encode, encoder, batch_size=size, show_progress_bar=False, shared=shared, kept=kept)
    first, second = encode_pairs(run, pairs.first, pairs.second)
    try:
        score = spearman((first * second).sum(1), pairs.scores)
    except ValueError as error:
        raise InputError(f"{stage} set {pairs.name}: {error}; the encoder may have collapsed") from error
    statistics = pair_statistics(first, second, pairs.scores)
    return {pairs.name: score, **{f"{pairs.name}/{name}": float(value) for name, value in statistics.items()}}


def proxy_scores(
    encoder: TextEncoder, tasks: ProxyTasks, shared: bool = False, kept: dict[Any, list[Window]] | None = None
) -> dict[str, float]:
    """What is logged of tasks without labels: ``proxy`` and ``proxy/<task>`` of `proxy_values`; see `pair_scores`."""
    size = evaluation_batch(encoder.device)
    run = functools.partial(encode, encoder, batch_size=size, show_progress_bar=False, shared=shared, kept=kept)
    return proxy_values(score_rankings(tasks, rank_passages(tasks, run)))


class Scoring:
    """Logs the score of each set of one stage, and their mean.

    With several processes all are given the same sets, each encodes a share, and the scores are those of one. A set is
    tokenised once, and each distinct sentence of it is encoded once each time.

    Args:
        stage: ``val`` or ``test``, the prefix of what is logged.
    """

    def __init__(self, stage: str) -> None:
        self.stage = stage
        self._scores: dict[str, float] = {}
        self._kept: dict[Any, list[Window]] = {}

    def score(self, module: LightningModule, batch: ScoredPairs | HeldOut | ProxyTasks) -> None:
        """Log the `pair_scores` of one set, or the criteria without labels.

        Args:
            module: with an ``encoder``; in a validation or a test.
            batch: one set.

        Raises:
            InputError: for vectors that give no score, and for held-out sentences without dropout.
        """
        encoder: Any = module.encoder
        if isinstance(batch, HeldOut):
            values = label_free_criteria(encoder, batch.ids, shared=True)
        elif isinstance(batch, ProxyTasks):
            values = proxy_scores(encoder, batch, True, self._kept)
        else:
            values = pair_scores(encoder, batch, self.stage, True, self._kept)
            self._scores[batch.name] = values[batch.name]
        for name, value in values.items():
            module.log(f"{self.stage}/{name}", value, add_dataloader_idx=False, batch_size=len(batch))

    def finish(self, module: LightningModule) -> None:
        """Log ``<stage>/sts``, the mean over the similarity sets, where there are any, and start afresh."""
        if self._scores:
            module.log(f"{self.stage}/sts", sum(self._scores.values()) / len(self._scores), prog_bar=True)
        self._scores = {}
