"""What validations and tests accumulate, as metrics of torchmetrics."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, cat
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from sentrep.errors import InputError
from sentrep.functional import spearman, uniformity

_SAME_MEANING = 0.8
"""Share of a set's highest gold score above which two sentences mean the same: 4 of 5 (SimCSE, footnote 3)."""

GEOMETRY = ("alignment", "alignment_all", "uniformity", "uniformity_first")
"""Metrics of a similarity set beside its score, logged as ``<set>/<name>``; lower is better."""


class _OfPairs(Metric, ABC):
    """Keeps two tensors of equal length for every batch of pairs, until all pairs are there."""

    full_state_update = False
    first: list[Tensor]
    second: list[Tensor]

    def __init__(self) -> None:
        super().__init__()
        self.add_state("first", default=[], dist_reduce_fx="cat")
        self.add_state("second", default=[], dist_reduce_fx="cat")

    def update(self, first: Tensor, second: Tensor) -> None:
        """Add pairs.

        Args:
            first: (P,) cosines, or (P, D) vectors.
            second: (P,) gold scores, or (P, D).
        """
        self.first.append(first)
        self.second.append(second)

    def compute(self) -> Tensor:
        """The value of all pairs."""
        return self.of(dim_zero_cat(self.first), dim_zero_cat(self.second))

    @abstractmethod
    def of(self, first: Tensor, second: Tensor) -> Tensor:
        """The value of all pairs, behind one another."""


class Spearman(_OfPairs):
    """Spearman's rank correlation × 100 of cosines and gold scores, ties at their mean rank: in [−100, 100].

    Unlike `torchmetrics.SpearmanCorrCoef` it raises an error where the correlation is undefined.

    Args:
        what: name of the set, for the message.

    Examples:
        >>> import torch
        >>> metric = Spearman("a set")
        >>> metric.update(torch.tensor([0.1, 0.4, 0.3]), torch.tensor([1.0, 3.0, 2.0]))
        >>> metric.compute()
        tensor(100.)
    """

    higher_is_better = True

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

    def of(self, cosine: Tensor, gold: Tensor) -> Tensor:
        """The rank correlation: (P,), (P,) → scalar.

        Raises:
            InputError: a cosine is NaN, or all are equal.
        """
        try:
            return cosine.new_tensor(spearman(cosine.cpu(), gold.cpu()))
        except ValueError as error:
            raise InputError(f"{self.what}: {error}; the encoder may have collapsed") from error


class Alignment(_OfPairs):
    """Mean ‖x − y‖² = 2 − 2 cos(x, y) of the pairs that mean the same (Wang & Isola 2020, eq. 1): in [0, 4].

    Those are the pairs whose gold score is above 0.8 × the set's highest, on STS-B above 4 of 5, as SimCSE (footnote 3)
    and DCLR (figure 4) take them.

    Args:
        all_pairs: take every pair, whatever its gold score, as the thesis's code does (table 6).

    Examples:
        >>> import torch
        >>> metric = Alignment()
        >>> metric.update(torch.tensor([-1.0, 0.3]), torch.tensor([5.0, 1.0]))
        >>> metric.compute()
        tensor(4.)
    """

    higher_is_better = False

    def __init__(self, all_pairs: bool = False) -> None:
        super().__init__()
        self.all_pairs = all_pairs

    def of(self, cosine: Tensor, gold: Tensor) -> Tensor:
        """The alignment: (P,), (P,) → scalar; NaN where no gold score is above 0, but with ``all_pairs``."""
        distance = 2 - 2 * cosine
        return distance.mean() if self.all_pairs else distance[gold > _SAME_MEANING * gold.max()].mean()


class Uniformity(_OfPairs):
    """`sentrep.functional.uniformity` of all sentences of the pairs, repetitions included.

    Args:
        first_only: use only the first sentence of each pair, as the thesis's code does (table 6).
    """

    higher_is_better = False

    def __init__(self, first_only: bool = False) -> None:
        super().__init__()
        self.first_only = first_only

    def of(self, first: Tensor, second: Tensor) -> Tensor:
        """The uniformity of the vectors: (P, D), (P, D) → scalar."""
        return uniformity(first if self.first_only else cat([first, second]))
