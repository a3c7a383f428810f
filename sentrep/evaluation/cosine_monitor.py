"""The distribution of cosines during training: of sentences with their positives, and with the others of the batch."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import TensorBoardLogger
from numpy.typing import NDArray
from torch import Tensor
from torch.optim import Optimizer

from sentrep import checks, distributed
from sentrep.evaluation.gradient_monitor import check_watched, is_monitored, terms_of
from sentrep.functional import cosine_similarity_matrix
from sentrep.io.files import write_text

BINS = 100
"""How many bins of equal width stand from −1 to 1."""
FILE = "cosines.csv"
"""Its name in the folder of the run."""
_COLUMNS = ("step", "kind", "left", "right", "count")
_KINDS = ("positive", "negative")


class CosineMonitor(Callback):
    """Keeps histograms of the cosines that the loss sees (DCLR, fig. 1): of positive and of in-batch negative pairs.

    A positive pair is an anchor with its own positive, a negative pair an anchor with the key (`Views.key`: as a rule
    the positive) of another row of the global batch; with accumulated gradients, of the same micro-batch. Vectors are
    those of `sentrep.types.Views`, behind the projection head.

    The histograms go to TensorBoard (``train/cosines/positive``, ``train/cosines/negative``), where that is the logger,
    and into ``cosines.csv`` in the folder of the run: columns ``step``, ``kind`` (``positive`` or ``negative``),
    ``left``, ``right``, ``count``, a row for each of 100 bins of width 0.02 from −1 to 1, both kinds at each monitored
    step. A resumed run's file holds the whole run.

    A monitored step computes one matrix of cosines more and waits for the device; every other step costs nothing.

    Args:
        every_n_steps: optimiser steps from one look to the next; a multiple of the trainer's ``log_every_n_steps``.

    Raises:
        InputError: for a number below 1; at the start of training, for one that is no multiple.
    """

    def __init__(self, every_n_steps: int = 100) -> None:
        checks.whole(self, 1, every_n_steps=every_n_steps)
        self.every_n_steps = every_n_steps
        self._pending: list[tuple[Tensor, Tensor]] = []
        self._histograms: list[tuple[int, list[list[int]]]] = []
        self._path: Path | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin the file, with what an interrupted run had."""
        check_watched(self, trainer, pl_module)
        self._pending = []
        self._histograms = [one for one in self._histograms if one[0] <= trainer.global_step]
        folder = Path(trainer.log_dir or trainer.default_root_dir)  # asked for on every process: it broadcasts
        writes = trainer.is_global_zero and not trainer.fast_dev_run  # type: ignore[attr-defined]
        self._path = folder / FILE if writes else None
        if self._path is not None:
            write_text(self._path, ",".join(_COLUMNS) + "\n" + "".join(_rows(*one) for one in self._histograms))

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        """Take a micro-batch's cosines."""
        terms = terms_of(pl_module)
        if terms is None or not is_monitored(self, trainer):
            return
        with torch.no_grad():
            anchors = distributed.gather(terms.views.anchor.detach())
            own, cosine = (
                cosine_similarity_matrix(anchors, distributed.gather(x.detach()))
                for x in (terms.views.positive, terms.views.key)
            )
        others = ~torch.eye(len(cosine), dtype=torch.bool, device=cosine.device)
        self._pending.append((own.diagonal().cpu(), cosine[others].cpu()))

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer) -> None:
        """Write the step's histograms."""
        if not self._pending:
            return
        cosines = [torch.cat(parts) for parts in zip(*self._pending, strict=True)]
        self._pending = []
        if self._path is None:
            return
        self._histograms.append((trainer.global_step + 1, [histogram(values).tolist() for values in cosines]))
        with self._path.open("a", encoding="utf-8") as file:
            file.write(_rows(*self._histograms[-1]))  # in one piece
        for logger in trainer.loggers:
            if isinstance(logger, TensorBoardLogger):
                for kind, values in zip(_KINDS, cosines, strict=True):
                    if len(values):
                        logger.experiment.add_histogram(f"train/cosines/{kind}", values, trainer.global_step)

    def state_dict(self) -> dict[str, Any]:
        """The histograms so far, in plain types."""
        return {"histograms": [[step, counts] for step, counts in self._histograms]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on with those of a checkpoint."""
        self._histograms = [(step, counts) for step, counts in state_dict["histograms"]]


def histogram(cosines: Tensor) -> NDArray[np.int64]:
    """Counts (100,) of cosines in bins of equal width from −1 to 1; what rounding puts outside counts as −1 or 1."""
    return np.histogram(cosines.clamp(-1, 1).double().numpy(), bins=BINS, range=(-1, 1))[0]


def _rows(step: int, counts: list[list[int]]) -> str:
    """The file's lines of one step."""
    edges = np.linspace(-1, 1, BINS + 1).round(2).tolist()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for kind, of_kind in zip(_KINDS, counts, strict=True):
        writer.writerows((step, kind, edges[place], edges[place + 1], count) for place, count in enumerate(of_kind))
    return text.getvalue()
