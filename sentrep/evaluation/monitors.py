"""A monitor that warns when embeddings collapse."""

from __future__ import annotations

import math
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_warn

from sentrep import checks
from sentrep.evaluation.history import is_log_step
from sentrep.types import TextBatch

_READ = ("train/loss", "train/positive_cosine", "train/negative_cosine", "train/effective_rank")
_SMALLEST_BATCH = 8
"""Below this many rows the effective rank says more about the batch than about the encoder."""


class CollapseMonitor(Callback):
    """Warns, once, when a run's embeddings collapse: when different sentences get (nearly) the same vector.

    It happens to sound recipes: one RoBERTa-large seed of five in the thesis (table 8), and the mean of the five is
    then no estimate. The signs are read from what `SentRepModule` logs, at log steps only, so that no other step waits
    for the device:

    - ``train/negative_cosine`` above ``max_negative_cosine``: unrelated sentences point the same way;
    - ``train/positive_cosine`` less than ``min_margin`` above it: dropout's noise keeps the vectors apart, but a
      sentence is no nearer to itself than to others;
    - ``train/effective_rank`` below ``min_effective_rank``: all variation lies along about one direction (judged for
      batches of at least 8 rows per process);
    - ``train/loss`` is not a finite number: reported at once.

    An encoder at the start of its training can look like the first three: with random weights a sentence's CLS vector
    says more of the dropout mask than of the sentence. Hence the first ``grace_steps`` are not judged, and ``patience``
    log steps in a row must agree. For scale: the margin starts at 0.4 for all-MiniLM-L6-v2 and 0.08 for a weakly
    trained 4-layer BERT, both with CLS pooling and an untrained head.

    Args:
        max_negative_cosine: in (0, 1].
        min_margin: cosine of positives minus cosine of negatives, in [-2, 2].
        min_effective_rank: at least 0.
        grace_steps: optimiser steps at the start of training that are not judged.
        patience: log steps in a row that must show a sign.

    Raises:
        InputError: for other numbers.

    Examples:
        >>> from sentrep.evaluation import CollapseMonitor
        >>> monitor = CollapseMonitor(grace_steps=50)  # for Trainer(callbacks=[monitor])
    """

    def __init__(
        self,
        max_negative_cosine: float = 0.98,
        min_margin: float = 0.01,
        min_effective_rank: float = 1.5,
        grace_steps: int = 100,
        patience: int = 3,
    ) -> None:
        checks.within(self, 0, 1, open_below=True, max_negative_cosine=max_negative_cosine)
        checks.within(self, -2, 2, min_margin=min_margin)
        checks.not_negative(self, min_effective_rank=min_effective_rank)
        self.max_negative_cosine = max_negative_cosine
        self.min_margin = min_margin
        self.min_effective_rank = min_effective_rank
        self.grace_steps = grace_steps
        self.patience = patience
        self.collapsed = False
        """Whether the warning was given in this run."""
        self._signs = 0
        self._last_step = 0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start afresh."""
        self.collapsed, self._signs, self._last_step = False, 0, trainer.global_step

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: TextBatch, batch_idx: int
    ) -> None:
        """Judge the metrics of a log step."""
        if self.collapsed or not is_log_step(trainer, after=self._last_step):
            return
        self._last_step = trainer.global_step
        values = {name: float(value) for name, value in trainer.callback_metrics.items() if name in _READ}
        if not math.isfinite(values.get("train/loss", 0.0)):
            self._warn(f"the loss is {values['train/loss']} at step {trainer.global_step}")
        elif trainer.global_step > self.grace_steps:
            sign = self._sign(values, rows=len(batch))
            self._signs = self._signs + 1 if sign else 0
            if sign and self._signs >= self.patience:
                self._warn(f"{sign} at step {trainer.global_step}, and it has lasted {self._signs} log steps")

    def _sign(self, values: dict[str, float], rows: int) -> str | None:
        """The sign of a collapse, as a sentence; None without one."""
        positive, cosine, rank = (values.get(name) for name in _READ[1:])
        if cosine is not None and cosine > self.max_negative_cosine:
            return f"different sentences have a mean cosine of {cosine:.3f}"
        if cosine is not None and positive is not None and positive - cosine < self.min_margin:
            return f"a sentence is no nearer to its positive ({positive:.3f}) than to others ({cosine:.3f})"
        if rank is not None and rank < self.min_effective_rank and rows >= _SMALLEST_BATCH:
            return f"the embeddings of a batch vary along {rank:.1f} dimensions only"
        return None

    def _warn(self, what: str) -> None:
        self.collapsed = True
        rank_zero_warn(
            f"The embeddings have collapsed: {what}. The scores of this run mean nothing; try another seed, a lower "
            "learning rate, warm-up (model.warmup_steps) or a larger batch, and in a sum of objectives a smaller "
            "weight for the newest objective."
        )
