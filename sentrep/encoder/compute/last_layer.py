"""The last layer, computed to its end only for the token that the pooling reads.

After the last attention no token looks at another: output projection, feed-forward block, dropout and norms of the
other tokens change nothing in a pooled vector of one token. Leaving them out saves three quarters of the last layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

_FAMILIES = frozenset({"bert", "camembert", "electra", "roberta", "xlm-roberta"})
"""Those whose layers end, after the attention, in ``attention.output(attended, residual)`` and what follows."""


def can_end_early(backbone: PreTrainedModel) -> bool:
    """Whether `LastLayer` works for the backbone."""
    return backbone.config.model_type in _FAMILIES


class LastLayer:
    """Lets a backbone that `can_end_early` says yes to finish for some of its tokens alone."""

    def __init__(self, backbone: PreTrainedModel) -> None:
        self._wanted: Callable[[Tensor], Tensor] | None = None
        encoder: Any = backbone.encoder
        self._layer = encoder.layer[-1]
        # once and for all: a hook that comes and goes would break the graph of compiled code
        self._layer.attention.output.register_forward_pre_hook(self._keep)

    @property
    def is_recomputed(self) -> bool:
        """Whether the backward pass computes the layer again (``gradient_checkpointing_enable``), all of it then."""
        return getattr(self._layer, "gradient_checkpointing", False)

    @contextmanager
    def only(self, wanted: Callable[[Tensor], Tensor]) -> Iterator[None]:
        """Within the context the last layer goes on behind its attention with what ``wanted`` takes of the states.

        Args:
            wanted: from the states of all tokens, as the backbone has them, those that are read.
        """
        self._wanted = wanted
        try:
            yield
        finally:
            self._wanted = None

    def _keep(self, module: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        return arguments if self._wanted is None else tuple(self._wanted(argument) for argument in arguments)
