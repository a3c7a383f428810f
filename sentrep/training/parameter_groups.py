"""Parameter groups: with and without weight decay, and with objectives' own settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn
from torch.optim import Optimizer

from sentrep.errors import InputError, did_you_mean
from sentrep.objectives import Objective


def parameter_groups(module: nn.Module) -> list[dict[str, Any]]:
    """Trainable parameters in two groups: matrices with the optimiser's weight decay, biases and norms without.

    They are followed by two groups for each objective with its own settings (`Objective.parameter_options`),
    without parameters of the encoder, of an earlier such objective, or of an inner objective.

    Raises:
        InputError: no parameter is trainable.
    """
    taken = {*module.get_submodule("encoder").parameters()}
    own = []
    for part in module.modules():
        if isinstance(part, Objective) and part.parameter_options:
            held = {p for o in part.modules() if isinstance(o, Objective) and o is not part for p in o.parameters()}
            wanted = [p for p in part.parameters() if p not in taken | held]
            own += _groups(wanted, part.parameter_options)
            taken.update(wanted)
    elsewhere = {parameter for group in own for parameter in group["params"]}
    groups = [*_groups([p for p in module.parameters() if p not in elsewhere], {}), *own]
    if not groups:
        raise InputError(
            "no parameter is trained: model.encoder.trainable freezes the backbone, and there is no head, module or "
            "objective with parameters; set model.encoder.trainable, or add model.head"
        )
    return groups


def check_options(optimizer: Optimizer) -> None:
    """Refuse an objective's setting that the optimiser would ignore.

    Raises:
        InputError: names the setting.
    """
    for group in optimizer.param_groups:
        for name in group.keys() - optimizer.defaults.keys() - {"params", "weight_decay"}:
            hint = did_you_mean(name, optimizer.defaults) or f"; it has {', '.join(optimizer.defaults)}"
            raise InputError(f"parameter_options: the optimizer has no setting {name!r}{hint}")


def _groups(parameters: Sequence[nn.Parameter], options: Mapping[str, Any]) -> list[dict[str, Any]]:
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    matrices = [parameter for parameter in trained if parameter.ndim > 1]
    vectors = [parameter for parameter in trained if parameter.ndim <= 1]
    groups = [{**options, "params": matrices}, {**options, "params": vectors, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]
