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

from sentrep.checks import LARGEST
from sentrep.errors import InputError
from sentrep.training.parameter_groups import parameter_groups

_SQUARES = ("exp_avg_sq", "max_exp_avg_sq", "square_avg")
"""States that a root is taken of."""
_LOADER = ("epoch", "done", "skipped")


def check(content: dict[str, Any], module: Any, trainer: Trainer, path: object, training: bool) -> None:
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
    reader = _Reader(path)
    version = reader.part(content, "pytorch-lightning_version", str)
    if not re.match(r"\d+\.\d+", version):
        raise reader.refuse("pytorch-lightning_version", f"is {_show(version)}")
    _check_weights(reader, reader.part(content, "state_dict", dict), module)
    callbacks = reader.part(content, "callbacks", dict) if "callbacks" in content else {}
    for name in callbacks:
        reader.part(callbacks, name, dict, "callbacks")
    loops = reader.part(content, "loops", dict)
    for name in ("fit_loop", "validate_loop", "test_loop", "predict_loop"):
        _check_progress(reader, reader.part(loops, name, dict, "loops"), getattr(trainer, name).state_dict(), name)
    if training:
        _check_training(reader, content, module)


class _Reader:
    """Reads parts of the content, each with its type and range; names the file and the key otherwise."""

    def __init__(self, path: object) -> None:
        self.path = path

    def refuse(self, key: str, what: str) -> InputError:
        """The error to raise."""
        return InputError(f"{self.path}: {key} {what}; the checkpoint is damaged, use another")

    def other(self, key: str, what: str) -> InputError:
        """The error where another optimiser may have written the state."""
        return InputError(
            f"{self.path}: {key} {what}; resume with the optimizer that wrote it, or use another checkpoint"
        )

    def kind(self, value: Any, kind: type, name: str) -> None:
        """A ``kind``."""
        if not isinstance(value, kind):
            raise self.refuse(name, f"is {_show(value)} where a {kind.__name__.lower()} was expected")

    def part(self, holder: Mapping[Any, Any], key: str, kind: type, where: str = "") -> Any:
        """``holder[key]``, which must be a ``kind``."""
        name = f"{where}.{key}" if where else key
        if key not in holder:
            raise self.refuse(name, "is missing")
        self.kind(holder[key], kind, name)
        return holder[key]

    def entries(self, holder: Mapping[Any, Any], key: str, many: int, where: str = "", why: str = "") -> Any:
        """``holder[key]``, which must be a list of so many."""
        found = self.part(holder, key, list, where)
        if len(found) != many:
            wanted = why or f"{many} were expected"
            raise self.refuse(f"{where}.{key}" if where else key, f"has {len(found)} entries where {wanted}")
        return found

    def count(self, holder: Any, key: str, where: str = "") -> int:
        """``holder[key]``, which must be a whole number from 0 up."""
        name = f"{where}.{key}" if where else key
        if key not in holder:
            raise self.refuse(name, "is missing")
        value = holder[key]
        if type(value) is not int or not 0 <= value < 2**63:
            raise self.refuse(name, f"is {_show(value)} where a number from 0 up was expected")
        return value

    def number(self, value: Any, name: str) -> None:
        """A finite number from 0 up, also as a tensor of one element."""
        value = value.item() if isinstance(value, Tensor) and value.ndim == 0 else value
        if type(value) not in (int, float) or not 0 <= value <= LARGEST:
            raise self.refuse(name, f"is {_show(value)} where a finite number from 0 up was expected")

    def tensor(self, value: Any, shape: Iterable[int], floating: bool, name: str) -> None:
        """A tensor of this shape."""
        self.kind(value, Tensor, name)
        if tuple(value.shape) != tuple(shape):
            raise self.refuse(name, f"has the shape {tuple(value.shape)} where {tuple(shape)} was expected")
        if value.is_floating_point() != floating or value.is_complex():
            raise self.refuse(name, f"is of type {value.dtype}")

    def finite(self, value: Tensor, name: str) -> None:
        """A tensor without NaN and infinity."""
        if value.is_floating_point() and not torch.isfinite(value).all():
            raise self.refuse(name, "holds a NaN or an infinity")


def _show(value: Any) -> str:
    """A value, short enough for a message."""
    shown = f"a {type(value).__name__}" if isinstance(value, (dict, list, Tensor)) else repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def _check_training(reader: _Reader, content: Mapping[str, Any], module: Any) -> None:
    reader.part(content, "callbacks", dict)
    reader.count(content, "epoch")
    step = reader.count(content, "global_step")
    loop = content["loops"]["fit_loop"]
    steps = loop["epoch_loop.automatic_optimization.optim_progress"]["optimizer"]["step"]["total"]["completed"]
    if step != steps:
        raise reader.refuse("global_step", f"is {step} where the loops have counted {steps} steps")
    _check_position(reader, loop["state_dict"].get("combined_loader", []))
    optimizer = module.optimizer(parameter_groups(module))
    (state,) = reader.entries(content, "optimizer_states", 1, why="1 optimizer is to be restored")
    _check_optimizer(reader, state, module, optimizer, step)
    (schedule,) = reader.entries(content, "lr_schedulers", 1, why="1 schedule is to be restored")
    _check_schedule(reader, schedule, len(optimizer.param_groups))


def _check_weights(reader: _Reader, state: Mapping[str, Any], module: nn.Module) -> None:
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
            reader.tensor(state[name], tensor.shape, tensor.is_floating_point(), f"state_dict.{name}")
            if name in trained:
                reader.finite(state[name], f"state_dict.{name}")


def _check_progress(reader: _Reader, found: Mapping[str, Any], template: Mapping[str, Any], where: str) -> None:
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


def _check_position(reader: _Reader, loaders: Any) -> None:
    """Of the loaders, as far as they are ours."""
    where = "loops.fit_loop.state_dict.combined_loader"
    if not isinstance(loaders, list) or not all(isinstance(state, dict) for state in loaders):
        raise reader.refuse(where, f"is {_show(loaders)}")
    ours = [state for state in loaders if any(key in state for key in (*_LOADER, "order"))]
    if ours and len(loaders) > 1:
        raise reader.refuse(where, f"has {len(loaders)} entries where 1 loader is to be restored")
    for state in ours:
        for key in _LOADER:
            reader.count(state, key, where)
        for key in ("order", "place"):
            reader.part(state, key, dict, where)


def _check_optimizer(
    reader: _Reader, found: Mapping[str, Any], module: nn.Module, optimizer: Optimizer, step: int
) -> None:
    where = "optimizer_states.0"
    reader.kind(found, dict, where)
    mine = optimizer.param_groups
    groups, states = reader.entries(found, "param_groups", len(mine), where), reader.part(found, "state", dict, where)
    expected: dict[Any, tuple[nn.Parameter, dict[str, Any]]] = {}
    for number, (group, own) in enumerate(zip(groups, mine, strict=True)):
        key = f"{where}.param_groups.{number}"
        reader.kind(group, dict, key)
        names = reader.entries(group, "params", len(own["params"]), key)
        _check_settings(reader, group, own, key)
        kept = _kept(module, group)
        expected |= {name: (parameter, kept) for name, parameter in zip(names, own["params"], strict=True)}
        if kept and step and not states:
            raise reader.refuse(f"{where}.state", f"is empty after {step} steps")
    for name, state in states.items():
        if name not in expected:
            raise reader.refuse(f"{where}.state.{name}", "belongs to no parameter")
        _check_state(reader, state, *expected[name], f"{where}.state.{name}")


def _check_settings(reader: _Reader, group: Mapping[str, Any], own: Mapping[str, Any], where: str) -> None:
    """The numbers among a group's settings, the learning rate for one."""
    for key, value in own.items():
        if key == "params" or isinstance(value, bool) or not isinstance(value, (int, float, tuple, Tensor)):
            continue
        if key not in group:
            raise reader.other(f"{where}.{key}", "is missing")
        found = group[key] if isinstance(value, tuple) else (group[key],)
        if not isinstance(found, (tuple, list)) or len(found) != (len(value) if isinstance(value, tuple) else 1):
            raise reader.refuse(f"{where}.{key}", f"is {_show(found)}")
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


def _check_state(reader: _Reader, state: Any, parameter: nn.Parameter, kept: dict[str, Any], where: str) -> None:
    reader.kind(state, dict, where)
    if differing := sorted(map(str, state.keys() ^ kept.keys())):
        missing = differing[0] in kept
        what = "is missing" if missing else "is nothing that this optimizer remembers"
        raise reader.other(f"{where}.{differing[0]}", what)
    for key, example in kept.items():
        name = f"{where}.{key}"
        if isinstance(example, Tensor) and example.ndim:
            like_parameter = example.shape == (2, 3)
            shape = parameter.shape if like_parameter else getattr(state[key], "shape", ())
            reader.tensor(state[key], shape, example.is_floating_point(), name)
            reader.finite(state[key], name)
            if key in _SQUARES and (state[key] < 0).any():
                raise reader.refuse(name, "holds a negative square")
        elif isinstance(example, (int, float, Tensor)):
            reader.number(state[key], name)


def _check_schedule(reader: _Reader, state: Any, groups: int) -> None:
    where = "lr_schedulers.0"
    reader.kind(state, dict, where)
    for key in ("last_epoch", "_step_count"):
        reader.count(state, key, where)
    for key in ("base_lrs", "_last_lr", "lr_lambdas"):
        reader.entries(state, key, groups, where)
    for key in ("base_lrs", "_last_lr"):
        for rate in state[key]:
            reader.number(rate, f"{where}.{key}")
