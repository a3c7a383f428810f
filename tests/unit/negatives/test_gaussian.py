"""The samplers that remember nothing, against loops and moments."""

from __future__ import annotations

import pytest
import torch
from samplers import WIDTH, built, embeddings
from torch import Tensor

from references.noise import refine_noise_autograd
from references.samplers import batch_gaussian
from sentrep.random import step_generator
from support import assert_same_gradients


def _noise(rows: int, width: int = WIDTH, step: int = 0) -> Tensor:
    """What a sampler of `built` draws in this step."""
    return torch.randn(rows, width, generator=step_generator(5, "extra", step))


def test_gaussian_scales_and_shifts_every_draw() -> None:
    drawn = built("gaussian", mean=0.3, std=0.5, ratio=1.5).sample(*embeddings())
    torch.testing.assert_close(drawn, 0.3 + 0.5 * _noise(12), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("multiplied", "through"), [(False, "all"), (True, "none"), (True, "covariance"), (True, "all")]
)
@pytest.mark.parametrize("use_mean", [False, True])
@pytest.mark.parametrize("use_std", [False, True])
def test_the_gradient_flows_through_the_statistics_as_said(
    use_mean: bool, use_std: bool, multiplied: bool, through: str
) -> None:
    anchors = embeddings(rows=5, width=4)[0].double().requires_grad_()
    sampler = built("batch gaussian", use_mean=use_mean, use_std=use_std, ratio=1.0, gradient=through,
                    covariance="multiplied" if multiplied else "none")  # fmt: skip
    assert sampler.with_gradient == (through != "none")
    drawn = sampler.sample(anchors, anchors)
    expected = batch_gaussian(anchors, _noise(5, 4).double(), use_mean, use_std, multiplied, through)
    torch.testing.assert_close(drawn, expected, rtol=1e-9, atol=1e-9)
    assert drawn.requires_grad == (through != "none" and (use_mean or use_std or multiplied))
    if drawn.requires_grad:
        assert_same_gradients(drawn, expected, [anchors], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("use_mean", [False, True])
def test_full_covariance_equals_the_loop(use_mean: bool) -> None:
    anchors, keys = embeddings()
    mean = sum(anchors) / 8
    drawn = built("full covariance", use_mean=use_mean).sample(anchors, keys)
    for vector, noise in zip(drawn, _noise(8, 8), strict=True):
        expected = use_mean * mean + sum(x * (row - mean) for x, row in zip(noise, anchors, strict=True)) / 7**0.5
        torch.testing.assert_close(vector, expected, rtol=1e-4, atol=1e-4)


def test_noisy_anchor_equals_the_loop() -> None:
    anchors, keys = embeddings()
    deviation = (sum((row - sum(anchors) / 8) ** 2 for row in anchors) / 7) ** 0.5
    expected = torch.stack([anchors[m % 8] + deviation * noise for m, noise in enumerate(_noise(12))])
    torch.testing.assert_close(built("noisy anchor", ratio=1.5).sample(anchors, keys), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["batch gaussian", "standard", "multiplied", "full covariance", "noisy anchor"])
def test_a_single_anchor_has_no_deviation_and_gets_no_negatives(kind: str) -> None:
    assert built(kind).sample(*embeddings(rows=1)).shape == (0, WIDTH)
    assert len(built(kind).sample(*embeddings(rows=2))) > 0


@pytest.mark.parametrize("denominator", ["noise", "batch_and_noise"])
def test_refined_noise_equals_autograd(denominator: str) -> None:
    anchors, keys = embeddings()
    sampler = built("refined", std=0.7, steps=3, step_size=0.1, temperature=0.3, denominator=denominator)
    expected = refine_noise_autograd(0.7 * _noise(16), anchors, keys, 0.3, 3, 0.1, denominator)
    torch.testing.assert_close(sampler.sample(anchors, keys), expected, rtol=0, atol=1e-6)


def test_no_refinement_is_random_noise() -> None:
    assert torch.equal(built("refined", steps=0, std=2.0).sample(*embeddings()), 2 * _noise(16))
