"""Every perturbation by itself: one contract for all, definitions in loops, moments of the random ones."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from references.perturbations import erased_tokens, masked_features_loop
from sentrep import Perturbation
from sentrep.functional import info_nce
from sentrep.views import (
    FGSM,
    BatchGaussianNoise,
    BernoulliDropout,
    FeatureDropout,
    FeatureMask,
    GaussianDropout,
    GaussianNoise,
    SpanCutoff,
    TokenCutoff,
    TokenShuffling,
)
from sentrep.views.perturbation import contrastive_loss

ACTIVE = [
    GaussianNoise(0.1),
    GaussianDropout(0.1),
    BatchGaussianNoise(),
    BernoulliDropout(0.3),
    BernoulliDropout(0.3, rescale=False),
    FeatureDropout(0.3),
    FeatureMask("trivial", 0.25),
    FeatureMask("trivial", 0.25, by="value"),
    FeatureMask("significant", 0.25),
    TokenCutoff(0.4),
    SpanCutoff(0.4),
    TokenShuffling(),
    FGSM(0.01),
    FGSM(0.01, descend=True),
]
CASES = [(perturbation, place) for perturbation in ACTIVE for place in perturbation.places]


def name(value: object) -> str:
    return type(value).__name__ if isinstance(value, Perturbation) else str(value)


def example(place: str, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Embeddings and which of them may be touched: tokens 1 … 5 to 10 of 12, or all vectors but one."""
    generator = torch.Generator().manual_seed(0)
    if place == "output":
        mask = torch.ones(6, dtype=torch.bool)
        mask[2] = False
        return torch.randn(6, 8, generator=generator, dtype=dtype), mask
    position, last = torch.arange(12), torch.arange(5, 11)[:, None]
    return torch.randn(6, 12, 8, generator=generator, dtype=dtype), (position >= 1) & (position <= last)


def attack(x: Tensor, temperature: float) -> Tensor:
    """Any loss with a gradient everywhere."""
    weights = torch.linspace(-1, 2, x.numel()).reshape(x.shape).to(x.dtype)
    return (weights * x.sin()).sum() / temperature


def apply(perturbation: Perturbation, x: Tensor, mask: Tensor, seed: int = 0) -> Tensor:
    torch.manual_seed(seed)
    return perturbation(x, mask, attack)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("perturbation", "place"), CASES, ids=name)
def test_only_what_the_mask_allows_is_changed(perturbation: Perturbation, place: str, dtype: torch.dtype) -> None:
    x, mask = example(place, dtype)
    before = x.clone().requires_grad_()
    after = apply(perturbation, before, mask)
    assert torch.equal(before, x)
    assert (after.shape, after.dtype) == (x.shape, x.dtype)
    assert after.isfinite().all()
    assert torch.equal(after[~mask], x[~mask])
    changed = (after != x).any(-1)[mask]
    whole = not isinstance(perturbation, (TokenCutoff, SpanCutoff, TokenShuffling, FeatureDropout, BernoulliDropout))
    assert changed.all() if whole else changed.any()
    (gradient,) = torch.autograd.grad(after.sum(), before)
    assert gradient[~mask].eq(1).all()
    assert 0.3 < gradient[mask].ne(0).double().mean() <= 1


@pytest.mark.parametrize("kind", sorted({type(perturbation) for perturbation in ACTIVE} - {TokenShuffling}, key=str))
def test_strength_zero_changes_nothing(kind: Any) -> None:
    perturbation = kind("trivial", 0.0) if kind is FeatureMask else kind(0.0)
    assert perturbation.is_identity
    for place in perturbation.places:
        x, mask = example(place)
        assert torch.equal(apply(perturbation, x, mask), x)


# definitions


@pytest.mark.parametrize("by", ["magnitude", "value"])
@pytest.mark.parametrize("which", ["trivial", "significant"])
def test_feature_mask_equals_the_loop(which: str, by: str) -> None:
    x = torch.randn(5, 24)
    mask = torch.ones(5, dtype=torch.bool)
    expected = masked_features_loop(x, 0.1, largest=which == "significant", signed=by == "value")
    assert torch.equal(FeatureMask(which, by=by)(x, mask, attack), expected)


@pytest.mark.parametrize("kind", [TokenCutoff(0.4), SpanCutoff(0.4)], ids=name)
def test_a_cutoff_erases_a_share_of_the_own_tokens(kind: Perturbation) -> None:
    x, mask = example("input")
    for row, erased in enumerate(erased_tokens(x, apply(kind, x, mask))):
        assert len(erased) == math.floor(0.4 * int(mask[row].sum()))
        assert mask[row, erased].all()


def test_token_cutoff_erases_every_own_token_equally_often() -> None:
    x, mask = torch.ones(2000, 5, 1), torch.tensor([False, True, True, True, True])
    times = (apply(TokenCutoff(0.5), x, mask.expand(2000, -1)) == 0).float().mean(0)[1:, 0]
    assert (times - 0.5).abs().max() < 4.5 * 0.5 / 2000**0.5  # standard deviations of Bernoulli draws


def test_span_cutoff_erases_one_span_anywhere() -> None:
    x, mask = torch.ones(200, 6, 1), torch.tensor([False, True, True, True, True, False])
    erased = apply(SpanCutoff(0.5), x, mask.expand(200, -1))[..., 0] == 0
    places = {tuple(row.nonzero().flatten().tolist()) for row in erased}
    assert places == {(1, 2), (2, 3), (3, 4)}


def test_token_shuffling_is_a_uniform_permutation_of_the_own_tokens() -> None:
    position = torch.arange(4.0)
    x = position.repeat(4000, 1)[..., None]
    mask = torch.tensor([False, True, True, True]).repeat(4000, 1)
    after = apply(TokenShuffling(), x, mask)[..., 0]
    assert torch.equal(after.sort(1).values, x[..., 0])
    orders, counts = after.unique(dim=0, return_counts=True)
    assert len(orders) == 6
    assert (counts / 4000 - 1 / 6).abs().max() < 0.03  # 5 standard deviations


# moments, of 40,000 or more draws each: tolerances are at least 4 standard deviations


@pytest.mark.parametrize(
    ("perturbation", "mean", "deviation", "values"),
    [
        (GaussianNoise(0.5), 1, 0.25, None),
        (GaussianDropout(0.5), 1, 0.5, None),
        (BernoulliDropout(0.2), 1, 0.5, {0.0, 2.5}),
        (BernoulliDropout(0.2, rescale=False), 0.8, 0.4, {0.0, 2.0}),
    ],
)
def test_moments(perturbation: Perturbation, mean: float, deviation: float, values: set[float] | None) -> None:
    """Of 40,000 vectors of the number 2, in units of 2."""
    x = torch.full((40_000, 8), 2.0)
    after = apply(perturbation, x, torch.ones(40_000, dtype=torch.bool))
    assert abs(after.mean() / 2 - mean) < 0.004
    assert abs(after.std() / 2 - deviation) < 0.003
    assert values is None or set(after.unique().tolist()) == values


def test_fgsm_restores_the_draws_of_whatever_device_it_is_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """``meta`` stands for an accelerator."""
    asked: list[dict[str, Any]] = []

    def noted(devices: list[torch.device], **options: Any) -> contextlib.nullcontext[None]:
        asked.append({"devices": devices, **options})
        return contextlib.nullcontext()

    monkeypatch.setattr(torch.random, "fork_rng", noted)
    for device in ("cpu", "meta"):
        FGSM()(torch.ones(2, 3, device=device), torch.ones(2, device=device) > 0, lambda x, _: x.sum())
    assert asked == [
        {"devices": [], "device_type": "cpu"},
        {"devices": [torch.device("meta")], "device_type": "meta"},
    ]


def test_feature_dropout_takes_a_dimension_of_the_whole_sentence() -> None:
    x = torch.ones(5000, 3, 8)
    after = apply(FeatureDropout(0.2), x, torch.ones(5000, 3, dtype=torch.bool))
    assert set(after.unique().tolist()) == {0.0, 1.0}
    assert torch.equal(after.amin(1), after.amax(1))
    assert abs((after == 0).float().mean() - 0.2) < 0.01


def test_batch_noise_has_the_unbiased_deviation() -> None:
    x, ones = torch.randn(3, 5), torch.ones(3, dtype=torch.bool)
    noise = apply(BatchGaussianNoise(), x, ones) - x
    torch.manual_seed(0)
    deviation = ((x - x.mean(0)).square().sum(0) / 2).sqrt()  # N − 1 = 2 below
    torch.testing.assert_close(noise, torch.randn(3, 5) * deviation, rtol=0, atol=1e-6)
    assert torch.equal(apply(BatchGaussianNoise(), x[:1], ones[:1]), x[:1]), "one vector has no deviation"


def test_the_loss_that_is_attacked_has_the_hard_negatives() -> None:
    anchor, positive, negative = torch.randn(3, 4, 8, generator=torch.Generator().manual_seed(0))
    for hard in (None, negative):
        expected = info_nce(anchor, positive, temperature=0.2, negatives=hard)
        torch.testing.assert_close(contrastive_loss(anchor, positive, hard, 0.2), expected)
