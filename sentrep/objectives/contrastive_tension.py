"""Contrastive tension: two encoders that agree on a sentence and disagree on two of them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor

from sentrep import checks, distributed
from sentrep.encoder import EncoderServices
from sentrep.errors import InputError
from sentrep.functional.similarity import at_least_float32
from sentrep.objectives.base import Objective
from sentrep.types import EncoderSpec, Need, TextBatch, Views


class ContrastiveTension(Objective):
    """Two encoders classify pairs as one sentence or two different sentences (CT, Carlsson et al. 2021).

        L = mean over the pairs of −y log σ(f₁(s)·f₂(t)) − (1 − y) log(1 − σ(f₁(s)·f₂(t))),   y = 1 where s = t, else 0

    f₁ is the trained encoder, f₂ a trained copy that starts with the same weights. Both read every sentence equally
    often in both places, so that either could be kept; here f₁ is the model, and f₂ is only in the checkpoint. The loss
    uses dot products, not cosines. Each sentence has one pair with itself and ``negatives`` pairs
    with other sentences of the global batch.

    **Departures from the paper**: the other sentences are the next sentences of the batch, which is in random order,
    instead of further draws from the corpus. Each encoder thus reads every sentence once. If the corpus has
    positives, f₂ reads them.

    Metrics: ``positive`` and ``negative``, the mean dot products of both kinds of pairs.

    Args:
        negatives: K, pairs with other sentences for each pair of a sentence with itself; 7 in the paper. A smaller
            batch uses all others, with a warning.

    Raises:
        InputError: for a number below 1, and for a batch of one sentence.

    Examples:
        >>> from sentrep import SentenceEncoder, SentRepModule
        >>> from sentrep.objectives import ContrastiveTension
        >>> small = {"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> module = SentRepModule(SentenceEncoder(small, tokenizer="toy"), [ContrastiveTension(negatives=3)])
        >>> sorted(module.objectives.terms)
        ['contrastivetension']
    """

    reads_tokens = False

    def __init__(self, negatives: int = 7) -> None:
        super().__init__()
        checks.at_least(self, 1, negatives=negatives)
        self.negatives = negatives

    def build(self, spec: EncoderSpec, services: EncoderServices) -> None:
        """Make f₂."""
        self.other = services.copy(trainable=True)

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        """The mean over this process's pairs; see the class."""
        output = self.other(batch.anchor if batch.positive is None else batch.positive, need=Need(False))
        keys = distributed.gather(self.other.project(output.embedding))
        if len(keys) == 1:
            raise InputError("ContrastiveTension: a batch of one sentence has no others: raise data.batch_size")
        if len(keys) <= self.negatives and self.step == 0:
            rank_zero_warn(
                f"ContrastiveTension: a batch of {len(keys)} has fewer others than {self.negatives} negatives."
            )
        rows = distributed.own_rows(len(views.anchor), keys.device)
        columns = (rows[:, None] + torch.arange(self.negatives + 1, device=rows.device)[: len(keys)]) % len(keys)
        pairs = (at_least_float32(views.anchor)[:, None] * at_least_float32(keys)[columns]).sum(-1)
        same = torch.zeros_like(pairs)
        same[:, 0] = 1.0
        self.metrics = {"positive": pairs[:, 0].detach().mean(), "negative": pairs[:, 1:].detach().mean()}
        return F.binary_cross_entropy_with_logits(pairs, same)
