"""The checkpoint that a run chooses, the reason, and whether labels had a part in the choice."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.evaluation.scoring import GEOMETRY
from sentrep.evaluation.sts import display_name
from sentrep.io.files import write_text

FILE = "selection.json"
"""Its name in the folder of the run."""


@dataclass(frozen=True)
class Selection:
    """The chosen checkpoint of a run."""

    checkpoint: str | None
    """Its file; None if no file was written, so that the last weights count."""
    step: int
    """Its optimiser step."""
    monitor: str | None
    """The metric that chose it; None for the last checkpoint."""
    labels: tuple[str, ...]
    """Sets whose gold scores went into the choice of the checkpoint, or of the moment to stop."""
    stopped_by: tuple[str, ...] = ()
    """Metrics that could end the training early (`EarlyStopping`)."""
    is_tie: bool = False
    """Whether all steps had the same value of the metric, so that it chose nothing."""

    @classmethod
    def of(cls, trainer: Trainer, sets: Sequence[ScoredPairs]) -> Selection:
        """The chosen checkpoint of a run: the best of its `ModelCheckpoint`, or the last one without a monitor.

        Args:
            trainer: after training.
            sets: the labelled development sets.
        """
        saver = trainer.checkpoint_callback
        path = ""
        if isinstance(saver, ModelCheckpoint):
            paths = (saver.best_model_path, saver.last_model_path)
            path = next(filter(None, paths if saver.monitor else paths[::-1]), "")
        stopped_by = tuple(stopper.monitor for stopper in trainer.early_stopping_callbacks)
        checkpoint, step, monitor = None, trainer.global_step, None
        if path and Path(path).is_file():
            assert isinstance(saver, ModelCheckpoint)
            # memory-mapped, because only the number is needed
            step = torch.load(path, map_location="cpu", weights_only=True, mmap=True)["global_step"]
            checkpoint, monitor = path, saver.monitor if saver.best_model_path else None
        return cls(checkpoint, step, monitor, _labels({monitor or "", *stopped_by}, sets), stopped_by)

    def reason(self) -> str:
        """The reason of the choice, and whether labels had a part in it, in one sentence."""
        names = ", ".join(map(display_name, self.labels))
        labels = f"the gold scores of {names} were used for this choice" if names else "no labels were used"
        if self.monitor is not None and self.is_tie:
            return f"All steps had the same {self.monitor}; the first one, {self.step}, was kept."
        if self.monitor is not None:
            return f"Step {self.step} was chosen by its {self.monitor}; {labels}, and none for training."
        if not names:
            return f"The last step, {self.step}, was kept; no labels were used to choose it."
        when = " and ".join(self.stopped_by)
        return f"The last step, {self.step}, was kept, and {when} could end the training; {labels}."

    def write(self, folder: Path) -> None:
        """Write the fields and ``reason`` to ``selection.json``."""
        write_text(folder / FILE, json.dumps({**asdict(self), "reason": self.reason()}, indent=1) + "\n")


def _labels(criteria: set[str], sets: Sequence[ScoredPairs]) -> tuple[str, ...]:
    """The sets whose labels the criteria contain; for the scores of a callback the criterion's name."""
    names = [pairs.name for pairs in sets]
    similarity = [name for name in names if criteria & {"val/sts", f"val/{name}", f"val/{name}/alignment"}]
    known = {"sts", *names, *(f"{name}/{measure}" for name in names for measure in GEOMETRY)}
    scores = sorted(name.removeprefix("val/") for name in criteria if name.startswith("val/"))
    labelled = (score for score in scores if score not in known)
    return (*similarity, *labelled)
