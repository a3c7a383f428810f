"""Momentum contrast: keys of an encoder that follows slowly, and a queue of them."""

from __future__ import annotations

import torch
from torch import Tensor

from sentrep import checks, distributed
from sentrep.encoder import EncoderServices
from sentrep.functional import info_nce
from sentrep.functional.similarity import at_least_float32
from sentrep.negatives import MemoryBank
from sentrep.objectives.base import Objective
from sentrep.types import EncoderSpec, Need, TextBatch, Views


class MomentumContrast(Objective):
    """InfoNCE against a queue of keys from a slowly moving copy of the encoder (MoCo, He et al. 2020, eq. 1).

        ℓ_i = −log  exp(s(q_i, k_i)) / ( exp(s(q_i, k_i)) + Σ_m exp(s(q_i, k_m)) ),   s = cosine / τ

    q is the anchor's vector. k_i is the momentum copy's vector of the given positive or, without one, of the sentence
    itself, in evaluation mode; m runs over the queue: the copy's vectors of earlier global batches, oldest out
    (`MemoryBank`). The copy moves by θ_copy ← m θ_copy + (1 − m) θ once per optimiser step (eq. 2). The queue starts
    empty, where the authors' code starts with random vectors; the first step has no negatives.

    With ``in_batch`` the batch's positives are keys, too, as in ESimCSE (Wu et al. 2022, momentum
    contrast): k_i is the trained encoder's `Views.positive`, the sum includes the positives of all sentences, and the
    copy only fills the queue.

    Args:
        temperature: τ > 0.
        size: keys in the queue; with accumulated gradients, only the step's last micro-batch enters it.
        momentum: m in [0, 1); 0.999 in MoCo.
        in_batch: whether the batch's positives are keys too.

    Raises:
        InputError: for values out of range.

    Examples:
        >>> from sentrep import SentenceEncoder, SentRepModule
        >>> from sentrep.objectives import MomentumContrast
        >>> small = {"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> module = SentRepModule(SentenceEncoder(small, tokenizer="toy"), [MomentumContrast(size=512)])
        >>> sorted(module.objectives.terms)
        ['momentumcontrast']
    """

    reads_tokens = False

    def __init__(
        self, temperature: float = 0.05, size: int = 4096, momentum: float = 0.999, in_batch: bool = False
    ) -> None:
        super().__init__()
        checks.positive(self, temperature=temperature)
        checks.share(self, momentum=momentum)
        self.temperature = temperature
        self.momentum = momentum
        self.in_batch = in_batch
        self.queue = MemoryBank(size)
        self._latest: Tensor | None = None

    def build(self, spec: EncoderSpec, services: EncoderServices) -> None:
        """Make the copy and room for the queue."""
        self.follower = services.copy(momentum=self.momentum)
        self.queue.build(spec, spec.name)

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        """Mean of ℓ_i over this process's rows; see the class."""
        output = self.follower(batch.anchor if batch.positive is None else batch.positive, need=Need(False))
        own = at_least_float32(self.follower.project(output.embedding)).detach()
        self._latest = distributed.gather(own)
        past = self.queue.sample(own, own)
        rows, weights = None, None
        if self.in_batch:
            own = distributed.gather(views.positive)
            rows = distributed.own_rows(len(views.anchor), own.device)
        else:  # the others' keys are no part of the sum
            weights = torch.cat([torch.eye(len(own), device=own.device), own.new_ones(len(own), len(past))], dim=1)
        return info_nce(
            views.anchor,
            own,
            temperature=self.temperature,
            positives=rows,
            negatives=past if len(past) else None,
            weights=weights,
        )

    def after_step(self, views: Views) -> None:
        """Put the last keys into the queue."""
        if self._latest is not None:
            self.queue.after_step(self._latest)
