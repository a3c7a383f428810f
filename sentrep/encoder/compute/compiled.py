"""Layers through `torch.compile`: all layers of a backbone share one program for each number of rows."""

from __future__ import annotations

from typing import Any

from torch import nn


def compile_layers(backbone: nn.Module) -> None:
    """Compile each layer in place. A copy of the backbone has plain layers.

    Args:
        backbone: a model of transformers, whose layers are its longest list of modules.
    """
    for layer in layers_of(backbone):
        layer.compile(dynamic=False)


def layers_of(backbone: nn.Module) -> list[nn.Module]:
    """The layers of a backbone: the longest list of modules of one class."""
    lists = [module for module in backbone.modules() if isinstance(module, nn.ModuleList) and len(module)]
    alike: list[Any] = [layers for layers in lists if len({type(layer) for layer in layers}) == 1]
    return [*max(alike, key=len, default=())]
