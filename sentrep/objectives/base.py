"""What every term of the loss has in common, and what its value must be."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from sentrep.config import Configurable
from sentrep.errors import InputError
from sentrep.types import EncoderSpec, TextBatch, TokenBatch, Views


class Objective(Configurable, nn.Module, ABC):
    """One term of the training loss: a function of the views, with what state it needs.

    Subclass it in your own file, write `forward`, and name the class in the configuration by ``class_path``. The
    encoder has already run when `forward` is called; the same pass serves all objectives.

    The class attributes below may be set on an object too, say by an objective that holds others, before `build` ends.

    Attributes:
        metrics: scalars that the last `forward` wants logged, by name: tensors of one number, or plain numbers.
        reads_tokens: whether `forward` reads ``token_states`` or ``input_embeddings`` of the encoder's output. One that
            needs the vectors alone says False: that saves a part of the last layer, and with ``rows_at_once`` the
            memory of all tokens' states.
        reads_layers: the layers whose outputs `forward` reads (`EncoderOutput.layers`): 0 is the embedding layer, k the
            k-th, −1 the last. They are kept for all tokens of all views. `build` may set it, for `EncoderSpec.layers`.
        compiles: whether ``compile`` of the encoder's `Compute` compiles `forward` too. It should work on the same
            shapes in every step.
        projects_extra: whether `Views.projected` has the extra inputs' vectors after the projection head.
        parameter_options: settings of the optimiser for the objective's own parameters, for example ``{"lr": 1e-3}``,
            in place of the run's; the schedule multiplies them. What belongs to the encoder too, say tied word
            embeddings, has the run's.
        step: optimiser steps done: the same on every process and after a resume.
    """

    reads_tokens: bool = True
    reads_layers: tuple[int, ...] = ()
    compiles: bool = False
    projects_extra: bool = False
    parameter_options: Mapping[str, Any] = MappingProxyType({})

    def __init__(self) -> None:
        super().__init__()
        self.metrics: dict[str, Tensor | float] = {}
        self.step = 0

    def build(self, spec: EncoderSpec) -> None:
        """Create parameters and buffers here; called once, before the optimiser is made."""

    def extra_inputs(self, batch: TextBatch) -> dict[str, TokenBatch]:
        """More inputs for the shared pass; their outputs come back in `Views.extra` under the same keys."""
        return {}

    @abstractmethod
    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        """The term's value.

        Args:
            views: embeddings of this process's B sentences.
            batch: their tokens.

        Returns:
            Scalar float32. With several processes, a mean over this process's rows: the average over the processes is
            the global batch's loss.
        """

    def after_step(self, views: Views) -> None:
        """Called once per optimiser step, with the (detached) views of its last forward."""


def between(width: int, other: int) -> nn.Module:
    """What brings vectors of one width to another: a linear layer, or nothing where the widths are the same."""
    return nn.Identity() if width == other else nn.Linear(width, other)


def draw_weights(module: nn.Module, std: float = 0.02) -> None:
    """Begin a module as BERT began: matrices from N(0, std²), biases 0; what scales a norm stays."""
    for name, parameter in module.named_parameters():
        if parameter.ndim > 1:
            nn.init.normal_(parameter, std=std)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)


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
