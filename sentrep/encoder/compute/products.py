"""Linear layers in float32 on a CPU by oneDNN, where MKL, which torch takes, uses half of the processor.

Nothing is packed beforehand: a product's input is copied into oneDNN's layout and its output out of it, which long
batches earn back several times. The weights are read where they lie. A backward pass remembers what torch's does.
"""

from __future__ import annotations

import functools
import platform
import re
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_LEAST = 3_000_000
"""Multiplications from which the copies are earned back: 20 tokens of 384 × 384, measured."""
_COPIED = 1 << 20
"""Numbers that are copied at once, so that copies are read from the cache."""


def use_onednn(backbone: nn.Module) -> None:
    """Give linear layers the products of this module; weights, names and hooks stay.

    Args:
        backbone: changed in place.
    """
    for module in backbone.modules():
        if type(module) is nn.Linear:
            module.__class__ = Linear  # which has no state of its own


class Linear(nn.Linear):
    """A linear layer. By oneDNN it has no second derivative."""

    def forward(self, input: Tensor) -> Tensor:
        """(..., in) → (..., out)."""
        if not _earns(input, self.weight):
            return F.linear(input, self.weight, self.bias)
        found: Tensor = _Linear.apply(input.reshape(-1, self.in_features), self.weight, self.bias)
        return found.view(*input.shape[:-1], self.out_features)


class _Linear(torch.autograd.Function):
    """(T, in) by (out, in). Autograd of the parts would keep input and output in both layouts."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _product(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        x, weight = ctx.saved_tensors
        rows, of_weight = _rows(weight), None
        if ctx.needs_input_grad[1]:
            parts = zip(grad.split(rows), x.split(rows), strict=True)
            of_weight = sum(_once(g.t(), part.t(), None) for g, part in parts)
        of_input = _product(grad, weight.t(), None) if ctx.needs_input_grad[0] else None
        return of_input, of_weight, grad.sum(0) if ctx.needs_input_grad[2] else None


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x Wᵀ + b, some rows at a time."""
    rows = _rows(weight)
    if len(x) <= rows:
        return _once(x, weight, bias)
    out = x.new_empty(len(x), len(weight))
    for part, place in zip(x.split(rows), out.split(rows), strict=True):
        place.copy_(_once(part, weight, bias))
    return out


def _once(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return F.linear(x.to_mkldnn(), weight, bias).to_dense()


def _rows(weight: Tensor) -> int:
    return max(1, _COPIED // max(weight.shape))


def _earns(input: Tensor, weight: Tensor) -> bool:
    """Whether copies are earned back. Plain tensors alone: whoever traces or maps a pass must see torch's operation."""
    return (
        not torch.compiler.is_compiling()
        and input.numel() * weight.shape[0] >= _LEAST
        and type(input) is Tensor
        and input.dtype == weight.dtype == torch.float32
        and input.device.type == "cpu"
        and not torch.is_autocast_enabled("cpu")
    )


@functools.cache
def mkl_is_slow() -> bool:
    """Whether torch multiplies by MKL on a processor whose 512-bit arithmetic MKL does not use.

    The choice follows the processor's family, not a timing, so a machine gives the same numbers in every run.
    """
    if not torch.backends.mkl.is_available() or not torch.backends.mkldnn.is_available():
        return False
    file = Path("/proc/cpuinfo")
    return is_zen_5(file.read_text(encoding="utf-8") if file.exists() else platform.processor())


def is_zen_5(about: str) -> bool:
    """Whether it is AMD's Zen 5 or later, the first ones of AMD whose AVX-512 is 512 bits wide.

    Args:
        about: the system's description of the processor.
    """
    family = re.search(r"family\s*:?\s*(\d+)", about, re.IGNORECASE)
    return "AuthenticAMD" in about and family is not None and int(family[1]) >= 26
