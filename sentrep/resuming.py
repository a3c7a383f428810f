"""Where a resumed run goes on: edits of the loops' state in a checkpoint, which Lightning reads back."""

from __future__ import annotations

from typing import Any

_COUNTS = ("ready", "started", "processed", "completed")


def rewind_partial_step(checkpoint: dict[str, Any], accumulate: int, batches: float) -> None:
    """Move a checkpoint back to the end of its last optimiser step.

    Gradients are not saved. A checkpoint from the middle of an optimiser step (an exception, a validation between two
    micro-batches, a time limit) would go on without those that were accumulated. Here the step's batches count as not
    seen, so the resumed run computes the whole step again. One from between two steps stays as it is.

    Args:
        checkpoint: as Lightning dumps it; changed in place.
        accumulate: batches per optimiser step.
        batches: per epoch; the last one ends a step, too.
    """
    fit_loop = checkpoint["loops"]["fit_loop"]
    progress = fit_loop["epoch_loop.batch_progress"]
    current = progress["current"]
    seen = current["processed"]
    boundary = seen if seen == batches else seen - seen % accumulate
    if current["ready"] == seen == boundary:
        return
    _move(progress, boundary)
    for loader in fit_loop["state_dict"].get("combined_loader", []):
        loader["done"] = min(loader["done"], boundary)


def convert_position(checkpoint: dict[str, Any], order: dict[str, Any], accumulate: int) -> bool:
    """Translate the position in the epoch to another batch size, number of processes or corpus.

    The same rows in the same order: the run goes on with the first optimiser step that holds an unseen row, so fewer
    rows than one optimiser step takes are seen twice. Other rows or another order: the epoch starts again.

    Args:
        checkpoint: as Lightning dumps it; changed in place.
        order: what the order depends on now (`ResumableLoader.order`).
        accumulate: batches per optimiser step now.

    Returns:
        Whether the rows and their order are the same.
    """
    fit_loop = checkpoint["loops"]["fit_loop"]
    (state,) = fit_loop["state_dict"]["combined_loader"]
    old, size = state["order"], order["global batch size"]
    same = all(old[key] == order[key] for key in order if key != "global batch size")
    seen = state["done"] * old["global batch size"] if same else 0
    state["done"] = seen // (size * accumulate) * accumulate
    state["order"] = dict(order)
    progress = fit_loop["epoch_loop.batch_progress"]
    progress["is_last_batch"] = False
    _move(progress, state["done"])
    return same


def _move(progress: dict[str, Any], batches: int) -> None:
    """Let ``batches`` of this epoch be ready, started, processed and completed."""
    total = progress["total"]["processed"] - progress["current"]["processed"] + batches
    progress["current"].update(dict.fromkeys(_COUNTS, batches))
    progress["total"].update(dict.fromkeys(_COUNTS, total))
