"""Low-rank adapters beside weights that stay (LoRA), by peft."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from sentrep import checks
from sentrep.errors import InputError, did_you_mean
from sentrep.extras import require

_BASE, _NAME = ".base_layer", "default"
_DOWN, _UP = f".lora_A.{_NAME}.weight", f".lora_B.{_NAME}.weight"


@dataclass(frozen=True)
class Lora:
    """Low-rank adapters: W x becomes W x + α/r · B A dropout(x), where only A (r, in) and B (out, r) are trained.

    Hu et al. 2022, LoRA: Low-Rank Adaptation of Large Language Models, §4.1. B starts at 0, so training starts from
    the backbone's own vectors.

    Args:
        rank: r.
        alpha: α.
        dropout: rate in [0, 1) on the adapters' inputs in training.
        targets: names of linear layers, or their ends, as ``query`` for all of that name; None for all linear layers of
            the backbone.
        also: patterns (`fnmatch`) of further parameter names of the backbone to train beside the adapters.

    Raises:
        InputError: for values out of range.

    Examples:
        >>> from sentrep.encoder import Lora
        >>> Lora(rank=16).rank
        16
    """

    rank: int = 8
    alpha: float = 16.0
    dropout: float = 0.0
    targets: list[str] | None = None
    also: list[str] = field(default_factory=list, compare=False)

    def __post_init__(self) -> None:
        checks.positive(self, alpha=self.alpha)
        checks.share(self, dropout=self.dropout)


def inject(backbone: nn.Module, adapter: Lora) -> None:
    """Put adapters into a backbone, whose class and other modules stay, and freeze everything else of it.

    Raises:
        InputError: peft is not installed, or a target names no linear layer.
    """
    require("model.encoder.trainable: Lora", "lora", "peft")
    import peft  # takes two seconds

    linear = [name for name, module in backbone.named_modules() if isinstance(module, nn.Linear)]
    for target in adapter.targets or ():  # peft ignores a target that no layer has, if another target has a layer
        if not any(f".{name}".endswith(f".{target}") for name in linear):
            ends = sorted({name.rpartition(".")[2] for name in linear})
            hint = did_you_mean(target, ends) or f"; their names end in {', '.join(ends)}"
            raise InputError(f"model.encoder.trainable: targets: {target!r} is no linear layer of the backbone{hint}")
    alpha: Any = adapter.alpha  # peft's type says int, and any number does
    config = peft.LoraConfig(
        r=adapter.rank,
        lora_alpha=alpha,
        lora_dropout=adapter.dropout,
        target_modules="all-linear" if adapter.targets is None else adapter.targets,
    )
    peft.inject_adapter_in_model(config, backbone, _NAME)


def without_adapter(name: str) -> str:
    """The name that a weight has in a backbone without adapters."""
    return name.replace(_BASE, "")


def merged(state: Mapping[str, Tensor], adapter: Lora) -> dict[str, Tensor]:
    """Merge adapters into the weights of their backbone, W + α/r · B A, under the backbone's plain names.

    Args:
        state: weights, under any prefix.
        adapter: the settings of the adapters.
    """
    found = {without_adapter(name): tensor for name, tensor in state.items() if not is_adapters(name)}
    for name, down in state.items():
        if name.endswith(_DOWN):
            layer = name.removesuffix(_DOWN)
            product = state[layer + _UP].float() @ down.float() * (adapter.alpha / adapter.rank)
            weight = found[f"{layer}.weight"]
            found[f"{layer}.weight"] = (weight.float() + product).to(weight.dtype)
    return found


def is_adapters(name: str) -> bool:
    """Whether a weight of this name belongs to an adapter."""
    return name.endswith((_DOWN, _UP))
