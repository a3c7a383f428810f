"""``rows_at_once`` changes memory and time, not the loss and not the gradient."""

from __future__ import annotations

import torch
from torch import Tensor

from sentrep.doctor.gradients import gradients_of, loss_and_gradients, relative_difference
from sentrep.doctor.outcome import Outcome
from sentrep.doctor.subject import Subject
from sentrep.module import SentRepModule
from sentrep.types import Need

BOUND = 1e-5
"""Largest difference, as a share of the largest gradient, in float64 (a teacher model computes in float32)."""
_ROWS = 3
_REMEDY = "leave model.encoder.compute.rows_at_once out (null), and report the versions of torch and transformers"


def check(subject: Subject) -> Outcome:
    """The configured objectives without dropout against the plain pass, and the encoder with dropout replayed."""
    cached, plain = (_objectives(subject, rows) for rows in (_ROWS, None))
    difference = relative_difference(cached, plain)
    replayed = relative_difference(_encoder(subject, cached=True), _encoder(subject, cached=False))
    return Outcome.of_difference("GradCache = plain", max(difference, replayed), BOUND, _REMEDY)


def _module(subject: Subject, rows: int | None) -> SentRepModule:
    return subject.module(compute={"rows_at_once": rows})


def _objectives(subject: Subject, rows: int | None) -> dict[str, Tensor]:
    module = _module(subject, rows).eval().to(subject.device)
    torch.manual_seed(subject.seed)
    loss, gradients = loss_and_gradients(module, subject.batch(module))
    return {"loss": loss, **gradients}


def _encoder(subject: Subject, cached: bool) -> dict[str, Tensor]:
    """Gradients of the encoder in training, in the same groups of rows, their activations recomputed or kept."""
    module = _module(subject, _ROWS if cached else None).double().to(subject.device)
    encoder, tokens = module.encoder, subject.batch(module).anchor
    torch.manual_seed(subject.seed)
    parts = [tokens] if cached else tokens.split(_ROWS)  # the same draws: group by group
    vectors = torch.cat([encoder(part, need=Need(tokens=False)).embedding for part in parts])
    directions = torch.linspace(-1, 1, vectors.numel(), dtype=vectors.dtype, device=vectors.device)
    (vectors * directions.view_as(vectors)).sum().backward()
    return gradients_of(encoder)
