"""Other denominators of the contrastive loss, against loops: a second view, no batch, NT-Xent, the flipped sign."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from samplers import services, spec
from torch import Tensor

from references.dclr import released_loss
from references.info_nce import info_nce_loop, nt_xent_loop, sign_flipped_loop
from sentrep import InputError, Objective
from sentrep.functional.binary import binary_info_nce
from sentrep.negatives import GaussianNegatives, MemoryBank, MixedNegatives, NegativeSampler
from sentrep.objectives import BinaryContrastive, Contrastive, NTXent, SignFlippedContrastive
from sentrep.types import Views
from sentrep.views import BernoulliDropout, OutputPerturbedViews
from sentrep.weighting import OnlyExtraNegatives, PairWeighting, SelfWeighting
from support import assert_same_gradients, bare_views, text_batch, tiny_encoder, toy_sentences

NOTHING: Any = None
WIDTH = 6


def vectors(rows: int = 5) -> list[Tensor]:
    return list(torch.randn(4, rows, WIDTH, dtype=torch.float64).requires_grad_().unbind())


def built(objective: Objective) -> Objective:
    objective.build(spec(width=WIDTH), services())
    return objective


def noise() -> dict[str, NegativeSampler | None]:
    return {"noise": GaussianNegatives(ratio=0.6)}


class Fixed(PairWeighting):
    """Weights of pairs, as given."""

    def __init__(self, weights: list[list[float]]) -> None:
        super().__init__()
        self.weights = torch.tensor(weights)

    def forward(self, batch: Any, views: Views, negatives: Tensor) -> Tensor:
        return self.weights


def assert_equals(loss: Tensor, expected: Tensor, *leaves: Tensor) -> None:
    assert_same_gradients(loss, expected, leaves, atol=1e-12)


@pytest.mark.parametrize("block", [0, 2])
@pytest.mark.parametrize("hard", [False, True])
def test_second_views_are_the_negatives_beside_everything_else(hard: bool, block: int) -> None:
    """Weights, smoothing, drawn and hard negatives: the kept columns of every anchor by themselves."""
    first, positive, second, negative = leaves = vectors(4)
    weights = torch.rand(4, 4 + 2) + 0.2
    weighting = Fixed(weights.tolist())
    how: Any = {"label_smoothing": 0.1, "hard_negative_weight": 0.7, "block": block}
    objective = built(Contrastive(0.3, noise(), weighting, **how))
    views = bare_views(first, positive, negative if hard else None, second=second)
    drawn = objective.negatives["noise"].sample(first, second).double()
    losses = []
    for i in range(4):
        others = [j for j in range(4) if j != i]
        columns = [positive[i], *(second[j] for j in others), *(negative if hard else []), *drawn]
        own = [1.0, *weights[i, others].tolist()]
        bonus = [float(torch.tensor(0.7).exp()) if j == i else 1.0 for j in range(4)] if hard else []
        row = torch.tensor([[*own, *bonus, *weights[i, 4:].tolist()]], dtype=torch.float64)
        losses.append(info_nce_loop(first[i : i + 1], torch.stack(columns), 0.3, [0], None, row, 1.0, 0.1))
    loss = objective(views, NOTHING)
    assert_same_gradients(loss, torch.stack(losses).mean(), leaves[:2], atol=1e-6)  # weights are float32


@pytest.mark.parametrize("second_view", [False, True])
def test_without_the_batch_only_drawn_and_hard_negatives_count(second_view: bool) -> None:
    first, positive, second, negative = leaves = vectors()
    objective = built(Contrastive(0.3, noise(), OnlyExtraNegatives(), label_smoothing=0.1))
    further = torch.cat([negative, objective.negatives["noise"].sample(first, positive).double()])
    losses = [
        info_nce_loop(first[i : i + 1], positive[i : i + 1], 0.3, [0], further, None, 1.0, 0.1)
        for i in range(len(first))
    ]
    made = bare_views(first, positive, negative, second=second if second_view else None)
    assert_equals(objective(made, NOTHING), torch.stack(losses).mean(), *leaves)


@pytest.mark.parametrize("block", [0, 3])
@pytest.mark.parametrize(("drawn", "hard"), [(False, False), (True, False), (False, True)])
def test_nt_xent_equals_the_loop(drawn: bool, hard: bool, block: int) -> None:
    first, second, negative, _ = leaves = vectors()
    objective = built(NTXent(0.3, noise() if drawn else None, block=block))
    further = list(objective.contrast.negatives["noise"].sample(first, second).double()) if drawn else []
    loss = objective(bare_views(first, second, negative if hard else None), NOTHING)
    assert_equals(loss, nt_xent_loop(first, second, 0.3, further + ([*negative] if hard else [])), *leaves)


class OfEachAnchor(NegativeSampler):
    """Negatives of each anchor alone that the encoder is trained through."""

    with_gradient = True

    def sample(self, anchors: Tensor, keys: Tensor) -> Tensor:
        return torch.stack([anchors.sin(), keys.cos()], dim=1)


@pytest.mark.parametrize("block", [0, 2])
def test_negatives_of_each_anchor_beside_shared_ones(block: int) -> None:
    """With weights λ, weights of pairs, hard negatives and smoothing."""
    first, second, negative, _ = leaves = vectors(4)
    pairs = torch.rand(4, 4 + 2) + 0.2
    samplers = {**noise(), "own": OfEachAnchor(0.6)}
    objective = built(Contrastive(0.3, samplers, Fixed(pairs.tolist()), label_smoothing=0.1, block=block))
    loss = objective(bare_views(first, second, negative), NOTHING)
    drawn = objective.negatives["noise"].sample(first, second).double()
    own = torch.stack([first.sin(), second.detach().cos()], dim=1)
    ones = torch.ones(4, 4)
    weights = torch.cat([pairs[:, :4], ones, pairs[:, 4:], 0.6 * ones[:, :2]], dim=1)
    keys = torch.cat([second, negative])
    expected = info_nce_loop(first, keys, 0.3, [0, 1, 2, 3], drawn, weights, 1.0, 0.1, own)
    assert_same_gradients(loss, expected, leaves[:3], atol=1e-6)  # weights are float32


def test_nt_xent_pushes_both_views_of_a_sentence_from_its_own_negatives() -> None:
    first, second, _, _ = leaves = vectors(4)
    loss = built(NTXent(0.3, {"own": OfEachAnchor()}))(bare_views(first, second), NOTHING)
    both, losses = torch.cat([first, second]), []
    for i in range(8):
        partner, own = (i + 4) % 8, [first[i % 4].sin(), second[i % 4].detach().cos()]
        others = [both[partner], *(both[j] for j in range(8) if j not in (i, partner)), *own]
        losses.append(info_nce_loop(both[i : i + 1], torch.stack(others), 0.3, [0], None, None, 1.0, 0.0))
    assert_equals(loss, torch.stack(losses).mean(), *leaves)


@pytest.mark.parametrize(("scale", "rows"), [(1.0, 5), (0.1, 5), (None, 5), (None, 2)])
@pytest.mark.parametrize("temperature", [0.03, 0.5])
def test_the_flipped_sign_equals_the_loop(scale: float | None, temperature: float, rows: int) -> None:
    torch.manual_seed(16)  # with which some of all kinds of products are not clipped
    first, second, _, _ = leaves = vectors(rows)
    second = torch.cat([first[:3] + 0.1 * second[:3], second[3:]])  # near; some others have the opposite sign
    loss = SignFlippedContrastive(temperature, scale)(bare_views(first, second), NOTHING)
    expected = sign_flipped_loop(first, second, temperature, 1 / (rows - 1) if scale is None else scale)
    assert_equals(loss, expected, *leaves[:2])


@pytest.mark.parametrize(
    ("objective", "second", "message"),
    [
        (NTXent(), True, "NTXent does not go with a second view"),
        (BinaryContrastive(), True, "BinaryContrastive: a second view"),
        (BinaryContrastive(negatives={"mixed": MixedNegatives()}), False, "negatives of one anchor alone"),
        (Contrastive(weighting=OnlyExtraNegatives()), False, "leaves nothing to contrast with: add negatives"),
    ],
)
def test_views_that_do_not_fit_are_refused(objective: Objective, second: bool, message: str) -> None:
    first, positive, further, _ = vectors(4)
    with pytest.raises(InputError, match=message):
        built(objective)(bare_views(first, positive, second=further if second else None), NOTHING)


def test_a_bank_without_the_batch_has_no_loss_in_its_first_step() -> None:
    first, positive, *_ = vectors()
    views = bare_views(first, positive)
    bank = built(Contrastive(negatives={"bank": MemoryBank(8)}, weighting=OnlyExtraNegatives()))
    assert bank(views, NOTHING) == 0
    bank.after_step(views)
    assert bank(views, NOTHING) > 0


def test_self_weighting_judges_what_stands_in_the_denominator() -> None:
    first, positive, second, _ = vectors()
    views = bare_views(first, positive, second=second)
    expected = torch.nn.functional.cosine_similarity(first[:, None], second, dim=-1) < 0.1
    assert torch.equal(SelfWeighting(0.1)(NOTHING, views, first[:0]).bool(), expected)


def test_the_second_view_is_of_another_mask_and_gets_a_gradient() -> None:
    encoder = tiny_encoder(dropout=0.2)
    views = OutputPerturbedViews(BernoulliDropout(0.1), "second_view")(
        encoder, text_batch(encoder, toy_sentences(8)), {}
    )
    assert views.second is not None
    assert (views.second != views.anchor).any(1).all()
    words = encoder.backbone.get_input_embeddings().weight
    for x in (views.positive, views.second):
        (gradient,) = torch.autograd.grad(x.sum(), words, retain_graph=True)
        assert gradient.any()


@pytest.mark.parametrize("temperature", [0.3, 0.05])
@pytest.mark.parametrize("drawn", [0, 3])
def test_a_yes_or_no_for_every_pair_is_dclr_as_released(drawn: int, temperature: float) -> None:
    first, other, *_ = leaves = vectors(4)
    positive = first + 0.3 * other  # nearest to its anchor: 1 − p of a negative with p near 1 would have few digits
    weights = (torch.rand(4, 4 + drawn, generator=torch.Generator().manual_seed(1)) > 0.4).double().tolist()
    negatives = {"noise": GaussianNegatives(ratio=drawn / 4)} if drawn else {}
    objective = built(BinaryContrastive(temperature, negatives, Fixed(weights)))
    noise_vectors = first[:0] if not drawn else objective.contrast.negatives["noise"].sample(first, positive).double()
    loss = objective(bare_views(first, positive), NOTHING)
    assert_equals(loss, released_loss(first, positive, noise_vectors, weights, temperature), *leaves[:2])


def test_a_probability_that_rounds_to_one_leaves_a_finite_gradient() -> None:
    first = torch.eye(4).requires_grad_()
    loss = binary_info_nce(first, first.roll(1, 0), temperature=1e-3)
    loss.backward()
    assert loss.isfinite()
    assert first.grad.isfinite().all()
