"""What a plug-in draws leaves the encoder's dropout alone: recipes of one seed differ by the plug-in, not by luck."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from objectives.test_contract import NAMES
from plugins import objectives
from samplers import KINDS
from torch import Tensor

import sentrep.views
from sentrep import Objective, Perturbation, SentRepModule, TokenAugmentation, ViewMaker, negatives
from sentrep.encoder import Flow
from sentrep.objectives import BidirectionalMargin, Contrastive, FlowLikelihood, MaskedTriplet
from sentrep.views import (
    FGSM,
    BatchGaussianNoise,
    BernoulliDropout,
    EncodedViews,
    FeatureDropout,
    FeatureMask,
    GaussianDropout,
    GaussianNoise,
    OutputPerturbedViews,
    SpanCutoff,
    TokenCutoff,
    TokenShuffling,
    TokenSwap,
)
from support import run_processes, text_batch, tiny_encoder, toy_sentences

INPUT = [
    GaussianNoise,
    GaussianDropout,
    BernoulliDropout,
    FeatureDropout,
    TokenCutoff,
    SpanCutoff,
    TokenShuffling,
    FGSM,
]
VIEWS: dict[str, Callable[[], ViewMaker]] = {
    **{kind.__name__: lambda kind=kind: EncodedViews([kind()]) for kind in INPUT},  # type: ignore[misc]
    "TokenSwap": lambda: EncodedViews([TokenSwap(0.5)]),
    "several": lambda: EncodedViews([TokenSwap(0.5), GaussianNoise(1e-12), TokenCutoff()]),
    "of the anchor": lambda: EncodedViews(anchor_augmentations=[GaussianNoise(1e-45)]),
    **{
        f"{kind.__class__.__name__}, output": lambda kind=kind: OutputPerturbedViews(kind, "second_view")  # type: ignore[misc]
        for kind in (BatchGaussianNoise(), FeatureMask("trivial"), GaussianNoise(), BernoulliDropout(), FGSM())
    },
}
LENGTHENS = {sentrep.views.WordRepetition, sentrep.views.TokenDeletion}
"""With these the pass has other tokens, and so other masks."""


def anchors(
    made: Objective | None = None, views: ViewMaker | None = None, first: int = 0, modules: Any = ()
) -> list[Tensor]:
    """Of two training steps, with dropout; every process has sentences of its own."""
    rank = sentrep.distributed.rank()
    encoder = tiny_encoder(pooling="mean", short_last_layer=False, modules=[kind(steps=2) for kind in modules])
    module = SentRepModule(encoder, {"term": made or Contrastive()}, views=views, seed=3)
    batch = text_batch(encoder, toy_sentences(12)[6 * rank : 6 * rank + 6])
    found = []
    for index in range(first, 2):
        module.training_step(batch, index)
        assert module.terms is not None
        found.append(module.terms.views.anchor.detach())
    return found


def assert_plain(found: list[Tensor], **how: Any) -> None:
    torch.testing.assert_close(found, anchors(**how), rtol=0, atol=0)


def test_every_change_of_the_input_is_tried() -> None:
    public = {getattr(sentrep.views, name) for name in sentrep.views.__all__}
    kinds = {c for c in public if issubclass(c, Perturbation | TokenAugmentation) and not inspect.isabstract(c)}
    tried = {*INPUT, TokenSwap, BatchGaussianNoise, FeatureMask}
    assert kinds - LENGTHENS == tried


@pytest.mark.parametrize("name", VIEWS)
def test_a_change_of_the_positive_leaves_the_anchor(name: str) -> None:
    assert_plain(anchors(views=VIEWS[name]()))


@pytest.mark.parametrize("kind", KINDS)
def test_a_sampler_leaves_the_anchor(kind: str) -> None:
    name, arguments = KINDS[kind]
    assert_plain(anchors(Contrastive(negatives={"drawn": getattr(negatives, name)(**arguments)})))


@pytest.mark.parametrize("name", NAMES)
def test_an_objective_leaves_the_anchor(name: str, teacher: str) -> None:
    made = objectives(teacher)[name]()
    modules = [Flow] if isinstance(made, FlowLikelihood) else []
    if type(made).extra_inputs is not Objective.extra_inputs or isinstance(made, BidirectionalMargin):
        pytest.skip("it or the hard negatives that it needs add rows to the pass, and so masks")
    assert_plain(anchors(made, modules=modules), modules=modules)


def test_a_later_batch_draws_what_it_would_have_drawn_behind_others() -> None:
    """So that a resumed run does."""
    noisy = lambda: EncodedViews([TokenSwap(0.5)], "both", [GaussianNoise(0.5)])  # noqa: E731
    torch.testing.assert_close(anchors(views=noisy())[1:], anchors(views=noisy(), first=1), rtol=0, atol=0)
    assert not torch.equal(*anchors(views=noisy()))


def test_objectives_draw_the_same_beside_others() -> None:
    def drawn(*others: str) -> Tensor:
        encoder = tiny_encoder(dropout=0.0, pooling="mean")
        made = {name: MaskedTriplet() for name in (*others, "masked")}
        module = SentRepModule(encoder, made, seed=3)
        batch = text_batch(encoder, toy_sentences(8))
        with sentrep.distributed.step_draws(3, 0, 0):
            return module.objectives.extra_inputs(batch)["masked.more"].input_ids

    assert torch.equal(drawn(), drawn("another"))


def _of_all() -> dict[str, list[Tensor]]:
    return {"": anchors(), **{name: anchors(views=make()) for name, make in VIEWS.items() if name != "FGSM"}}


def test_two_processes_have_each_their_own_dropout_with_and_without() -> None:
    shares = run_processes(_of_all, 2)
    for share in shares:
        for name, found in share.items():
            torch.testing.assert_close(found, share[""], rtol=0, atol=0, msg=name)
    assert not torch.equal(shares[0][""][0], shares[1][""][0])
