from __future__ import annotations

from typing import Any

import pytest

from references.listwise import distillation_loop, similarities
from sentrep import SentenceEncoder
from sentrep.objectives import Distillation
from support import assert_same_gradients, plugged, text_batch
from unit.weighting.test_complementary import ANCHORS, POSITIVES, judged, views


@pytest.mark.parametrize(("paired", "teacher_temperature", "width"), [(True, None, 32), (False, 0.1, 12)])
def test_distillation_equals_the_loop(
    teacher: str, paired: bool, teacher_temperature: Any, width: int, encoder: SentenceEncoder
) -> None:
    objective = plugged(Distillation(teacher, 0.3, teacher_temperature), encoder)
    x = views(width)
    loss = objective(x, text_batch(encoder, ANCHORS, POSITIVES if paired else None))
    student, taught = similarities(x.anchor, x.positive, True), similarities(*judged(teacher, paired), True)
    expected = distillation_loop("listnet", student, taught, 0.3, teacher_temperature or 0.3)
    assert_same_gradients(loss, expected, [x.anchor, x.positive], rtol=1e-4, atol=1e-6)
