"""Compare a checkpoint with the module and optimiser that resume from it, before torch reads it.

An optimiser's state of another shape makes torch's fused kernels write beyond their tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from sentrep.encoder.loading.soundness import check_finite, check_weights
from sentrep.errors import InputError
from sentrep.io.checkpoint_file import check_payload
from sentrep.training.parameter_groups import parameter_groups


def check(content: dict[str, Any], module: Any, path: object, training: bool) -> None:
    """Refuse a checkpoint whose numbers are not finite, or whose state is of another module or optimiser.

    Args:
        content: of the file.
        module: `SentRepModule` that it is for, with its trainer.
        path: of the file, for the messages.
        training: whether the optimiser's state and the place in training are to be restored, too.

    Raises:
        InputError: names the file, the key and the problem.
    """
    check_payload(content, path)
    own = module.state_dict()
    buffers = own.keys() - {name for name, _ in module.named_parameters()}  # which may be infinite; torch compares them
    found, places = (
        {name: weight for name, weight in state.items() if name not in buffers and isinstance(weight, Tensor)}
        for state in (content["state_dict"], own)
    )
    check_weights(found, places, str(path))
    if training:
        _check_optimizer(content, module, path)
        place = {"global_step": 0, "loops": {"fit_loop": module.trainer.fit_loop.state_dict()}}
        if wrong := next(_other_form(content, place), None):
            raise InputError(f"{path}: {wrong} is missing or not what Lightning writes; use another checkpoint")


def _check_optimizer(content: Mapping[str, Any], module: Any, path: object) -> None:
    where = f"{path}: optimizer_states"
    remedy = "resume with the optimizer that wrote it, or use another checkpoint"
    optimizer: Optimizer = module.optimizer(parameter_groups(module))
    states = content.get("optimizer_states", [])
    sizes = [[len(group["params"]) for group in state["param_groups"]] for state in states]
    mine = [len(group["params"]) for group in optimizer.param_groups]
    if sizes != [mine]:
        raise InputError(f"{where} holds groups of {sizes} parameters where [{mine}] were expected; {remedy}")
    for group, own in zip(states[0]["param_groups"], optimizer.param_groups, strict=True):
        kept = _kept(module, group)
        shaped = [key for key, example in kept.items() if getattr(example, "shape", None) == _SHAPE]
        for number, parameter in zip(group["params"], own["params"], strict=True):
            state = states[0]["state"].get(number, {})
            shapes = {getattr(state.get(key), "shape", None) for key in shaped} | {parameter.shape}
            if state and (state.keys() != kept.keys() or len(shapes) > 1):
                raise InputError(
                    f"{where}: the state of parameter {number}, of shape {tuple(parameter.shape)}, belongs to another "
                    f"optimizer or module; {remedy}"
                )
            tensors = {f"{key} of parameter {number}": x for key, x in state.items() if isinstance(x, Tensor)}
            check_finite(tensors, where)


def _other_form(found: Any, own: Any, place: str = "") -> Iterator[str]:
    """Places in nested dicts where the numbers, switches and dicts of another one are not."""
    if type(found) is not type(own) or (type(own) is int and found < 0):
        yield place
    elif isinstance(own, dict):
        for key, value in own.items():
            yield from _other_form(found.get(key), value, f"{place}.{key}".lstrip("."))


_SHAPE = (2, 3)


def _kept(module: Any, group: Mapping[str, Any]) -> dict[str, Any]:
    """The optimiser's state of a parameter under a group's settings, taken from a step of a small parameter."""
    parameter = nn.Parameter(torch.zeros(_SHAPE))
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
