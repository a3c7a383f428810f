"""bfloat16 gives nearly the vectors of float32."""

from __future__ import annotations

import torch

from sentrep.doctor.outcome import Outcome
from sentrep.doctor.subject import BATCH, Subject

BOUND = 5e-2
"""‖bf16 − fp32‖ / ‖fp32‖ of the worst sentence. One rounding is 2⁻⁸ = 4e-3, and layers add theirs up."""
_REMEDY = "train and encode in fp32: this model loses too much in bfloat16 (trainer.precision 32-true)"


def check(subject: Subject) -> Outcome:
    """Vectors of a few sentences in either precision, in evaluation mode."""
    encoder = subject.module().encoder.to(subject.device).eval()
    sentences = [row[0] for row in subject.rows()[:BATCH]]
    expected = encoder.encode(sentences, show_progress_bar=False, convert_to_tensor=True)
    with torch.autocast(encoder.device.type, torch.bfloat16):
        found = encoder.encode(sentences, show_progress_bar=False, convert_to_tensor=True)
    apart = torch.linalg.vector_norm(found - expected, dim=1)  # type: ignore[operator]
    difference = apart / torch.linalg.vector_norm(expected, dim=1).clamp_min(1e-12)
    return Outcome.of_difference("bf16 ≈ fp32", float(difference.max()), BOUND, _REMEDY)
