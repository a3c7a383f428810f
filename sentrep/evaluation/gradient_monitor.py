"""A monitor of the objectives' gradients: how strong each is, and whether two of them conflict."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor
from torch.optim import Optimizer

from sentrep import checks, distributed
from sentrep.errors import InputError
from sentrep.functional.similarity import at_least_float32
from sentrep.types import TextBatch


class GradientMonitor(Callback):
    """Logs the gradient of every weighted objective with respect to the encoder, each by itself.

        g_k = ∂(weight_k · L_k) / ∂θ,   θ: all trained parameters of the encoder, its projection head included

    - ``train/<objective>/gradient_norm``: ‖g_k‖₂;
    - ``train/<objective>~<other>/gradient_cosine``: g_k · g_l / ‖g_k‖ ‖g_l‖ of each pair, in [−1, 1]; below 0 a step
      that lowers one raises the other. 0 where one of the two is zero.

    θ excludes parameters of a single objective (a decoder), because no other objective changes them. The gradient is
    over all micro-batches of an accumulation and all processes, before clipping; with SAM or AWP it is taken in the
    first pass, at the weights themselves.

    The monitor reads the graph of the step's own forward pass and leaves training bit-identical. A
    monitored step costs one more backward pass per objective, and one float32 copy of θ per objective in memory; other
    steps cost nothing.

    Args:
        every_n_steps: optimiser steps between two measurements; a multiple of the trainer's ``log_every_n_steps``.

    Raises:
        InputError: for a number below 1; at the start of training, for one that is no multiple.

    Examples:
        >>> from sentrep.evaluation import GradientMonitor
        >>> monitor = GradientMonitor(every_n_steps=50)  # for Trainer(callbacks=[monitor])
    """

    def __init__(self, every_n_steps: int = 100) -> None:
        checks.whole(self, 1, every_n_steps=every_n_steps)
        self.every_n_steps = every_n_steps
        self._sums: dict[str, Tensor] = {}
        self._micro_batches = 0
        self._logged: list[str] = []

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Refuse an interval at which nothing would be logged."""
        log_every: int = trainer.log_every_n_steps  # type: ignore[attr-defined]
        if log_every < 1 or self.every_n_steps % log_every:
            raise InputError(
                f"GradientMonitor: every_n_steps must be a multiple of trainer.log_every_n_steps ({log_every}), got "
                f"{self.every_n_steps}"
            )
        self._sums, self._micro_batches = {}, 0

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: TextBatch, batch_idx: int
    ) -> None:
        """Remove the values of the last measurement: they belong to its step alone."""
        for name in self._logged:
            trainer.callback_metrics.pop(name, None)
        self._logged = []

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        """Add a micro-batch's gradients."""
        terms: Any = pl_module.terms
        if terms is None or (trainer.global_step + 1) % self.every_n_steps:
            return
        encoder: Any = pl_module.encoder
        parameters = [parameter for parameter in encoder.parameters() if parameter.requires_grad]
        # a gradient scaler keeps small half-precision gradients from vanishing, here as in training
        scale = trainer.scaler.get_scale() if trainer.scaler is not None else 1.0
        for name, term in terms.weighted.items():
            gradient = _gradient(term * scale, parameters) / scale
            self._sums[name] = self._sums[name] + gradient if name in self._sums else gradient
        self._micro_batches += 1

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer) -> None:
        """Log the step's norms and cosines."""
        if not self._sums:
            return
        # the loss of the global batch is the mean of the processes' losses, and so is its gradient
        parts = self._micro_batches * distributed.world_size()
        gradients = {name: distributed.total(sum_) / parts for name, sum_ in self._sums.items()}
        self._sums, self._micro_batches = {}, 0
        values = {f"train/{name}": value for name, value in gradient_statistics(gradients).items()}
        # not by Lightning's own `log`, which would report them again at every later log step
        trainer.callback_metrics.update(values)
        self._logged = list(values)
        for logger in trainer.loggers:
            logger.log_metrics({name: float(value) for name, value in values.items()}, step=trainer.global_step)


def gradient_statistics(gradients: dict[str, Tensor]) -> dict[str, Tensor]:
    """Norm of each gradient and cosine of each pair, as `GradientMonitor` names them (without ``train/``).

    Examples:
        >>> gradient_statistics({"a": torch.tensor([3.0, 4.0]), "b": torch.tensor([-3.0, -4.0])})
        {'a/gradient_norm': tensor(5.), 'b/gradient_norm': tensor(5.), 'a~b/gradient_cosine': tensor(-1.)}
    """
    norms = {name: torch.linalg.vector_norm(gradient) for name, gradient in gradients.items()}
    statistics = {f"{name}/gradient_norm": norm for name, norm in norms.items()}
    for first, second in combinations(gradients, 2):
        cosine = gradients[first] @ gradients[second] / (norms[first] * norms[second]).clamp_min(1e-30)
        statistics[f"{first}~{second}/gradient_cosine"] = cosine
    return statistics


def _gradient(term: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    """All parameters' gradients as one float32 vector (float64 where a parameter is)."""
    if not term.requires_grad:
        return torch.cat([torch.zeros_like(at_least_float32(parameter)).flatten() for parameter in parameters])
    gradients = torch.autograd.grad(term, parameters, retain_graph=True, materialize_grads=True)
    return torch.cat([at_least_float32(gradient).flatten() for gradient in gradients])
