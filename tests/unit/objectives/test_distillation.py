from __future__ import annotations

import pytest
import torch

from references.listwise import distillation_loop, similarities
from sentrep import InputError, SentenceEncoder, SentRepModule
from sentrep.objectives import Distillation
from support import assert_same_gradients, plugged, text_batch, tiny_encoder, toy_sentences
from unit.weighting.test_complementary import ANCHORS, POSITIVES, fit, judged, views


@pytest.mark.parametrize("width", [32, 12])
@pytest.mark.parametrize("teacher_temperature", [None, 0.1])
@pytest.mark.parametrize("paired", [True, False])
def test_distillation_equals_the_loop(
    teacher: str, paired: bool, teacher_temperature: float | None, width: int
) -> None:
    encoder = tiny_encoder()
    objective = Distillation(teacher, temperature=0.3, teacher_temperature=teacher_temperature)
    objective.build(*plugged(encoder, 0))
    x = views(width)
    loss = objective(x, text_batch(encoder, ANCHORS, POSITIVES if paired else None))
    student, taught = similarities(x.anchor, x.positive, True), similarities(*judged(teacher, paired), True)
    expected = distillation_loop("listnet", student, taught, 0.3, teacher_temperature or 0.3)
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)
    assert_same_gradients(loss, expected, [x.anchor, x.positive], rtol=1e-4, atol=1e-6)


def test_a_student_that_is_its_teacher_has_nothing_to_learn(teacher: str) -> None:
    student = SentenceEncoder(teacher, pooling="mean", dropout=0.0, max_length=64)
    module = SentRepModule(student, {"distillation": Distillation(teacher)})
    batch = text_batch(student, toy_sentences(8))
    loss, _ = module.objectives(module.views_of(batch), batch)
    assert loss.item() == pytest.approx(0.0, abs=1e-5)


def test_the_teacher_is_not_trained_and_not_in_the_checkpoint(teacher: str) -> None:
    module = SentRepModule(tiny_encoder(), {"distillation": Distillation(teacher)})
    run = fit(module)
    assert torch.isfinite(run.callback_metrics["train/distillation"])
    extra = [key for key in module.state_dict() if not key.startswith("encoder.")]
    assert extra == ["_extra_state", "objectives.terms.distillation._extra_state"]
    assert module.state_dict()[extra[1]]["model"] == teacher


def test_one_sentence_has_no_similarities(teacher: str) -> None:
    encoder = tiny_encoder()
    module = SentRepModule(encoder, {"distillation": Distillation(teacher)})
    batch = text_batch(encoder, toy_sentences(1))
    with pytest.raises(InputError, match="batch of one sentence"):
        module.objectives(module.views_of(batch), batch)
