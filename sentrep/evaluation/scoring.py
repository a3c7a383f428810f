"""Scores of the validations and tests of a run: a development set or the held-out sentences are one batch each."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from lightning.pytorch import LightningModule
from torchmetrics import Metric

from sentrep.data.sets.held_out import HeldOut
from sentrep.data.sets.proxy_tasks import ProxyTasks
from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.encoder.encode import TextEncoder, encode, encode_pairs, evaluation_batch
from sentrep.evaluation.label_free import label_free_criteria
from sentrep.evaluation.metrics import Alignment, Spearman, Uniformity
from sentrep.evaluation.proxy import proxy_values, rank_passages, score_rankings

_NONE: Mapping[str, Metric] = MappingProxyType({})


def pair_metrics(
    encoder: TextEncoder,
    pairs: ScoredPairs,
    stage: str = "val",
    shared: bool = False,
    own: Mapping[str, Metric] = _NONE,
) -> dict[str, Metric]:
    """The logged metrics of one similarity set, by name: ``<set>``, ``<set>/`` with each of `GEOMETRY`, the user's.

    Args:
        encoder: the encoder.
        pairs: the set.
        stage: for the message.
        shared: every process is given the same pairs, encodes a share, and has all vectors: so each metric sees all
            pairs in each process, and has nothing to gather.
        own: the user's metrics of cosine and gold score; copies of them are given.
    """
    size = evaluation_batch(encoder.device)
    run = functools.partial(encode, encoder, batch_size=size, show_progress_bar=False, shared=shared)
    first, second = (x.to(encoder.device) for x in encode_pairs(run, pairs.first, pairs.second))
    gold = torch.tensor(pairs.scores, device=encoder.device)
    name = pairs.name
    graded: dict[str, Metric] = {name: Spearman(f"{stage} set {name}")}
    graded[f"{name}/alignment_all"] = Alignment(all_pairs=True)
    if max(pairs.scores) > 0:
        graded[f"{name}/alignment"] = Alignment()
    graded |= {f"{name}/{key}": metric.clone() for key, metric in own.items()}
    spread = {f"{name}/uniformity": Uniformity(), f"{name}/uniformity_first": Uniformity(first_only=True)}
    metrics: dict[str, Metric] = {**graded, **spread}
    for key, metric in metrics.items():
        metric.distributed_available_fn = _alone
        metric.to(encoder.device).update(*((first, second) if key in spread else ((first * second).sum(1), gold)))
    return metrics


def _alone() -> bool:
    """For torchmetrics: there is no other process to gather from."""
    return False


def proxy_scores(encoder: TextEncoder, tasks: ProxyTasks, shared: bool = False) -> dict[str, float]:
    """The logged scores of tasks without labels: ``proxy`` and ``proxy/<task>``; see `proxy_values`."""
    size = evaluation_batch(encoder.device)
    run = functools.partial(encode, encoder, batch_size=size, show_progress_bar=False, shared=shared)
    return proxy_values(score_rankings(tasks, rank_passages(tasks, run)))


class Scoring:
    """Logs the metrics of each set of one stage, and the mean of the sets' scores.

    With several processes all get the same sets and each encodes a share; the scores equal one process's. Each
    distinct sentence of a set is encoded once.

    Args:
        stage: ``val`` or ``test``, the prefix of the metrics.
    """

    def __init__(self, stage: str) -> None:
        self.stage = stage
        self._scores: list[Metric] = []

    def score(self, module: LightningModule, batch: ScoredPairs | HeldOut | ProxyTasks) -> None:
        """Log the `pair_metrics` of one set, or the criteria without labels.

        Args:
            module: with an ``encoder``; in a validation or a test. The user's metrics come from its data module.
            batch: one set.

        Raises:
            InputError: for held-out sentences without dropout.
        """
        encoder: Any = module.encoder
        values: Mapping[str, float | Metric]
        if isinstance(batch, HeldOut):
            values = label_free_criteria(encoder, batch.ids, shared=True)
        elif isinstance(batch, ProxyTasks):
            values = proxy_scores(encoder, batch, True)
        else:
            own = getattr(getattr(module.trainer, "datamodule", None), "metrics", _NONE)
            values = metrics = pair_metrics(encoder, batch, self.stage, True, own)
            self._scores.append(metrics[batch.name])
        for name, value in values.items():
            key = f"{self.stage}/{name}"
            module.log(key, value, add_dataloader_idx=False, batch_size=len(batch), metric_attribute=key)

    def finish(self, module: LightningModule) -> None:
        """Log ``<stage>/sts``, the mean over the similarity sets, where there are any, and start afresh.

        Raises:
            InputError: for vectors that give no score.
        """
        if self._scores:
            module.log(
                f"{self.stage}/sts", sum(one.compute() for one in self._scores) / len(self._scores), prog_bar=True
            )
        self._scores = []
