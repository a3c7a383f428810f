from __future__ import annotations

from typing import Any

import pytest
import torch

from references.listwise import distillation_loop, similarities
from sentrep import InputError, SentRepModule
from sentrep.objectives import Distillation
from support import assert_same_gradients, plugged, text_batch, tiny_encoder, toy_sentences
from unit.weighting.test_complementary import ANCHORS, POSITIVES, fit, judged, views


@pytest.mark.parametrize(("paired", "teacher_temperature", "width"), [(True, None, 32), (False, 0.1, 12)])
def test_distillation_equals_the_loop(teacher: str, paired: bool, teacher_temperature: Any, width: int) -> None:
    encoder = tiny_encoder()
    objective = Distillation(teacher, temperature=0.3, teacher_temperature=teacher_temperature)
    objective.build(*plugged(encoder, 0))
    x = views(width)
    loss = objective(x, text_batch(encoder, ANCHORS, POSITIVES if paired else None))
    student, taught = similarities(x.anchor, x.positive, True), similarities(*judged(teacher, paired), True)
    expected = distillation_loop("listnet", student, taught, 0.3, teacher_temperature or 0.3)
    assert_same_gradients(loss, expected, [x.anchor, x.positive], rtol=1e-4, atol=1e-6)


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
