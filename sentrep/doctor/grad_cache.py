"""``grad_cache_chunk`` changes memory and time, not the loss and not the gradient."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sentrep.doctor.gradients import gradients_of, loss_and_gradients, relative_difference
from sentrep.doctor.outcome import Outcome
from sentrep.doctor.subject import BATCH, Subject

BOUND = 1e-5
"""Of the largest gradient, in float64 (a teacher model computes in float32)."""
_CHUNK = 3
_REMEDY = "leave model.grad_cache_chunk out (null), and report the versions of torch and transformers"


def check(subject: Subject) -> Outcome:
    """The configured objectives without dropout against the plain pass, and the encoder with dropout replayed."""
    cached, plain = (_objectives(subject, chunk) for chunk in (_CHUNK, None))
    difference = relative_difference(cached, plain)
    replayed = relative_difference(_encoder(subject, cached=True), _encoder(subject, cached=False))
    return Outcome.of_difference("GradCache = plain", max(difference, replayed), BOUND, _REMEDY)


def _objectives(subject: Subject, chunk: int | None) -> dict[str, Tensor]:
    module = subject.module(grad_cache_chunk=chunk).eval().to(subject.device)
    torch.manual_seed(subject.seed)
    loss, gradients = loss_and_gradients(module, subject.batch(module))
    return {"loss": loss, **gradients}


def _encoder(subject: Subject, cached: bool) -> dict[str, Tensor]:
    """Gradients of the encoder in training, in the same groups of rows, their activations recomputed or kept."""
    module = subject.module(grad_cache_chunk=_CHUNK if cached else None).double().to(subject.device)
    encoder = module.encoder
    encoder.chunks, encoder.joins_groups = math.ceil(BATCH / _CHUNK), False  # the same draws: group by group
    torch.manual_seed(subject.seed)
    vectors = encoder(subject.batch(module).anchor).embedding
    directions = torch.linspace(-1, 1, vectors.numel(), dtype=vectors.dtype, device=vectors.device)
    (vectors * directions.view_as(vectors)).sum().backward()
    return gradients_of(encoder)
