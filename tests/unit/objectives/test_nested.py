"""Objectives that hold objectives: Matryoshka and trained weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from samplers import services, spec

from references.info_nce import info_nce_loop
from references.two_encoders import contrastive_tension, momentum_contrast
from sentrep import InputError, ProjectionHead, SentRepModule
from sentrep.negatives import MemoryBank
from sentrep.objectives import (
    Alignment,
    Contrastive,
    ContrastiveTension,
    Denoising,
    MaskedTriplet,
    Matryoshka,
    MomentumContrast,
    Objective,
    RankingConsistency,
    UncertaintyWeighted,
    WeightedSum,
)
from sentrep.types import Views
from support import assert_same_gradients, bare_views, text_batch, tiny_encoder, toy_sentences
from unit.objectives.test_readings import NOTHING, WIDTH, assert_equals, built, vectors


def test_matryoshka_equals_the_loop() -> None:
    anchors, positives, *_ = vectors()
    objective = built(Matryoshka(Contrastive(0.3), dims=[WIDTH, 2], weights=[1.0, 0.5]))
    loss = objective(bare_views(anchors, positives), NOTHING)
    whole, first = (
        info_nce_loop(anchors[:, :d], positives[:, :d], 0.3, list(range(5)), None, None, 1.0, 0.0) for d in (WIDTH, 2)
    )
    assert_equals(loss, whole + 0.5 * first, anchors, positives)
    assert set(objective.metrics) == {"d6", "d2"}
    torch.testing.assert_close(objective.metrics["d2"], first.detach())


def test_hard_negatives_and_second_views_are_cut_too() -> None:
    anchors, positives, further, _ = vectors()

    def cut(views: Views, dim: int) -> Views:
        parts = {name: getattr(views, name) for name in ("anchor", "positive", "negative", "second")}
        return replace(views, **{name: None if x is None else x[:, :dim] for name, x in parts.items()})

    for views in (bare_views(anchors, positives, further), bare_views(anchors, positives, second=further)):
        expected = Contrastive(0.3)(cut(views, 2), NOTHING)
        assert_equals(Matryoshka(Contrastive(0.3), dims=[2])(views, NOTHING), expected, anchors, positives, further)


def test_each_width_has_its_own_samplers() -> None:
    objective = built(Matryoshka(Contrastive(negatives={"bank": MemoryBank(5)}), dims=[2, WIDTH]))
    anchors, positives, *_ = vectors()
    views = bare_views(anchors, positives)
    objective(views, NOTHING)
    objective.after_step(views)
    banks = {name: x for name, x in objective.state_dict().items() if name.endswith("bank.rows")}
    assert [tuple(x.shape) for x in banks.values()] == [(5, 2), (5, WIDTH)]
    assert all(torch.equal(x, anchors[:, : x.shape[1]].float()) for x in banks.values())
    assert objective(views, NOTHING).isfinite()


@pytest.mark.parametrize("kind", [ContrastiveTension, MomentumContrast])
def test_vectors_of_a_second_encoder_are_cut_too(kind: type[Objective]) -> None:
    held = ContrastiveTension(negatives=3) if kind is ContrastiveTension else MomentumContrast(0.3, size=6)
    module = SentRepModule(tiny_encoder(dropout=0.0), {"term": Matryoshka(held, [32, 8])}, head=ProjectionHead("mlp"))
    batches = [text_batch(module.encoder, toy_sentences(8)[start : start + 4]) for start in (0, 4)]
    module.end_step(module.compute_terms(batches[0], 0).views)
    terms = module.compute_terms(batches[1], 1)
    expected = torch.zeros(())
    for width in module.objectives.terms["term"].widths.terms.values():  # type: ignore[union-attr]
        objective, dim = width.objective, width.dim
        second = objective.other if kind is ContrastiveTension else objective.follower
        fresh, past = (second.encoder.project(second(batch.anchor).embedding)[:, :dim] for batch in batches[::-1])
        query = terms.views.anchor[:, :dim]
        if kind is ContrastiveTension:
            expected = expected + contrastive_tension(query, fresh, 3)
        else:  # the untrained encoder, so the copy has the same keys as in the first step
            expected = expected + momentum_contrast(query, fresh, past, 0.3, in_batch=False)
    words = module.encoder.backbone.get_input_embeddings().weight
    assert_same_gradients(terms.loss, expected, [words], rtol=1e-4, atol=1e-6)


def test_flags_are_those_of_what_is_held() -> None:
    for objective in (Contrastive(), Denoising()):
        assert Matryoshka(objective, [2]).reads_tokens == objective.reads_tokens
        assert UncertaintyWeighted({"term": objective}).reads_tokens == objective.reads_tokens
        assert Matryoshka(objective, [2]).compiles == objective.compiles


def test_a_width_above_the_vectors_is_refused() -> None:
    with pytest.raises(InputError, match="dims has 7, above the width 6"):
        built(Matryoshka(Contrastive(), [2, 7]))


def test_trained_weights_equal_the_formula() -> None:
    anchors, positives, *_ = vectors()
    views = bare_views(anchors, positives)
    parts = [Alignment(), RankingConsistency()]
    objective = UncertaintyWeighted(dict(zip("ab", parts, strict=True)))
    objective.build(spec(width=WIDTH), services())
    s = torch.tensor([0.5, -0.25], requires_grad=True)
    objective.log_variances.data.copy_(s.detach())
    expected = sum(torch.exp(-x) * part(views, NOTHING) + x for x, part in zip(s, parts, strict=True))
    loss = objective(views, NOTHING)
    assert_equals(loss, expected, anchors, positives)  # type: ignore[arg-type]
    found, wanted = torch.autograd.grad(loss, objective.log_variances), torch.autograd.grad(expected, s)  # type: ignore[arg-type]
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(objective.metrics["b/weight"], torch.tensor(0.25).exp())
    assert set(objective.metrics) == {"a", "b", "a/weight", "b/weight"}


def test_a_nested_objective_sees_its_own_extra_inputs_cut() -> None:
    encoder = tiny_encoder(dropout=0.0)
    made = {"order": Matryoshka(UncertaintyWeighted({"triplet": MaskedTriplet()}), [8, 32]), "plain": MaskedTriplet()}
    module = SentRepModule(encoder, made)
    batch = text_batch(encoder, toy_sentences(6))
    torch.manual_seed(1)
    extra = module.objectives.extra_inputs(batch)
    assert len(extra) == 6
    for key in ("less", "more"):  # the same sentences, so that the values can be compared
        extra = {k: extra[f"plain.{key}"] if k.endswith(key) else tokens for k, tokens in extra.items()}
    module.objectives(module.views(encoder, batch, extra), batch)
    metrics = module.objectives.metrics()
    torch.testing.assert_close(metrics["order/d32/triplet/ordered"], metrics["plain/ordered"])
    assert "order/d8/triplet/weight" in metrics


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WeightedSum({"a": None}), "no objective"),
        (lambda: WeightedSum([Alignment(), Alignment()]), "give them names"),
        (lambda: WeightedSum({"a": Alignment()}, {"b": 1.0}), "unknown objectives"),
        (lambda: WeightedSum({"a": Alignment()}, {"a": 0.0}), "all are 0"),
        (lambda: WeightedSum({"a": Alignment()}, {"a": float("nan")}), "model.weights"),
    ],
)
def test_what_makes_no_sum_is_refused(make: Callable[[], Objective], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()
