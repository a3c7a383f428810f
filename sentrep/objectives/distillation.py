"""Learning the similarities that other encoders see."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor

from sentrep import checks, distributed
from sentrep.encoder import EncoderServices, FrozenEncoder
from sentrep.functional.listwise import list_mle, list_net
from sentrep.objectives.base import Objective
from sentrep.objectives.ranking_consistency import similarity_lists
from sentrep.types import EncoderSpec, TextBatch, Views


class Distillation(Objective):
    """The student imitates the in-batch similarities of one or two frozen teachers.

    With s_ij = cos(h_i, h_j⁺) of the student and t_ij of the teacher, j over the sentences of all processes:

        listnet:  ℓ_i = KL(softmax_j(t_ij / τ_T) ‖ softmax_j(s_ij / τ))
        listmle:  ℓ_i = −log P(order of t_i | s_i / τ)      (`sentrep.functional.list_mle`)

    ``listnet`` with one teacher is "Knowledge Distillation" of DCLR (table 2). The paper prints no formula; this is
    the relational form, in which teacher and student may differ in width. With a teacher that is certain of each
    positive, it equals InfoNCE. ``listnet`` and ``listmle`` are the ranking distillation of RankCSE (Liu et al.
    2023), with t = α t_first + (1 − α) t_second for two teachers. RankCSE prints ListNet as a cross-entropy, which
    differs from the KL divergence by the teacher's entropy, a constant.

    Args:
        model: the teacher, as a model folder, a checkpoint or a hub id; it must share the student's tokenizer and
            prompt. The checkpoint holds its name and a fingerprint, never its weights.
        temperature: τ > 0.
        teacher_temperature: τ_T > 0 of ``listnet``; None for τ, as in RankCSE's community code.
        kind: of the loss; see above.
        second_model: another teacher, or None.
        first_share: α in [0, 1], the first teacher's share of two.
        own: whether a sentence's list contains the sentence itself.

    Raises:
        InputError: for values out of range; when training starts for a teacher that cannot be loaded or has another
            tokenizer; after a resume for a teacher that has changed; for a batch of one sentence.

    Examples:
        >>> from sentrep.objectives import Contrastive, Distillation
        >>> terms = {"simcse": Contrastive(), "teacher": Distillation("all-MiniLM-L6-v2")}  # for SentRepModule
    """

    reads_tokens = False
    compiles = True

    def __init__(
        self,
        model: str,
        temperature: float = 0.05,
        teacher_temperature: float | None = None,
        kind: Literal["listnet", "listmle"] = "listnet",
        second_model: str | None = None,
        first_share: float = 0.5,
        own: bool = True,
    ) -> None:
        super().__init__()
        checks.positive(self, temperature=temperature, **checks.given(teacher_temperature=teacher_temperature))
        checks.within(self, 0, 1, first_share=first_share)
        self.model = model
        self.second_model = second_model
        self.temperature = temperature
        self.teacher_temperature = temperature if teacher_temperature is None else teacher_temperature
        self.kind = kind
        self.first_share = first_share
        self.own = own

    def build(self, spec: EncoderSpec, services: EncoderServices) -> None:
        """Ask for the teachers."""
        self.teacher = services.frozen(self.model)
        self.second_teacher = None if self.second_model is None else services.frozen(self.second_model)

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        """Mean of ℓ_i over this process's rows; see the class."""
        student = similarity_lists(views.anchor, distributed.gather(views.positive), self.own)
        teacher = self._taught(self.teacher, batch)
        if self.second_teacher is not None:
            other = self._taught(self.second_teacher, batch)
            teacher = self.first_share * teacher + (1 - self.first_share) * other
        loss = list_net if self.kind == "listnet" else list_mle
        return loss(student / self.temperature, teacher / self.teacher_temperature)

    def _taught(self, teacher: FrozenEncoder, batch: TextBatch) -> Tensor:
        return similarity_lists(*teacher.embed_pairs(batch), self.own)

    def get_extra_state(self) -> dict[str, Any]:
        """A reference to each teacher, for the checkpoint."""
        second = {} if self.second_teacher is None else {"second": self.second_teacher.state()}
        return {**self.teacher.state(), **second}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Remember which teachers the checkpoint was trained with."""
        self.teacher.load_state(state)
        if self.second_teacher is not None and "second" in state:
            self.second_teacher.load_state(state["second"])
