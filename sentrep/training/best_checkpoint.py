"""The best and the last checkpoint of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from lightning.fabric.plugins.io import TorchCheckpointIO
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.utilities.rank_zero import rank_zero_info

from sentrep.checkpoint.io import AtomicCheckpointIO
from sentrep.data import SentRepDataModule
from sentrep.data.sets.sts import set_name
from sentrep.distributed import says_peer_is_lost
from sentrep.errors import InputError, did_you_mean
from sentrep.evaluation.scoring import GEOMETRY

SCORE = "val/sts"
"""The mean of the development sets, of which more is better."""
_COUNTS = ("step", "epoch")
"""Counters that can be monitored besides metrics; more is newer."""
_CHOSEN = ("best_k_models", "best_model_path", "best_model_score", "kth_best_model_path", "kth_value")
"""Fields of the state about the choice."""


class BestCheckpoint(ModelCheckpoint):
    """Lightning's ModelCheckpoint, for runs that are killed at any moment and resume exactly.

    - A score of a validation (``val/...``) is compared when this validation ends. ModelCheckpoint compares it at
      ``every_n_train_steps``, where it belongs to an older step.
    - A checkpoint between validations is written when the next batch begins. ModelCheckpoint writes it before the
      validation of its step, which a resumed run then skips.
    - ``last.ckpt`` is written after every validation, every ``every_n_train_steps``, at the end of training and on an
      exception. ModelCheckpoint writes it with a new best checkpoint only.
    - An exception in a validation writes nothing, and neither does Ctrl-C in a step: the resumed run repeats the steps
      since ``last.ckpt``.
    - Files are written whole or not at all (`AtomicCheckpointIO`), where the Trainer has no other plug-in for this.
    - A run that resumes in another folder knows the best checkpoint so far, as long as its file is there.

    Without development sets it keeps the last checkpoint.

    Args:
        monitor: metric by which the best checkpoint is chosen; None keeps the most recent ones.
        mode: whether more (``max``) or less (``min``) is better; it may be left out for ``val/sts`` alone.
        save_last: whether to write ``last.ckpt``.
        save_on_exception: whether to write it when the run fails.
        every_n_train_steps: optimizer steps between two checkpoints; with a score of a validation, of ``last.ckpt``.
        options: of ModelCheckpoint; ``filename`` is by default the step and the monitored metric.

    Raises:
        InputError: another metric without ``mode``, a score of a validation with ``train_time_interval``, and, when
            training begins, a score that no set gives.
    """

    def __init__(
        self,
        monitor: str | None = SCORE,
        mode: Literal["max", "min"] | None = None,
        *,
        save_last: bool = True,
        save_on_exception: bool = True,
        every_n_train_steps: int | None = None,
        **options: Any,
    ) -> None:
        if mode is None:
            if monitor not in (SCORE, None, *_COUNTS):
                raise InputError(f"checkpoint.monitor {monitor}: say which way is better: checkpoint.mode max or min")
            mode = "min" if monitor is None else "max"
        self._every = 0
        if monitor is not None and monitor.startswith("val/"):
            if options.get("train_time_interval") is not None:
                raise InputError(f"checkpoint.train_time_interval: {monitor} changes at validations; leave it out")
            self._every, every_n_train_steps = every_n_train_steps or 0, None
            options["save_on_train_epoch_end"] = False
        super().__init__(
            monitor=monitor,
            mode=mode,
            save_last=save_last,
            save_on_exception=save_on_exception,
            every_n_train_steps=every_n_train_steps,
            auto_insert_metric_name=False,
            **options,
        )
        self._saved: int | None = None
        """Step of the newest checkpoint; None before training begins."""
        self._validated = 0
        """Step of the newest validation."""
        self._trained = False
        self._written: set[str] = set()
        """Checkpoints that were the best ones at some time, and are perhaps still there."""

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Settle the metric and the names of files, before the folder is looked at."""
        if trainer.fast_dev_run:  # type: ignore[attr-defined]
            self.save_last = self.save_on_exception = False  # Lightning forgets these
        if type(trainer.strategy.checkpoint_io) is TorchCheckpointIO:
            trainer.strategy.checkpoint_io = AtomicCheckpointIO()
        data: Any = trainer.datamodule  # type: ignore[attr-defined]
        if stage == "fit" and isinstance(data, SentRepDataModule):
            self._check_monitor(trainer, data)
        if self.filename is None:
            metric = "" if self.monitor in (None, *_COUNTS) else self.monitor.removeprefix("val/").replace("/", "-")
            self.filename = "step={step}" + (f"-{metric}={{{self.monitor}:.2f}}" if metric else "")
        super().setup(trainer, pl_module, stage)

    def _check_monitor(self, trainer: Trainer, data: SentRepDataModule) -> None:
        watched = [("EarlyStopping", str(stopper.monitor)) for stopper in trainer.early_stopping_callbacks]
        if self.monitor is not None and self.monitor.startswith("val/"):
            if data.val:
                watched.append(("checkpoint.monitor", self.monitor))
            else:
                self.monitor = None
                rank_zero_info("no validation set: the last checkpoint is kept")
        sets = [f"val/{set_name(spec)}" for spec in data.val or ()]
        scores = [SCORE, *sets, *(f"{name}/{measure}" for name in sets for measure in GEOMETRY)]
        for name, metric in watched:
            if metric.startswith("val/") and not (data.val and metric in scores) and not _others_log(trainer):
                hint = (
                    did_you_mean(metric, scores) or f"; they give {', '.join(scores)}" if data.val else ", it is empty"
                )
                raise InputError(f"{name}: the sets of data.val give no {metric!r}{hint}")

    def state_dict(self) -> dict[str, Any]:
        """Lightning's, and which files a resumed run may find beside the best ones."""
        self._written |= {path for path in (self.best_model_path, *self.best_k_models) if path}
        return {**super().state_dict(), "written": sorted(self._written)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore Lightning's state, in another folder too; a best checkpoint whose file is gone is forgotten."""
        paths = [path for path in (*state_dict["best_k_models"], state_dict["best_model_path"]) if path]
        state = {**state_dict, "dirpath": self.dirpath}
        if state_dict["dirpath"] != self.dirpath:
            state["last_model_path"] = ""
        if not all(Path(path).exists() or "://" in path for path in paths):
            rank_zero_info(f"the file of the best {self.monitor} so far is gone: the best is chosen from here on")
            state.update({name: value for name, value in self.state_dict().items() if name in _CHOSEN})
        super().load_state_dict(state)
        self._written = set(state_dict.get("written", ()))

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Note which step is saved."""
        self._saved = trainer.global_step

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Choose the name of ``last.ckpt``, which every checkpoint contains; another run's file is not replaced."""
        super().on_train_start(trainer, pl_module)
        self._saved = trainer.global_step
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
        """Write the end of the training."""
        self._trained = True
        self._write_due(trainer, pl_module)
        super().on_train_end(trainer, pl_module)
        if self._saved != trainer.global_step:
            self._save_last(trainer)

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write ``last.ckpt`` where nothing was left to train: the run was killed between its last two checkpoints."""
        if not self._trained and trainer.ckpt_path is not None and Path(trainer.ckpt_path).name != "last.ckpt":
            self._save_last(trainer)
        self._remove_replaced(trainer)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Write ``last.ckpt``.

        Not in a validation, which the resumed run would skip, nor within a step, nor where saving would wait for a
        lost process.
        """
        within = trainer.validating or isinstance(exception, KeyboardInterrupt) or says_peer_is_lost(exception)
        if self.save_on_exception and not within and self._saved not in (None, trainer.global_step):
            self._save_last(trainer)

    def _write_due(self, trainer: Trainer, module: LightningModule) -> None:
        step = trainer.global_step
        if step != self._saved:
            super().on_train_batch_end(trainer, module, None, None, 0)
            due = step == self._validated or (self._every > 0 and step % self._every == 0)
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


def _others_log(trainer: Trainer) -> bool:
    """Whether a callback that is neither Lightning's nor one of a run's own may log a score."""
    modules = [type(callback).__module__ for callback in trainer.callbacks]  # type: ignore[attr-defined]
    return any(not module.startswith(("lightning.", "sentrep.")) for module in modules)
