"""The last layer, computed to its end only for the token that the pooling reads.

After the last attention no token looks at another: output projection, feed-forward block, dropout and norms of the
other tokens change nothing in a pooled vector of one token. Leaving them out saves three quarters of the last layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

_FAMILIES = frozenset({"bert", "camembert", "electra", "roberta", "xlm-roberta"})
"""Those whose layers end, after the attention, in ``attention.output(attended, residual)`` and what follows."""


def can_leave_out(backbone: PreTrainedModel) -> bool:
    """Whether `only` works for the backbone."""
    return backbone.config.model_type in _FAMILIES


@contextmanager
def only(backbone: PreTrainedModel, position: Tensor | None) -> Iterator[None]:
    """Within the context the backbone's last hidden state has the shape (B, 1, H).

    Args:
        backbone: one that `can_leave_out` says yes to.
        position: (B,) index of the wanted token in each row; None for the first.
    """

    def keep(module: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(_at(argument, position) for argument in arguments)

    encoder: Any = backbone.encoder
    hook = encoder.layer[-1].attention.output.register_forward_pre_hook(keep)
    try:
        yield
    finally:
        hook.remove()


def _at(states: Tensor, position: Tensor | None) -> Tensor:
    """(B, L, H) to (B, 1, H)."""
    if position is None:
        return states[:, :1]
    return states[torch.arange(len(states), device=states.device), position].unsqueeze(1)
