"""What every small change to an embedding has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Literal

from torch import Tensor, nn

from sentrep import distributed
from sentrep.config import Configurable
from sentrep.errors import InputError
from sentrep.functional import info_nce

ContrastiveLoss = Callable[[Tensor, float], Tensor]
"""The batch's contrastive loss (scalar) as a function of the embeddings that are perturbed and of the temperature τ."""

Place = Literal["input", "output"]
"""``input``: word embeddings (B, L, E), in `EncodedViews`; ``output``: vectors (B, D), in `OutputPerturbedViews`."""


class Perturbation(Configurable, nn.Module, ABC):
    """A small change to embeddings that makes a positive of a sentence.

    Random kinds draw from torch's default generator; the view maker gives each its own stream for every batch and rank
    (`sentrep.random.plugin_draws`). They do not change the encoder's dropout, and repeat after a
    resume and in a second closure call.

    Args:
        strength: size of the change; 0 changes nothing.

    Attributes:
        places: the supported places, ``input`` and ``output``.
        spares_frame: at the input, whether special tokens and the prompt's words must not change. Padding never
            changes.

    Examples:
        >>> import torch
        >>> from sentrep import Perturbation
        >>> class Shrink(Perturbation):
        ...     def forward(self, x, mask, loss_fn):
        ...         return x * (1 - self.strength)
        >>> Shrink(0.5)(torch.ones(1, 3), torch.ones(1, dtype=torch.bool), None)
        tensor([[0.5000, 0.5000, 0.5000]])
    """

    places: ClassVar[tuple[Place, ...]] = ("input", "output")
    spares_frame: ClassVar[bool] = False

    def __init__(self, strength: float = 1.0) -> None:
        super().__init__()
        self.strength = strength

    @property
    def is_identity(self) -> bool:
        """Whether it leaves every input as it is."""
        return self.strength == 0

    @abstractmethod
    def forward(self, x: Tensor, mask: Tensor, loss_fn: ContrastiveLoss) -> Tensor:
        """The perturbed embeddings.

        Args:
            x: (B, L, E) word embeddings or (B, D) vectors; not changed in place.
            mask: (B, L) or (B,) bool, the embeddings that may change.
            loss_fn: the batch's contrastive loss at other values of ``x``; see `ContrastiveLoss`.

        Returns:
            The shape and type of ``x``, equal to it where ``mask`` is False. The gradient flows back to ``x``.
        """


def contrastive_loss(anchor: Tensor, positive: Tensor, negative: Tensor | None, temperature: float) -> Tensor:
    """SimCSE's loss (eq. 1; with hard negatives eq. 5) of this process's (B, D) rows against the global batch."""
    return info_nce(
        anchor,
        distributed.gather(positive),
        temperature=temperature,
        positives=distributed.own_rows(len(anchor), anchor.device),
        negatives=None if negative is None else distributed.gather(negative),
    )


def check_place(perturbation: Perturbation, place: Place) -> None:
    """Refuse a perturbation at a place that it does not support.

    Raises:
        InputError: names the right view maker; for another object than a perturbation.
    """
    if place not in perturbation.places:
        home = "OutputPerturbedViews" if place == "input" else "EncodedViews.augmentations"
        raise InputError(f"{type(perturbation).__name__} does not apply to the encoder's {place}; use it in {home}")
