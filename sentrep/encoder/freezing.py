"""Which weights of a backbone are trained."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Literal

from torch import nn

from sentrep.encoder.adapters import Lora, inject, is_adapters, without_adapter
from sentrep.errors import InputError, did_you_mean


def make_trainable(backbone: nn.Module, trainable: Literal[False] | list[str] | Lora) -> None:
    """Say which parameters of a backbone have a gradient. Frozen parts keep their mode: in training, their dropout.

    Args:
        backbone: changed in place.
        trainable: False for nothing; patterns (`fnmatch`) of names of parameters; or adapters, which are put into it,
            and the parameters that they name beside themselves.

    Raises:
        InputError: for a pattern without a matching name, or adapters that cannot be added.
    """
    if isinstance(trainable, Lora):
        inject(backbone, trainable)
    patterns = trainable.also if isinstance(trainable, Lora) else trainable or []
    names = {without_adapter(name): parameter for name, parameter in backbone.named_parameters()}
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise InputError(
                f"model.encoder.trainable: {pattern!r} fits no parameter of the backbone"
                f"{did_you_mean(pattern, names) or f', which are named as {next(iter(names))}'}"
            )
    for name, parameter in names.items():
        parameter.requires_grad_(is_adapters(name) or any(fnmatchcase(name, pattern) for pattern in patterns))
