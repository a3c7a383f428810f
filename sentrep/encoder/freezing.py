"""Which weights of a backbone are trained."""

from __future__ import annotations

from fnmatch import fnmatchcase

from torch import nn

from sentrep.encoder.adapters import is_adapters, without_adapter
from sentrep.errors import InputError, did_you_mean


def freeze(backbone: nn.Module, trainable: bool | list[str], adapted: bool) -> None:
    """Say which parameters of a backbone have a gradient. Frozen parts keep their mode: in training, their dropout.

    Args:
        backbone: changed in place.
        trainable: True for all of it or, where it has adapters, these alone; False for nothing; or patterns
            (`fnmatch`) of names of parameters, which are trained beside the adapters.
        adapted: whether it has adapters.

    Raises:
        InputError: for a pattern that fits no name.
    """
    if trainable is True and not adapted:
        return  # some families have tables that are never trained
    names = {without_adapter(name): parameter for name, parameter in backbone.named_parameters()}
    patterns = [] if isinstance(trainable, bool) else trainable
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise InputError(
                f"model.encoder.trainable: {pattern!r} fits no parameter of the backbone"
                f"{did_you_mean(pattern, names) or f', which are named as {next(iter(names))}'}"
            )
    for name, parameter in names.items():
        adapts = trainable is not False and is_adapters(name)
        parameter.requires_grad_(adapts or any(fnmatchcase(name, pattern) for pattern in patterns))
