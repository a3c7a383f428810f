"""What a run that goes on knows of the best checkpoint so far, wherever its folder lies now."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.trainer.states import TrainerFn

from sentrep.cli.logs import say
from sentrep.data.text.locations import is_address
from sentrep.errors import InputError

State = dict[str, Any]


class RememberBest(Callback):
    """Lets `ModelCheckpoint` go on with the best scores so far, where Lightning's own forgets them without a word.

    Lightning drops them when the folder of the checkpoints is called otherwise than in the checkpoint: a run that goes
    on from ``--ckpt_path FILE``, or whose folder was moved. Here the files are looked for beside that checkpoint, then
    where they were written. What is not there any more cannot be chosen; this is said.

    Of several checkpoints with the best score the last is kept, where Lightning keeps the first. A checkpoint that is
    saved before the metric exists, because the run is interrupted, is not called as if the metric were 0.
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
        for saver in trainer.checkpoint_callbacks:
            if isinstance(saver, ModelCheckpoint):
                state = None
                if trainer.is_global_zero:  # which alone sees the folders, and alone writes
                    state = _located(_state_of(saver, states), saver, str(trainer.ckpt_path))
                if (state := trainer.strategy.broadcast(state)) is not None:
                    states[saver.state_key] = state

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Let this validation win where it equals the best: theirs count as worse by the smallest number there is."""
        if trainer.state.fn != TrainerFn.FITTING or trainer.sanity_checking:
            return
        for saver in trainer.checkpoint_callbacks:
            if isinstance(saver, ModelCheckpoint) and saver.monitor in trainer.callback_metrics:
                now = trainer.callback_metrics[saver.monitor]
                worse = torch.full_like(now, -math.inf if saver.mode == "max" else math.inf)
                for path, score in saver.best_k_models.items():
                    if score == now:
                        saver.best_k_models[path] = torch.nextafter(now, worse)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Leave out of the file's name what is not known yet; `ModelCheckpoint` saves behind this."""
        known = {"epoch", "step", *trainer.callback_metrics}
        for saver in trainer.checkpoint_callbacks:
            if isinstance(saver, ModelCheckpoint) and saver.filename:
                saver.filename = re.sub(
                    r"-?[^{}=]*=?\{([^}:]+)[^}]*\}", lambda part: part[0] if part[1] in known else "", saver.filename
                )


def _state_of(saver: ModelCheckpoint, states: dict[str, State]) -> State | None:
    """That of a callback which chose by the same metric, however often it saved."""
    by = (repr(saver.monitor), repr(saver.mode))
    kept = [key for key in states if key.startswith("ModelCheckpoint") and all(word in key for word in by)]
    return next((states[key] for key in (saver.state_key, *kept) if key in states), None)


def _located(state: State | None, saver: ModelCheckpoint, resumed: str) -> State | None:
    """The state with the paths as they are now, and without files that are not there."""
    if state is None:
        if saver.monitor is not None:
            say(f"{resumed} does not know the best {saver.monitor} so far: the best is chosen from here on")
        return None
    folder = Path(str(saver.dirpath))
    beside = Path(resumed).parent
    home = folder if folder.resolve() == beside.resolve() else beside
    places = {path: _find(path, home) for path in (*state["best_k_models"], state["best_model_path"])}
    kept = {place: score for path, score in state["best_k_models"].items() if (place := places[path])}
    best_of, worst_of = (max, min) if saver.mode == "max" else (min, max)
    while 0 <= saver.save_top_k < len(kept):
        kept.pop(worst_of(kept, key=lambda place: float(kept[place])))
    best, last = state["best_model_path"], _find(state["last_model_path"], home)
    found = best_of(kept, key=lambda place: float(kept[place]), default="") if saver.monitor else places[best]
    if saver.monitor and best and places[best] is None:
        score = f"{saver.monitor} {float(state['best_model_score']):.4f}"
        say(f"the best checkpoint so far, {best} ({score}), is not there any more: the best is chosen without it")
    worst = worst_of(kept, key=lambda place: float(kept[place])) if len(kept) == saver.save_top_k > 0 else ""
    return {
        **state,
        "dirpath": saver.dirpath,
        "best_model_path": found or "",
        "best_model_score": kept.get(found or ""),
        "best_k_models": kept,
        "kth_best_model_path": worst,
        "kth_value": kept.get(worst, saver.kth_value),
        "last_model_path": last if last and Path(last).parent == folder else "",
    }


def _find(path: str, home: Path) -> str | None:
    """Where a checkpoint is that was written into the folder of the one that the run goes on from."""
    if not path or is_address(path):
        return path or None
    return next((str(place) for place in (home / Path(path).name, Path(path)) if place.is_file()), None)
