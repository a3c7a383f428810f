"""The loss behind "FGSM at the output" in the thesis's code."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from sentrep import checks, distributed
from sentrep.functional import cosine_similarity_matrix
from sentrep.objectives.base import Objective
from sentrep.types import TextBatch, Views


class SignFlippedContrastive(Objective):
    """A cross-entropy whose positive has the wrong sign: an error, kept because a published number depends on it.

        ℓ_i = −log  exp(s_ii) / Σ_j exp(s_ij),   s_ii = −cos(h_i, h_i⁺) / τ,   s_ij = scale · cos(h_i, h_j⁺) / τ

    with every s clipped to [0, 20]. The code of table 2 of the thesis computes "FGSM" (41.22 ± 13.53) in this way; the
    attack of the text is `sentrep.views.FGSM`. A positive with a positive cosine has the logit 0 and no gradient,
    so only the negatives are trained, down to a cosine of 0.

    Args:
        temperature: τ > 0.
        scale: of the negatives, ≥ 0: 1, 0.1, or None for 1 / (N − 1), the three forms of the code.

    Raises:
        InputError: for values out of range.

    Examples:
        >>> import torch
        >>> from sentrep import Views
        >>> from sentrep.objectives import SignFlippedContrastive
        >>> x = torch.eye(3)
        >>> SignFlippedContrastive(temperature=1.0)(Views(x, x, None, None, None), None)
        tensor(1.0986)
    """

    reads_tokens = False
    compiles = True

    def __init__(self, temperature: float = 0.05, scale: float | None = 1.0) -> None:
        super().__init__()
        checks.positive(self, temperature=temperature)
        checks.not_negative(self, **checks.given(scale=scale))
        self.temperature = temperature
        self.scale = scale

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        """Mean of ℓ_i over this process's rows; see the class."""
        keys = distributed.gather(views.positive)
        own = distributed.own_rows(len(views.anchor), keys.device)
        logits = cosine_similarity_matrix(views.anchor, keys) / self.temperature
        scale = 1 / max(1, len(keys) - 1) if self.scale is None else self.scale
        factors = torch.full_like(logits, scale).scatter(1, own[:, None], -1.0)
        return F.cross_entropy((logits * factors).clamp(0, 20), own)
