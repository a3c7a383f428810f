"""What a term of the loss must be, checked where a user's own objective is called for the first time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sentrep.errors import InputError


def check_term(name: str, kind: str, loss: Any) -> None:
    """Refuse what would train something else, or nothing, in silence.

    Args:
        name: of the objective in the configuration.
        kind: its class, for the message.
        loss: what its `forward` has returned.

    Raises:
        InputError: for anything but a scalar tensor of floating point with a gradient.
    """
    if problem := _problem(loss):
        raise InputError(f"objective {name!r}: {kind}.forward returned {problem}")


def check_metric(name: str, metric: str, value: Any) -> Tensor:
    """A metric of an objective as a scalar tensor without gradient; plain numbers are welcome.

    Raises:
        InputError: for anything else.
    """
    if isinstance(value, (int, float)):
        return torch.tensor(float(value))
    if isinstance(value, Tensor) and value.numel() == 1:
        return value.detach().reshape(())
    found = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
    raise InputError(f"objective {name!r}: its metric {metric!r} is {found}; expected a scalar tensor or a number")


def _problem(loss: Any) -> str | None:
    if loss is None:
        return "None; return the loss"
    if not isinstance(loss, Tensor):
        return f"a {type(loss).__name__}; return a scalar tensor that depends on the views"
    if loss.ndim:
        return f"a tensor of shape {tuple(loss.shape)}; return a scalar, say its mean()"
    if not loss.is_floating_point():
        return f"a tensor of {str(loss.dtype).removeprefix('torch.')}; return one of floating point"
    if torch.is_grad_enabled() and not loss.requires_grad:
        return "a loss without gradient, so it trains nothing; compute it from the views, without detach() or no_grad()"
    return None
