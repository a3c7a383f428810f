"""Layers through `torch.compile`: all layers of a backbone share one program for each number of rows."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import sys
import weakref
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn

from sentrep.errors import InputError

_COMPILED: weakref.WeakSet[nn.Module] = weakref.WeakSet()


def compile_layers(backbone: nn.Module) -> None:
    """Compile each layer in place; see `uncompiled`.

    Args:
        backbone: a model of transformers, whose layers are its longest list of modules.

    Raises:
        InputError: where torch finds no compiler.
    """
    check_compiler(next(backbone.parameters()).device.type)
    for layer in layers_of(backbone):
        layer.compile(dynamic=False)
    _COMPILED.add(backbone)


def uncompiled(backbone: nn.Module) -> AbstractContextManager[object]:
    """Within the context, the layers of a backbone run uncompiled."""
    return torch.compiler.set_stance("force_eager") if backbone in _COMPILED else nullcontext()


def layers_of(backbone: nn.Module) -> list[nn.Module]:
    """The layers of a backbone: the longest list of modules of one class."""
    lists = [module for module in backbone.modules() if isinstance(module, nn.ModuleList) and len(module)]
    alike: list[Any] = [layers for layers in lists if len({type(layer) for layer in layers}) == 1]
    return [*max(alike, key=len, default=())]


@functools.cache
def check_compiler(device: str) -> None:
    """Refuse to compile where torch cannot.

    Args:
        device: type of the device that the code is for.

    Raises:
        InputError: names the missing compiler or package.
    """
    compiler = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")
    if device == "cpu" and shutil.which(compiler) is None:
        raise InputError(f"compile needs a C++ compiler, and there is no {compiler}: install it, name another in the "
                         "environment variable CXX, or leave compile out")  # fmt: skip
    if device == "cuda" and importlib.util.find_spec("triton") is None:
        raise InputError("compile needs the package triton on a GPU: install it, or leave compile out")
