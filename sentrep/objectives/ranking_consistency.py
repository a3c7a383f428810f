"""Two views of a sentence rank the other sentences alike."""

from __future__ import annotations

import torch
from torch import Tensor

from sentrep import checks, distributed
from sentrep.errors import InputError
from sentrep.functional import cosine_similarity_matrix
from sentrep.functional.listwise import jensen_shannon
from sentrep.objectives.base import Objective
from sentrep.types import TextBatch, Views


class RankingConsistency(Objective):
    """Both views of a sentence see the batch alike (RankCSE, Liu et al. 2023, "ranking consistency").

        ℓ_i = JS(softmax_j(cos(h_i, h_j⁺) / τ) ‖ softmax_j(cos(h_i⁺, h_j) / τ))

    JS is the Jensen-Shannon divergence; j runs over the sentences of all processes. RankCSE has this term beside
    InfoNCE and the ranking distillation from frozen teachers (`Distillation`). The "JS" of its community code
    (perceptiveshawty/RankCSE) is another term: log M is clamped at 1e-7 from below, so the term is minus the mean
    entropy of the two softmaxes.

    Args:
        temperature: τ > 0.
        own: whether a sentence's list holds the sentence itself.

    Raises:
        InputError: for a temperature out of range, and for a batch with nothing to rank.

    Examples:
        >>> import torch
        >>> from sentrep import Views
        >>> from sentrep.objectives import RankingConsistency
        >>> x = torch.eye(3)
        >>> RankingConsistency()(Views(x, x, None, None, None), None)
        tensor(0.)
    """

    reads_tokens = False
    compiles = True

    def __init__(self, temperature: float = 0.05, own: bool = True) -> None:
        super().__init__()
        checks.positive(self, temperature=temperature)
        self.temperature = temperature
        self.own = own

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        """Mean of ℓ_i over this process's rows, in [0, log 2]; see the class."""
        one = similarity_lists(views.anchor, distributed.gather(views.positive), self.own)
        other = similarity_lists(views.positive, distributed.gather(views.anchor), self.own)
        return jensen_shannon(one / self.temperature, other / self.temperature)


def similarity_lists(rows: Tensor, keys: Tensor, own: bool) -> Tensor:
    """Cosines (B, K) of this process's sentences with all sentences; K = N or, without the own column, N − 1.

    Args:
        rows: (B, D).
        keys: (N, D), gathered from all processes.
        own: whether a sentence's list holds the sentence itself.

    Raises:
        InputError: where a list would have one entry.
    """
    if len(keys) < (2 if own else 3):
        raise InputError(
            f"a batch of {'one sentence' if own else 'two sentences'} has no similarities to distil or to compare: "
            "raise data.batch_size"
        )
    lists = cosine_similarity_matrix(rows, keys)
    if own:
        return lists
    itself = distributed.own_rows(len(rows), keys.device)[:, None]
    others = torch.arange(len(keys) - 1, device=keys.device)
    return lists.gather(1, others + (others >= itself))
