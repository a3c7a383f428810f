"""Optimisers that look at the loss next to the weights before they step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import ParamsT

from sentrep.errors import InputError
from sentrep.types import OptimizerCallable


class PerturbedWeights(Optimizer, ABC):
    """Steps from w with the gradient at w + ε(w), where ε makes the loss worse.

    One step calls the closure twice, so it costs two forward and backward passes:

        g = ∇L(w);   ε from g (`perturbations`);   g' = ∇L(w + ε);   base optimiser: w ← step(w, g')

    Between the two, w is restored by copy, bit for bit, even if the closure fails. Parameter groups and state *are* the
    base optimiser's, so schedulers act on it and a checkpoint has the same content as without the wrapper.

    `SentRepModule` makes both closure calls the same function of the weights: the same dropout masks and noise and,
    with gradient accumulation, all micro-batches of the step (`StepReplay`). Logs and the views of `after_step`
    come from the first call, at w. Gradients are clipped in both calls: the base optimiser steps with the clipped g',
    as under the HF Trainer. Clipping g by norm does not change ε; clipping by value does. With DDP both
    gradients are the global batch's, so ε is the same on every rank.

    Args:
        params: parameters, or groups of them.
        base_optimizer: makes the optimiser that steps.
    """

    def __init__(self, params: ParamsT, base_optimizer: OptimizerCallable) -> None:
        self.base = base_optimizer(params)
        super().__init__(self.base.param_groups, self.base.defaults)
        self._share()

    def _share(self) -> None:
        self.param_groups = self.base.param_groups
        self.state = self.base.state

    @abstractmethod
    def perturbations(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Each parameter w_l to perturb with its ε_l, of the same shape, from the gradients at w."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step; see the class.

        Args:
            closure: sets the gradients (to zero, then by a backward pass) and returns the loss.

        Returns:
            The loss at w.

        Raises:
            InputError: without a closure.
        """
        if closure is None:
            raise InputError(
                f"{type(self).__name__} computes two gradients per step and needs a closure for them: "
                "call step(closure); a gradient scaler (precision 16-mixed) cannot pass one, bf16-mixed can"
            )
        closure = torch.enable_grad()(closure)
        loss = closure()
        weights: list[tuple[Tensor, Tensor]] = []
        try:
            for parameter, perturbation in self.perturbations():
                weights.append((parameter, parameter.clone()))
                parameter.add_(perturbation)
            closure()
        finally:
            for parameter, weight in weights:
                parameter.copy_(weight)
        self.base.step()
        return loss

    def state_dict(self) -> dict[str, Any]:
        """The base optimiser's state; a step leaves nothing else behind."""
        return self.base.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Hand the state to the base optimiser."""
        self.base.load_state_dict(state_dict)
        self._share()

    def _with_gradient(self) -> list[tuple[Tensor, Tensor]]:
        """Parameters that the last backward pass reached, and their gradients."""
        return [(p, p.grad) for group in self.param_groups for p in group["params"] if p.grad is not None]


def refuse_gradient_scaler(optimizer: Optimizer, scaler: object | None, clips: bool = False) -> None:
    """Refuse a gradient scaler that would break the step.

    It runs the closure itself, once, before it calls the optimiser. A fused optimiser takes the scale off in its step,
    too late for clipping.

    Args:
        optimizer: any.
        scaler: of the Trainer (``trainer.scaler``), or None.
        clips: whether gradients are clipped.

    Raises:
        InputError: for a `PerturbedWeights` with a scaler, or a fused optimiser with a scaler and clipping.
    """
    if scaler is not None and clips and optimizer.defaults.get("fused"):
        raise InputError(
            "precision 16-mixed cannot clip the gradients of a fused optimiser: set model.optimizer.fused to false, or "
            "use bf16-mixed"
        )
    if scaler is not None and isinstance(optimizer, PerturbedWeights):
        raise InputError(
            f"{type(optimizer).__name__} needs two gradients per step, which the gradient scaler of precision 16-mixed "
            "cannot give; use bf16-mixed or 32-true"
        )
