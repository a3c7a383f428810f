"""What every term of the loss has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from torch import Tensor, nn

from sentrep.config import Configurable
from sentrep.types import EncoderSpec, TextBatch, TokenBatch, Views


class Objective(Configurable, nn.Module, ABC):
    """One term of the training loss: a function of the views, with what state it needs.

    Subclass it in your own file, write `forward`, and name the class in the configuration by ``class_path``. The
    encoder has already run when `forward` is called; the same pass serves all objectives.

    Attributes:
        metrics: scalars that the last `forward` wants logged, by name: tensors of one number, or plain numbers.
        reads_tokens: whether `forward` reads ``token_states`` or ``input_embeddings`` of the encoder's output. One that
            needs the vectors alone says False: that saves a part of the last layer, and with ``grad_cache_chunk`` the
            memory of all tokens' states.
        compiles: whether ``model.compile`` compiles `forward`. It should work on the same shapes in every step.
    """

    reads_tokens: ClassVar[bool] = True
    compiles: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.metrics: dict[str, Tensor | float] = {}

    def build(self, spec: EncoderSpec) -> None:
        """Create parameters and buffers here; called once, before the optimiser is made."""

    def extra_inputs(self, batch: TextBatch) -> dict[str, TokenBatch]:
        """More inputs for the shared pass; their outputs come back in `Views.extra` under the same keys."""
        return {}

    @abstractmethod
    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        """The term's value.

        Args:
            views: embeddings of this process's B sentences.
            batch: their tokens.

        Returns:
            Scalar float32. With several processes, a mean over this process's rows: the average over the processes is
            the global batch's loss.
        """

    def after_step(self, views: Views) -> None:
        """Called once per optimiser step, with the (detached) views of its last forward."""
