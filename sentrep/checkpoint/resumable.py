"""A checkpoint compared with the module and the optimiser that go on from it, before torch reads it.

Whether the content is what was written is said by its seal. Whether it fits is another question: an optimiser's state
of another shape makes torch's fused kernels write beyond their tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from sentrep.encoder.loading.soundness import check_finite
from sentrep.errors import InputError
from sentrep.io.checkpoint_file import check_seal
from sentrep.training.parameter_groups import parameter_groups


def check(content: dict[str, Any], module: Any, path: object, training: bool) -> None:
    """Refuse a checkpoint that was changed, whose weights are not finite, or whose state is of another module.

    Args:
        content: of the file.
        module: `SentRepModule` that it is for.
        path: of the file, for the messages.
        training: whether the optimiser's state is to be restored, too.

    Raises:
        InputError: names the file, the key and what is wrong with it.
    """
    check_seal(content, path)
    state = content["state_dict"]
    _check_weights(state, module.state_dict(), path)
    check_finite({name: state[name] for name, _ in module.named_parameters()}, str(path))
    if training:
        _check_optimizer(content, module, path)


def _check_weights(found: Mapping[str, Any], expected: Mapping[str, Any], path: object) -> None:
    for name in [*expected, *found]:
        mine, stored = (_shape(state, name) for state in (expected, found))
        if mine != stored:
            raise InputError(
                f"{path}: state_dict.{name} is {stored} where {mine} was expected; go on with the model that it is of"
            )


def _shape(state: Mapping[str, Any], name: str) -> str:
    if name not in state:
        return "nothing"
    return f"of shape {tuple(state[name].shape)}" if isinstance(state[name], Tensor) else "no tensor"


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
        for name, parameter in zip(group["params"], own["params"], strict=True):
            state = states[0]["state"].get(name, {})
            if state and state.keys() != kept.keys():
                other = min(map(str, state.keys() ^ kept.keys()))
                raise InputError(f"{where}.{name}.{other} is not what this optimizer remembers; {remedy}")
            for key in state:
                if _is_like_parameter(kept[key]) and getattr(state[key], "shape", None) != parameter.shape:
                    raise InputError(
                        f"{where}.{name}.{key} has another shape than its parameter, {tuple(parameter.shape)}; {remedy}"
                    )


_SHAPE = (2, 3)


def _kept(module: Any, group: Mapping[str, Any]) -> dict[str, Any]:
    """What the optimiser remembers of a parameter under a group's settings, as it is after a step of a small one."""
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


def _is_like_parameter(example: Any) -> bool:
    return isinstance(example, Tensor) and example.shape == _SHAPE
