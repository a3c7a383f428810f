"""Edit the loops' state in a checkpoint, from which Lightning resumes."""

from __future__ import annotations

from typing import Any

_COUNTS = ("ready", "started", "processed", "completed")


def align_position(checkpoint: dict[str, Any], accumulate: int, batches: float) -> None:
    """Move a checkpoint's position between two optimiser steps of one epoch, from which a run resumes exactly.

    Gradients are not saved. A checkpoint from the middle of an optimiser step (an exception, a validation between two
    micro-batches, a time limit) would resume without the accumulated gradients. Therefore the step's batches count as
    not seen, and the resumed run repeats the whole step. A position between two steps does not change. An epoch that
    Lightning has closed because training ended within it (``max_steps``, ``max_time``) is open again. The end
    of an epoch becomes the start of the next epoch: otherwise Lightning would count an epoch without a batch first,
    which would change everything that depends on the number of the epoch (order, dropout).

    Args:
        checkpoint: of Lightning; changed in place.
        accumulate: batches per optimiser step.
        batches: per epoch; the last one ends a step, too.
    """
    fit_loop = checkpoint["loops"]["fit_loop"]
    progress = fit_loop["epoch_loop.batch_progress"]
    current = progress["current"]
    seen = current["processed"]
    epochs = fit_loop["epoch_progress"]
    if seen < batches and epochs["current"]["processed"] == epochs["current"]["ready"]:
        for count in ("current", "total"):
            for name in ("processed", "completed"):
                epochs[count][name] = epochs[count]["ready"] - 1
        checkpoint["epoch"] = epochs["current"]["processed"]
    loaders = [state for state in fit_loop["state_dict"].get("combined_loader", []) if "done" in state]  # ours
    if seen == batches:
        _start_next_epoch(fit_loop, checkpoint, loaders)
        return
    boundary = seen - seen % accumulate
    if current["ready"] == seen == boundary:
        return
    _move(progress, boundary)
    for loader in loaders:
        loader["done"] = min(loader["done"], boundary)


def _start_next_epoch(fit_loop: dict[str, Any], checkpoint: dict[str, Any], loaders: list[dict[str, Any]]) -> None:
    progress, epochs = fit_loop["epoch_loop.batch_progress"], fit_loop["epoch_progress"]
    total = progress["total"]["processed"]
    _move(progress, 0)
    progress["total"].update(dict.fromkeys(_COUNTS, total))
    progress["is_last_batch"] = False
    for loader in loaders:
        loader.update(epoch=loader["epoch"] + 1, done=0)
    for count in ("current", "total"):
        finished = epochs[count]["ready"]
        epochs[count].update(ready=finished + 1, started=finished + 1, processed=finished, completed=finished)
    checkpoint["epoch"] = epochs["current"]["processed"]


def start_epoch_again(checkpoint: dict[str, Any], order: dict[str, Any]) -> None:
    """Let a run whose batches have changed begin its epoch anew.

    Args:
        checkpoint: as Lightning dumps it; changed in place.
        order: the present settings of the batches' order (`ResumableLoader.order`).
    """
    fit_loop = checkpoint["loops"]["fit_loop"]
    progress = fit_loop["epoch_loop.batch_progress"]
    _move(progress, 0)
    progress["is_last_batch"] = False
    for state in fit_loop["state_dict"]["combined_loader"]:
        state.update(done=0, order=dict(order))


def _move(progress: dict[str, Any], batches: int) -> None:
    """Let ``batches`` of this epoch be ready, started, processed and completed."""
    total = progress["total"]["processed"] - progress["current"]["processed"] + batches
    progress["current"].update(dict.fromkeys(_COUNTS, batches))
    progress["total"].update(dict.fromkeys(_COUNTS, total))
