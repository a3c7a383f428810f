"""Watching a run for embeddings that collapse."""

from __future__ import annotations

import math
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor

from sentrep.types import TextBatch

_SMALLEST_BATCH = 8
"""Below this many rows the effective rank says more about the batch than about the encoder."""


class CollapseMonitor(Callback):
    """Warns, once, when a run's embeddings collapse: when different sentences get (nearly) the same vector.

    It happens to sound recipes: one RoBERTa-large seed of five in the thesis (table 8), and the mean of the five then
    says nothing. The sign is taken from what `SentRepModule` logs, at log steps only, so that no other step waits for
    the device:

    - ``train/negative_cosine`` above ``max_negative_cosine``: unrelated sentences point the same way;
    - ``train/effective_rank`` below ``min_effective_rank``: all variation lies along about one direction (batches of
      at least 8 rows per process);
    - a loss that is not a number.

    An untrained backbone looks like this too (CLS cosines of RoBERTa start above 0.99) and leaves it within some dozen
    steps. Hence the first ``grace_steps`` are not judged, and ``patience`` log steps in a row must agree. A loss that
    is not a number is reported at once.

    Args:
        max_negative_cosine: in (0, 1].
        min_effective_rank: at least 0.
        grace_steps: optimiser steps at the start of a run that are not judged.
        patience: log steps in a row that must show the sign.
    """

    def __init__(
        self,
        max_negative_cosine: float = 0.98,
        min_effective_rank: float = 1.5,
        grace_steps: int = 100,
        patience: int = 3,
    ) -> None:
        self.max_negative_cosine = max_negative_cosine
        self.min_effective_rank = min_effective_rank
        self.grace_steps = grace_steps
        self.patience = patience
        self.collapsed = False
        """Whether the warning was given."""
        self._signs = 0
        self._last_step = 0

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start afresh."""
        self.collapsed, self._signs, self._last_step = False, 0, trainer.global_step

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: TextBatch, batch_idx: int
    ) -> None:
        """Look at the metrics of a log step."""
        if self.collapsed or not logged_now(trainer, self._last_step):
            return
        self._last_step = trainer.global_step
        sign = self._sign(trainer.callback_metrics, len(batch))
        self._signs = self._signs + 1 if sign else 0
        if sign and (self._signs >= self.patience or "not a number" in sign):
            self.collapsed = True
            rank_zero_warn(
                f"The training has collapsed: at step {trainer.global_step} {sign}. Scores of this run mean nothing. "
                "Try another seed, a lower learning rate, warm-up steps (model.warmup_steps) or a larger batch; with a "
                "sum of objectives, a smaller weight on the newest one."
            )

    def _sign(self, metrics: dict[str, Tensor], rows: int) -> str | None:
        """What is wrong now, in words."""
        loss, cosine, rank = (_number(metrics, name) for name in ("loss", "negative_cosine", "effective_rank"))
        if loss is not None and not math.isfinite(loss):
            return f"the loss is not a number ({loss})"
        return None
