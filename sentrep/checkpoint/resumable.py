"""The content of a checkpoint, checked as a whole before anything of it is used.

Lightning and torch read it piece by piece, some of it without a look: an optimiser's state of another shape makes a
fused kernel write beyond its tensors, and a missing counter starts from 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from lightning.pytorch import Trainer
from torch import Tensor, nn
from torch.optim import Optimizer

from sentrep.checkpoint.reader import Reader, show
from sentrep.errors import InputError
from sentrep.training.parameter_groups import parameter_groups

_SQUARES = ("exp_avg_sq", "max_exp_avg_sq", "square_avg")
"""States that a root is taken of."""
_LOADER = ("epoch", "done", "skipped")


def check(content: Mapping[str, Any], module: Any, trainer: Trainer, path: object, training: bool) -> None:
    """All that Lightning takes from a checkpoint: weights, callbacks, counters and, to train on, everything else.

    Args:
        content: of the file.
        module: `SentRepModule` that it is for.
        trainer: that would read it.
        path: of the file, for the messages.
        training: whether optimiser, schedule and place in the text are to be restored, too.

    Raises:
        InputError: names the file, the key and what is wrong with it.
    """
    reader = Reader(path)
    version = reader.part(content, "pytorch-lightning_version", str)
    if not re.match(r"\d+\.\d+", version):
        raise reader.refuse("pytorch-lightning_version", f"is {show(version)}")
    _check_weights(reader, reader.part(content, "state_dict", dict), module)
    callbacks = reader.part(content, "callbacks", dict) if "callbacks" in content else {}
    for name in callbacks:
        reader.part(callbacks, name, dict, "callbacks")
    loops = reader.part(content, "loops", dict)
    for name in ("fit_loop", "validate_loop", "test_loop", "predict_loop"):
        _check_progress(reader, reader.part(loops, name, dict, "loops"), getattr(trainer, name).state_dict(), name)
    if training:
        _check_training(reader, content, module)


def _check_training(reader: Reader, content: Mapping[str, Any], module: Any) -> None:
    reader.part(content, "callbacks", dict)
    reader.count(content, "epoch")
    step = reader.count(content, "global_step")
    loop = content["loops"]["fit_loop"]
    steps = loop["epoch_loop.automatic_optimization.optim_progress"]["optimizer"]["step"]["total"]["completed"]
    if step != steps:
        raise reader.refuse("global_step", f"is {step} where the loops have counted {steps} steps")
    _check_position(reader, loop["state_dict"].get("combined_loader", []))
    optimizer = module.optimizer(parameter_groups(module))
    states = reader.part(content, "optimizer_states", list)
    if len(states) != 1:
        raise reader.refuse("optimizer_states", f"has {len(states)} entries where 1 optimizer is to be restored")
    if not isinstance(states[0], dict):
        raise reader.refuse("optimizer_states.0", f"is {show(states[0])} where a dict was expected")
    _check_optimizer(reader, states[0], module, optimizer, step)
    schedules = reader.part(content, "lr_schedulers", list)
    if len(schedules) != 1:
        raise reader.refuse("lr_schedulers", f"has {len(schedules)} entries where 1 schedule is to be restored")
    _check_schedule(reader, schedules[0], len(optimizer.param_groups))


def _check_weights(reader: Reader, state: Mapping[str, Any], module: nn.Module) -> None:
    expected = module.state_dict()
    if missing := [name for name in expected if name not in state]:
        raise reader.refuse(f"state_dict.{missing[0]}", f"is missing ({len(missing)} weights are)")
    if unknown := [name for name in state if name not in expected]:
        raise InputError(
            f"{reader.path}: state_dict.{unknown[0]} has no place in this model ({len(unknown)} weights have none); "
            "resume with the model that the checkpoint was trained with"
        )
    trained = {name for name, _ in module.named_parameters(remove_duplicate=False)}
    for name, tensor in expected.items():
        if isinstance(tensor, Tensor):
            _check_tensor(reader, state[name], tensor.shape, tensor.is_floating_point(), f"state_dict.{name}")
            if name in trained:
                _check_finite(reader, state[name], f"state_dict.{name}")


def _check_tensor(reader: Reader, value: Any, shape: Iterable[int], floating: bool, name: str) -> None:
    if not isinstance(value, Tensor):
        raise reader.refuse(name, f"is {show(value)} where a tensor was expected")
    if tuple(value.shape) != tuple(shape):
        raise reader.refuse(name, f"has the shape {tuple(value.shape)} where {tuple(shape)} was expected")
    if value.is_floating_point() != floating or value.is_complex():
        raise reader.refuse(name, f"is of type {value.dtype}")


def _check_finite(reader: Reader, value: Tensor, name: str) -> None:
    if value.is_floating_point() and not torch.isfinite(value).all():
        raise reader.refuse(name, "holds a NaN or an infinity")


def _check_progress(reader: Reader, found: Mapping[str, Any], template: Mapping[str, Any], where: str) -> None:
    """The counters of the loops: all that the trainer itself would write, and nothing but numbers."""
    for key, value in template.items():
        if isinstance(value, dict):
            below = reader.part(found, key, dict, where)
            if not key.endswith("state_dict"):
                _check_progress(reader, below, value, f"{where}.{key}")
        elif isinstance(value, bool):
            reader.part(found, key, bool, where)
        else:
            reader.count(found, key, where)


def _check_position(reader: Reader, loaders: Any) -> None:
    """Of the loaders, as far as they are ours."""
    where = "loops.fit_loop.state_dict.combined_loader"
    if not isinstance(loaders, list) or not all(isinstance(state, dict) for state in loaders):
        raise reader.refuse(where, f"is {show(loaders)}")
    ours = [state for state in loaders if any(key in state for key in (*_LOADER, "order"))]
    if ours and len(loaders) > 1:
        raise reader.refuse(where, f"has {len(loaders)} entries where 1 loader is to be restored")
    for state in ours:
        for key in _LOADER:
            reader.count(state, key, where)
        for key in ("order", "place"):
            reader.part(state, key, dict, where)


def _check_optimizer(
    reader: Reader, found: Mapping[str, Any], module: nn.Module, optimizer: Optimizer, step: int
) -> None:
    where = "optimizer_states.0"
    groups, states = reader.part(found, "param_groups", list, where), reader.part(found, "state", dict, where)
    mine = optimizer.param_groups
    if len(groups) != len(mine):
        raise reader.refuse(f"{where}.param_groups", f"has {len(groups)} entries where {len(mine)} were expected")
    expected: dict[Any, tuple[nn.Parameter, dict[str, Any]]] = {}
    for number, (group, own) in enumerate(zip(groups, mine, strict=True)):
        key = f"{where}.param_groups.{number}"
        if not isinstance(group, dict):
            raise reader.refuse(key, f"is {show(group)}")
        names = reader.part(group, "params", list, key)
        if len(names) != len(own["params"]):
            raise reader.refuse(f"{key}.params", f"has {len(names)} entries where {len(own['params'])} were expected")
        _check_settings(reader, group, own, key)
        kept, named = _kept(module, group), dict(module.named_parameters())  # FSDP2 counts by name
        expected |= {name: (named.get(name, own["params"][place]), kept) for place, name in enumerate(names)}
        if kept and step and not states:
            raise reader.refuse(f"{where}.state", f"is empty after {step} steps")
    for name, state in states.items():
        if name not in expected:
            raise reader.refuse(f"{where}.state.{name}", "belongs to no parameter")
        _check_state(reader, state, *expected[name], f"{where}.state.{name}")


def _check_settings(reader: Reader, group: Mapping[str, Any], own: Mapping[str, Any], where: str) -> None:
    """The numbers among a group's settings, the learning rate for one."""
    for key, value in own.items():
        if key == "params" or isinstance(value, bool) or not isinstance(value, (int, float, tuple, Tensor)):
            continue
        if key not in group:
            raise reader.other(f"{where}.{key}", "is missing")
        found = group[key] if isinstance(value, tuple) else (group[key],)
        if not isinstance(found, (tuple, list)) or len(found) != (len(value) if isinstance(value, tuple) else 1):
            raise reader.refuse(f"{where}.{key}", f"is {show(found)}")
        for one in found:
            reader.number(one, f"{where}.{key}")


def _kept(module: Any, group: Mapping[str, Any]) -> dict[str, Any]:
    """What the optimiser remembers of a parameter under a group's settings, as it is after a step of a small one."""
    parameter = nn.Parameter(torch.zeros(2, 3))
    optimizer: Optimizer = module.optimizer([{"params": [parameter]}])
    kinds = ("foreach", "fused", "capturable", "differentiable")  # ways to compute the same
    settings = {key: value for key, value in group.items() if key not in ("params", *kinds)}
    optimizer.param_groups[0].update(settings)

    def closure() -> Tensor:
        parameter.grad = torch.zeros_like(parameter)
        return parameter.sum()

    optimizer.step(closure)  # type: ignore[arg-type]
    state: dict[str, Any] = optimizer.state_dict()["state"].get(0, {})
    return state


def _check_state(reader: Reader, state: Any, parameter: nn.Parameter, kept: dict[str, Any], where: str) -> None:
    if not isinstance(state, dict):
        raise reader.refuse(where, f"is {show(state)} where a dict was expected")
    if differing := sorted(map(str, state.keys() ^ kept.keys())):
        missing = differing[0] in kept
        what = "is missing" if missing else "is nothing that this optimizer remembers"
        raise reader.other(f"{where}.{differing[0]}", what)
    for key, example in kept.items():
        name = f"{where}.{key}"
        if isinstance(example, Tensor) and example.ndim:
            like_parameter = example.shape == (2, 3)
            shape = parameter.shape if like_parameter else getattr(state[key], "shape", ())
            _check_tensor(reader, state[key], shape, example.is_floating_point(), name)
            _check_finite(reader, state[key], name)
            if key in _SQUARES and (state[key] < 0).any():
                raise reader.refuse(name, "holds a negative square")
        elif isinstance(example, (int, float, Tensor)):
            reader.number(state[key], name)


def _check_schedule(reader: Reader, state: Any, groups: int) -> None:
    where = "lr_schedulers.0"
    if not isinstance(state, dict):
        raise reader.refuse(where, f"is {show(state)} where a dict was expected")
    for key in ("last_epoch", "_step_count"):
        reader.count(state, key, where)
    for key in ("base_lrs", "_last_lr", "lr_lambdas"):
        if len(reader.part(state, key, list, where)) != groups:
            raise reader.refuse(f"{where}.{key}", f"has {len(state[key])} entries where {groups} were expected")
    for key in ("base_lrs", "_last_lr"):
        for rate in state[key]:
            reader.number(rate, f"{where}.{key}")
