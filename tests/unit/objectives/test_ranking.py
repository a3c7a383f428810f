"""RankCSE's and ArcCSE's terms against loops."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from references.listwise import arc_con_loop, consistency_loop, distillation_loop, similarities, triplet_loop
from sentrep import SentenceEncoder
from sentrep.functional import info_nce
from sentrep.objectives import ArcCon, Distillation, MaskedTriplet, RankingConsistency
from support import bare_views, plugged, text_batch, tiny_encoder, toy_sentences
from unit.objectives.test_readings import NOTHING, assert_equals, built, noise, vectors


@pytest.mark.parametrize("kind", ["listnet", "listmle"])
@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("second", [None, "second"])
def test_distillation_equals_the_loop(kind: Any, own: bool, second: str | None) -> None:
    anchors, positives, *taught = vectors()
    objective = Distillation("first", 0.3, 0.2, kind, second, first_share=0.3, own=own)
    teacher, other = (similarities(taught[0], taught[1], own), similarities(taught[1], taught[0], own))
    plugged(objective, tiny_encoder())
    objective.teacher.embed_pairs = lambda batch: (taught[0].detach(), taught[1].detach())  # type: ignore[method-assign]
    if objective.second_teacher is not None:
        swapped = (taught[1].detach(), taught[0].detach())
        objective.second_teacher.embed_pairs = lambda batch: swapped  # type: ignore[method-assign]
        teacher = [[0.3 * a + 0.7 * b for a, b in zip(*rows, strict=True)] for rows in zip(teacher, other, strict=True)]
    teacher = [[value.detach() for value in row] for row in teacher]
    loss = objective(bare_views(anchors, positives), NOTHING)
    expected = distillation_loop(kind, similarities(anchors, positives, own), teacher, 0.3, 0.2)
    assert_equals(loss, expected, anchors, positives)


def test_two_teachers_are_remembered() -> None:
    def made(model: str, second: str | None = None) -> Distillation:
        return plugged(Distillation(model, second_model=second), tiny_encoder())

    state = made("one", "two").get_extra_state()
    assert (state["model"], state["second"]["model"]) == ("one", "two")
    state["second"]["fingerprint"] = "abc"
    again = made("one", "two")
    again.set_extra_state(state)
    assert again.get_extra_state() == state
    alone = made("one").get_extra_state()
    again.set_extra_state(alone)  # of a run with one teacher
    assert again.get_extra_state()["second"] == state["second"]
    one = made("one")
    one.set_extra_state(state)
    assert one.get_extra_state() == alone


@pytest.mark.parametrize(("own", "rows"), [(True, 5), (False, 5), (True, 2)])
def test_consistency_equals_the_loop(own: bool, rows: int) -> None:
    anchors, positives, *_ = vectors(rows)
    loss = RankingConsistency(0.3, own)(bare_views(anchors, positives), NOTHING)
    assert_equals(loss, consistency_loop(anchors, positives, 0.3, own), anchors, positives)


@pytest.mark.parametrize("block", [0, 2])
def test_the_angular_margin_equals_the_loop(block: int) -> None:
    anchors, positives, *_ = vectors()
    loss = ArcCon(0.3, block=block)(bare_views(anchors, positives), NOTHING)
    assert_equals(loss, arc_con_loop(anchors, positives, 0.3, 10), anchors, positives)


def test_the_margin_is_on_positives_alone_and_bears_identical_views() -> None:
    anchors, *_ = vectors()
    loss = built(ArcCon(negatives=noise()))(bare_views(anchors, anchors), NOTHING)
    (gradient,) = torch.autograd.grad(loss, anchors)
    assert loss.isfinite()
    assert gradient.isfinite().all()
    with pytest.raises(ValueError, match="margin"):
        info_nce(anchors, anchors, temperature=1.0, margin=-1)


def test_triplets_equal_the_loop() -> None:
    whole, less, more, _ = vectors()
    views = bare_views(whole, NOTHING, projected={"less": less, "more": more})
    objective = MaskedTriplet()
    assert_equals(objective(views, NOTHING), triplet_loop(whole, less, more, 0.1), whole, less, more)
    nearer = torch.cosine_similarity(whole, less) > torch.cosine_similarity(whole, more)
    assert objective.metrics["ordered"] == nearer.float().mean()


def test_the_smaller_span_lies_in_the_larger(encoder: SentenceEncoder) -> None:
    objective = plugged(MaskedTriplet(), encoder)
    batch = text_batch(encoder, toy_sentences(100))
    extra = objective.extra_inputs(batch)
    own = batch.anchor.own(encoder.spec(seed=0).frame)
    less, more = (extra[key].input_ids != batch.anchor.input_ids for key in ("less", "more"))
    assert (less <= more).all()
    assert (more <= own).all()
    for masked, share in ((less, 0.2), (more, 0.4)):
        assert torch.equal(masked.sum(1), (share * own.sum(1)).round().clamp_min(1).long())
        starts: Tensor = masked & ~torch.nn.functional.pad(masked, (1, 0))[:, :-1]
        assert (starts.sum(1) == 1).all(), "one span"
    first, inner = more.float().argmax(1), less.float().argmax(1)
    assert len(set(first.tolist())) > 1
    begins_later, ends_earlier = inner > first, (inner + less.sum(1)) < (first + more.sum(1))
    assert begins_later.any()
    assert ends_earlier.any()
    last = own.shape[1] - own.flip(1).int().argmax(1)
    assert (first + more.sum(1) == last).any(), "the larger span reaches the end of some sentence"
