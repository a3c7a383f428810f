"""Modules after the pooling that belong to the model: they act in training, in `encode` and in every export."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from sentrep.config import Configurable, check_initialised, to_config
from sentrep.errors import InputError
from sentrep.functional.similarity import unit


class SentenceModule(Configurable, nn.Module, ABC):
    """One step from the pooled vector to the sentence's vector; `SentenceEncoder` takes a list of them.

    Subclass it in your own file and name the class under ``model.encoder.modules``. Its arguments are plain data, its
    weights are saved with the model. Folders and checkpoints name your class, so loading them elsewhere needs the file
    and trust (``trust_remote_code``).

    Attributes:
        reads_tokens: whether `forward` reads ``token_states``, which costs the whole last layer.
        out_features: D', the width of `forward`'s output; set by `build`.

    Examples:
        >>> import torch
        >>> from sentrep.encoder import SentenceModule
        >>> class Centred(SentenceModule):
        ...     def forward(self, embedding, token_states, mask):
        ...         return embedding - embedding.mean(1, keepdim=True)
        >>> Centred()(torch.tensor([[1.0, 3.0]]), None, None)
        tensor([[-1.,  1.]])
    """

    reads_tokens: ClassVar[bool] = False
    out_features: int

    def __init__(self) -> None:
        super().__init__()

    def build(self, width: int, std: float) -> None:
        """Create parameters and buffers; called once. Sets ``out_features``, here to ``width``.

        Args:
            width: D of the input vectors.
            std: of the normal distribution of the backbone's initial weights.
        """
        self.out_features = width

    @abstractmethod
    def forward(self, embedding: Tensor, token_states: Tensor, mask: Tensor) -> Tensor:
        """(B, D) → (B, D').

        Args:
            embedding: (B, D) of the pooling, or of the previous module.
            token_states: (B, L, H) last hidden states, rows of padding undefined; only with ``reads_tokens``.
            mask: (B, L) int64, 1 on real tokens.
        """


class Dense(SentenceModule):
    """x W + b, then tanh or nothing: the MLP that supervised SimCSE keeps, a whitening (`fit_whitening`), a projection.

    Args:
        activation: ``identity`` or ``tanh``.
        out_features: D'; None for D.

    Examples:
        >>> import torch
        >>> from sentrep.encoder import Dense
        >>> dense = Dense(activation="tanh", out_features=2)
        >>> dense.build(width=4, std=0.02)
        >>> dense(torch.ones(3, 4), None, None).shape
        torch.Size([3, 2])
    """

    def __init__(self, activation: Literal["identity", "tanh"] = "identity", out_features: int | None = None) -> None:
        super().__init__()
        self.activation = activation

    def build(self, width: int, std: float) -> None:
        """See `SentenceModule.build` and `linear_layer`."""
        self.out_features = self.init_args["out_features"] or width
        self.dense = linear_layer(width, self.out_features, std)

    def forward(self, embedding: Tensor, token_states: Tensor, mask: Tensor) -> Tensor:
        """See `SentenceModule.forward`."""
        x = self.dense(embedding)
        return x.tanh() if self.activation == "tanh" else x


class Normalize(SentenceModule):
    """x / ‖x‖, in float32.

    Examples:
        >>> import torch
        >>> from sentrep.encoder import Normalize
        >>> Normalize()(torch.tensor([[3.0, 4.0]]), None, None)
        tensor([[0.6000, 0.8000]])
    """

    def forward(self, embedding: Tensor, token_states: Tensor, mask: Tensor) -> Tensor:
        """See `SentenceModule.forward`."""
        return unit(embedding)


def linear_layer(width: int, out: int, std: float) -> nn.Linear:
    """A new layer; weights from N(0, std²), bias 0, as the backbones do."""
    layer = nn.Linear(width, out)
    nn.init.normal_(layer.weight, std=std)
    nn.init.zeros_(layer.bias)
    return layer


def chain(modules: Iterable[SentenceModule], width: int, std: float) -> list[SentenceModule]:
    """Build modules one after the other, for vectors of ``width``."""
    built = list(modules)
    for module in built:
        check_initialised(module, "encoder.modules")
        module.build(width, std)
        width = module.out_features
    return built


def described(modules: Iterable[Any]) -> list[dict[str, Any]]:
    """Class and arguments of modules, as plain data.

    Raises:
        InputError: for an argument that is not plain data.
    """
    try:
        return to_config(list(modules))
    except TypeError as error:
        raise InputError(f"encoder.modules: {error}; a module takes plain data") from error
