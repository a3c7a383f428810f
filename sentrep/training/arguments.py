"""Checks of the arguments of `SentRepModule`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from lightning.pytorch.strategies import FSDPStrategy, ModelParallelStrategy, Strategy
from torch import nn
from torch.optim import Optimizer

from sentrep import checks
from sentrep.config import check_initialised
from sentrep.encoder import ProjectionHead, SentenceEncoder
from sentrep.errors import InputError, did_you_mean
from sentrep.objectives import Objective
from sentrep.views import ViewMaker


def check_module(arguments: Mapping[str, Any]) -> None:
    """Refuse values that would fail, or have another effect, only in training.

    Args:
        arguments: of `SentRepModule`, by name.

    Raises:
        InputError: names the argument.
    """
    owner = "model"
    checks.instance(owner, SentenceEncoder, encoder=arguments["encoder"])
    checks.instance(owner, ProjectionHead, **checks.given(head=arguments["head"]))
    checks.instance(owner, ViewMaker, **checks.given(views=arguments["views"]))
    for name in ("head", "views"):
        check_initialised(arguments[name], name)
    checks.one_of(owner, ("linear", "constant", "cosine"), scheduler=arguments["scheduler"])
    warmup = arguments["warmup_steps"]
    checks.not_negative(owner, warmup_steps=warmup)
    if warmup > 1 and warmup % 1:
        raise InputError(f"{owner}: warmup_steps {warmup} is neither a whole number of steps nor a share below 1")
    checks.whole(owner, 0, 2**63 - 1, **checks.given(seed=arguments["seed"]))
    check_optimizer(arguments["optimizer"])


def check_strategy(strategy: Strategy) -> None:
    """Refuse a strategy that divides the weights among the processes: a checkpoint is one file with all weights.

    Raises:
        InputError: names the strategies and settings to use instead.
    """
    if isinstance(strategy, (FSDPStrategy, ModelParallelStrategy)):
        raise InputError(
            f"trainer.strategy {type(strategy).__name__} divides the weights among the processes, which is not done "
            "here; use ddp and, where memory is short, GradCache (model.encoder.compute.rows_at_once) or LoRA "
            "(model.encoder.trainable)"
        )


def check_trainer(settings: Any) -> None:
    """Refuse numbers that Lightning takes, and with which it trains uphill, towards NaN, or not at all.

    Args:
        settings: a Trainer, or its settings by name.

    Raises:
        InputError: names the setting and its possible values.
    """
    clip, accumulate = settings.gradient_clip_val, settings.accumulate_grad_batches
    if clip is not None and not clip > 0:
        raise InputError(f"trainer.gradient_clip_val {clip}: give a number above 0, or null for no clipping")
    if accumulate < 1:
        raise InputError(f"trainer.accumulate_grad_batches {accumulate}: give a number of batches, 1 or more")
    for name in ("max_steps", "max_epochs", "limit_train_batches"):
        if getattr(settings, name) == 0:
            raise InputError(f"trainer.{name} 0: nothing would be trained; give a number above 0, or leave it out")


def check_options(objectives: nn.Module, make: Any) -> None:
    """Refuse settings of single objectives (`Objective.parameter_options`) that the optimiser would ignore.

    Args:
        objectives: all of them, those within others too.
        make: called with parameter groups.

    Raises:
        InputError: names the class of the objective and the setting.
    """
    known = make([{"params": [nn.Parameter(torch.zeros(2, 2))]}]).defaults
    for part in objectives.modules():
        if not isinstance(part, Objective):
            continue
        owner = f"{type(part).__name__}.parameter_options"
        checks.instance(type(part).__name__, Mapping, parameter_options=part.parameter_options)
        for name, value in part.parameter_options.items():
            if name not in known:
                hint = did_you_mean(str(name), known) or f"; it has {', '.join(known)}"
                raise InputError(f"{owner}: the optimizer has no setting {name!r}{hint}")
            if type(known[name]) in (int, float):
                checks.not_negative(owner, **{name: value})


def check_optimizer(make: Any) -> None:
    """Refuse an optimiser's settings before data are read; torch itself checks them when training begins.

    Args:
        make: called with parameter groups.

    Raises:
        InputError: for another class than an optimiser, and for numbers that are refused or not finite.
    """
    if not callable(make):
        raise InputError(f"model.optimizer: {make!r} is no optimizer; name a class such as torch.optim.AdamW")
    sizes = ((2, 2), (2,))
    groups = [{"params": [nn.Parameter(torch.zeros(size))], "weight_decay": 0.0} for size in sizes]
    groups[0].pop("weight_decay")
    try:
        optimizer = make(groups)
    except (RuntimeError, TypeError, ValueError) as error:
        raise error if isinstance(error, InputError) else InputError(f"model.optimizer: {error}") from None
    if isinstance(optimizer, torch.optim.SparseAdam):
        raise InputError("model.optimizer: SparseAdam takes sparse gradients, and these are dense; take AdamW")
    if not isinstance(optimizer, Optimizer):
        raise InputError(f"model.optimizer: {make!r} makes no optimizer; name a class such as torch.optim.AdamW")
    for group in optimizer.param_groups:
        for name, value in group.items():
            if name != "params" and isinstance(value, (int, float)) and not isinstance(value, bool):
                checks.not_negative("model.optimizer", **{name: value})
