"""The best and the last checkpoint of a run, and how a resumed run finds them again."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.trainer.states import TrainerFn

from sentrep.checkpoint.rehearsal import Rehearsal
from sentrep.cli.runs.logs import say
from sentrep.errors import InputError


class BestCheckpoint(ModelCheckpoint):
    """Lightning's ModelCheckpoint, for runs that are killed at any moment and resume exactly.

    - A score of a validation (``val/...``) is compared when this validation ends. ModelCheckpoint compares it at
      ``every_n_train_steps``, where it belongs to an older step.
    - A checkpoint between validations is written when the next batch begins. ModelCheckpoint writes it before the
      validation of its step, which a resumed run then skips.
    - ``last.ckpt`` is written after every validation, every ``every_n_train_steps`` or ``train_time_interval``, at the
      end of training and on an exception. ModelCheckpoint writes it with a new best checkpoint only.
    - An exception in a validation writes nothing: the resumed run repeats the steps since ``last.ckpt``.

    Args:
        monitor: metric by which the best checkpoint is chosen; None keeps the most recent ones.
        every_n_train_steps: optimizer steps between two checkpoints; with a score of a validation, of ``last.ckpt``.
        train_time_interval: time between two checkpoints, likewise.
        save_on_train_epoch_end: of ModelCheckpoint; without effect where a score of a validation chooses.
        options: of ModelCheckpoint.
    """

    __signature__ = inspect.signature(ModelCheckpoint)  # for the check of names in configurations

    def __init__(
        self,
        *,
        monitor: str | None = None,
        every_n_train_steps: int | None = None,
        train_time_interval: timedelta | None = None,
        save_on_train_epoch_end: bool | None = None,
        **options: Any,
    ) -> None:
        self._every, self._interval = 0, None
        if monitor is not None and monitor.startswith("val/"):
            self._every, every_n_train_steps = every_n_train_steps or 0, None
            self._interval, train_time_interval = train_time_interval, None
            save_on_train_epoch_end = False
        super().__init__(
            monitor=monitor,
            every_n_train_steps=every_n_train_steps,
            train_time_interval=train_time_interval,
            save_on_train_epoch_end=save_on_train_epoch_end,
            **options,
        )
        self._saved = self._validated = 0
        """Steps: of the newest checkpoint, and of the newest validation."""
        self._since = 0.0
        """When the newest checkpoint was written, by `time.monotonic`."""
        self._trained = False
        self._written: set[str] = set()
        """Checkpoints that were the best ones at some time, and are perhaps still there."""

    def state_dict(self) -> dict[str, Any]:
        """Lightning's, and which files a resumed run may find beside the best ones."""
        self._written |= {path for path in (self.best_model_path, *self.best_k_models) if path}
        return {**super().state_dict(), "written": sorted(self._written)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore Lightning's state and the list of files."""
        super().load_state_dict(state_dict)
        self._written = set(state_dict.get("written", ()))

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Note which step is saved."""
        if not isinstance(trainer.strategy.checkpoint_io, Rehearsal):
            self._saved, self._since = trainer.global_step, time.monotonic()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Choose the name of ``last.ckpt``, which every checkpoint contains; another run's file is not replaced."""
        super().on_train_start(trainer, pl_module)
        self._saved, self._since = trainer.global_step, time.monotonic()
        version: int | None = None
        while not self.last_model_path:
            path = self.format_checkpoint_name({}, self.CHECKPOINT_NAME_LAST, version)
            self.last_model_path = "" if self.file_exists(path, trainer) else path
            version = (version or 0) + 1

    def on_train_batch_end(self, *_: Any, **__: Any) -> None:
        """Write nothing yet: a validation may follow."""

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Write the checkpoints that are due after the previous step."""
        self._write_due(trainer, pl_module)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write a new best checkpoint; ``last.ckpt`` follows when nothing can change it any more."""
        super().on_validation_end(trainer, pl_module)
        self._validated = trainer.global_step

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write the end of the training; a failed write is tried again."""
        self._trained = True
        self._write_due(trainer, pl_module)
        super().on_train_end(trainer, pl_module)
        failed = getattr(trainer.strategy.checkpoint_io, "failure", None) is not None  # of `AtomicCheckpointIO`
        # only the process that writes knows of a failure, and all must take part in saving
        if trainer.strategy.broadcast(failed or self._saved != trainer.global_step):
            self._save_last(trainer)

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write ``last.ckpt`` where nothing was left to train: the run was killed between its last two checkpoints."""
        if not self._trained and trainer.ckpt_path is not None and Path(trainer.ckpt_path).name != "last.ckpt":
            self._save_last(trainer)
        self._remove_replaced(trainer)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Write ``last.ckpt``, but not in a validation, which the resumed run would skip."""
        if self.save_on_exception and not trainer.validating and self._saved != trainer.global_step:
            self._save_last(trainer)

    def _write_due(self, trainer: Trainer, module: LightningModule) -> None:
        step = trainer.global_step
        if step != self._saved:
            super().on_train_batch_end(trainer, module, None, None, 0)
            due = step == self._validated or (self._every > 0 and step % self._every == 0)
            if self._interval is not None:
                waited = time.monotonic() - self._since >= self._interval.total_seconds()
                due = due or trainer.strategy.broadcast(waited)
            if due and step != self._saved:
                self._save_last(trainer)
        self._remove_replaced(trainer)

    def _save_last(self, trainer: Trainer) -> None:
        if self.save_last and self.last_model_path:
            trainer.save_checkpoint(self.last_model_path, self.save_weights_only)

    def _remove_replaced(self, trainer: Trainer) -> None:
        """Remove replaced checkpoints that a killed process left, and the one that Lightning keeps after a resume."""
        replaced = self._written - {self.best_model_path, *self.best_k_models} if self.save_top_k > 0 else set()
        for path in replaced:
            if Path(path).parent == Path(str(self.dirpath)):  # not of the run whose checkpoint was resumed from
                trainer.strategy.remove_checkpoint(path)
        self._written -= replaced


class RememberBest(Callback):
    """Lets `ModelCheckpoint` go on with the best scores so far, where Lightning's own forgets them.

    Lightning drops them when the folder of the checkpoints is called otherwise than in the checkpoint, as in a run that
    goes on from ``--ckpt_path FILE``. Here they count as long as their files are where they were written; else the best
    is chosen from here on, and this is said.
    """

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Check that all processes go on from the same file.

        Raises:
            InputError: a run of the same name began while they started, and ``last`` is another one to each of them.
        """
        if stage == "fit":
            first = trainer.strategy.broadcast(trainer.ckpt_path)
            if first != trainer.ckpt_path:
                raise InputError(
                    f"the processes of this run go on from different checkpoints ({first}, {trainer.ckpt_path}); "
                    "start it again with --ckpt_path FILE"
                )

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Rewrite the callback's state in the checkpoint before Lightning reads it."""
        if trainer.state.fn != TrainerFn.FITTING:
            return
        states = checkpoint.get("callbacks", {})
        for saver in _savers(trainer):
            state = states.get(saver.state_key)
            known = state is not None and all(
                saver.file_exists(path, trainer) for path in (*state["best_k_models"], state["best_model_path"]) if path
            )
            if saver.monitor is not None and not known:
                lost = f"{saver.monitor} so far, or its file is gone: the best is chosen from here on"
                say(f"{trainer.ckpt_path} does not know the best {lost}")
            if state is not None:
                last = state["last_model_path"] if state["dirpath"] == saver.dirpath else ""
                now = {} if known else {name: value for name, value in saver.state_dict().items() if name in _CHOSEN}
                states[saver.state_key] = {**state, "dirpath": saver.dirpath, "last_model_path": last, **now}


_CHOSEN = ("best_k_models", "best_model_path", "best_model_score", "kth_best_model_path", "kth_value")
"""Fields of `ModelCheckpoint`'s state about its choice."""


def _savers(trainer: Trainer) -> Iterator[ModelCheckpoint]:
    return (saver for saver in trainer.checkpoint_callbacks if isinstance(saver, ModelCheckpoint))
