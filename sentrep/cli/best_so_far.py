"""Which checkpoint is the best so far, and what a run that goes on knows of it, in whichever folder it writes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.trainer.states import TrainerFn
from torch import Tensor

from sentrep.cli.logs import say
from sentrep.errors import InputError


class BestCheckpoint(ModelCheckpoint):
    """Lightning's, but of equal scores the last is kept: where a criterion cannot tell, it is the most trained one."""

    def check_monitor_top_k(self, trainer: Trainer, current: Tensor | None = None) -> bool:
        """Whether a score is among the best, or as good as the worst of these."""
        worst = self.best_k_models.get(self.kth_best_model_path)
        equal = current is not None and worst is not None and bool(current == worst)
        return super().check_monitor_top_k(trainer, current) or trainer.strategy.reduce_boolean_decision(equal)


class RememberBest(Callback):
    """Lets `ModelCheckpoint` go on with the best scores so far, where Lightning's own forgets them.

    Lightning drops them when the folder of the checkpoints is called otherwise than in the checkpoint, as in a run that
    goes on from ``--ckpt_path FILE``. Here they count as long as their files are where they were written; else the best
    is chosen from here on, and this is said. A checkpoint that is saved before the metric exists, because the run is
    interrupted, is not called as if the metric were 0.
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
        """Rewrite what the checkpoint says, before Lightning reads it."""
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

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Leave out of the file's name what is not known yet; `ModelCheckpoint` saves behind this."""
        known = {"epoch", "step", *trainer.callback_metrics}
        for saver in _savers(trainer):
            if saver.filename:
                saver.filename = re.sub(
                    r"-?[^{}=]*=?\{([^}:]+)[^}]*\}", lambda part: part[0] if part[1] in known else "", saver.filename
                )


_CHOSEN = ("best_k_models", "best_model_path", "best_model_score", "kth_best_model_path", "kth_value")
"""What a `ModelCheckpoint` remembers of its choice."""


def _savers(trainer: Trainer) -> Iterator[ModelCheckpoint]:
    return (saver for saver in trainer.checkpoint_callbacks if isinstance(saver, ModelCheckpoint))
