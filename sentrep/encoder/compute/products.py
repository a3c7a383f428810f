"""Linear layers in float32 on a CPU by oneDNN, where MKL, which torch takes, uses half of the processor.

Nothing is kept: a product's input is copied into oneDNN's layout and its output out of it, which long batches earn back
several times. The weights are read where they lie.
"""

from __future__ import annotations

import functools
import platform
import re
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_LEAST = 3_000_000
"""Multiplications from which the copies are earned back: 20 tokens of 384 × 384, measured."""


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
        return F.linear(input.to_mkldnn(), self.weight, self.bias).to_dense()


def _earns(input: Tensor, weight: Tensor) -> bool:
    """Of plain tensors alone: whoever traces or maps a pass must see torch's own operation."""
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

    It is asked what the processor is, not how fast: a machine gives the same numbers in every run.
    """
    if not torch.backends.mkl.is_available() or not torch.backends.mkldnn.is_available():
        return False
    file = Path("/proc/cpuinfo")
    return is_zen_5(file.read_text(encoding="utf-8") if file.exists() else platform.processor())


def is_zen_5(about: str) -> bool:
    """Whether it is AMD's Zen 5 or later, the first ones of AMD whose AVX-512 is 512 bits wide.

    Args:
        about: what the system says of the processor.
    """
    family = re.search(r"family\s*:?\s*(\d+)", about, re.IGNORECASE)
    return "AuthenticAMD" in about and family is not None and int(family[1]) >= 26
