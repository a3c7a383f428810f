"""Which parameters are decayed."""

from __future__ import annotations

from typing import Any

from torch import nn


def parameter_groups(module: nn.Module) -> list[dict[str, Any]]:
    """Trainable parameters in two groups: matrices with the optimiser's weight decay, biases and norms without."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    matrices = [parameter for parameter in trained if parameter.ndim > 1]
    vectors = [parameter for parameter in trained if parameter.ndim <= 1]
    return [{"params": matrices}, *([{"params": vectors, "weight_decay": 0.0}] if vectors else [])]
