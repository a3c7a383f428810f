"""Learning the similarities that another encoder sees."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from sentrep import checks, distributed
from sentrep.encoder import FrozenEncoder
from sentrep.errors import InputError
from sentrep.functional import cosine_similarity_matrix
from sentrep.objectives.base import Objective
from sentrep.types import EncoderSpec, TextBatch, Views


class Distillation(Objective):
    """The student's in-batch similarities follow a frozen teacher's ("Knowledge Distillation" of DCLR, table 2).

        ℓ_i = KL(q_i ‖ p_i),   p_i = softmax_j(cos(h_i, h_j⁺) / τ),   q_i = softmax_j(cos(t_i, t_j⁺) / τ_T)

    j runs over the sentences of all processes, i itself included; t are the teacher's vectors of the same sentences. A
    teacher that knows each sentence's positive for certain (one-hot q) makes this InfoNCE. The paper names the method
    without a formula; this is the relational form, which lets teacher and student differ in width.

    Args:
        model: the teacher, as a model folder, a checkpoint or a hub id; it must share the student's tokenizer and
            prompt. The checkpoint holds its name and a fingerprint, never its weights.
        temperature: τ > 0.
        teacher_temperature: τ_T > 0; None for τ.

    Raises:
        InputError: for values out of range; at the first batch for a teacher that cannot be loaded or has another
            tokenizer; after a resume for a teacher that has changed; for a batch of one sentence.
    """

    reads_tokens = False
    compiles = True

    def __init__(self, model: str, temperature: float = 0.05, teacher_temperature: float | None = None) -> None:
        super().__init__()
        checks.text(self, model=model)
        checks.positive(self, temperature=temperature, **checks.given(teacher_temperature=teacher_temperature))
        self.teacher = FrozenEncoder(model)
        self.temperature = temperature
        self.teacher_temperature = temperature if teacher_temperature is None else teacher_temperature

    def build(self, spec: EncoderSpec) -> None:
        """Take note of the student's vocabulary."""
        self.teacher.build(spec)

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        """Mean of ℓ_i over this process's rows; see the class."""
        keys = distributed.gather(views.positive)
        if len(keys) == 1:
            raise InputError("a batch of one sentence has no similarities to distil: raise data.batch_size")
        student = cosine_similarity_matrix(views.anchor, keys) / self.temperature
        teacher = cosine_similarity_matrix(*self.teacher.embed_pairs(batch)) / self.teacher_temperature
        target = teacher.to(student.dtype).log_softmax(1)
        return F.kl_div(student.log_softmax(1), target, log_target=True, reduction="batchmean")

    def get_extra_state(self) -> dict[str, Any]:
        """A reference to the teacher, for the checkpoint."""
        return self.teacher.state()

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Remember which teacher the checkpoint was trained with."""
        self.teacher.load_state(state)
