"""The closed-form refinement against autograd on the paper's loss."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from references.noise import refine_noise_autograd
from sentrep.functional import refine_noise

DENOMINATORS = ["noise", "batch_and_noise"]


def _tensors(n: int, m: int, d: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    anchors = 3 * torch.randn(n, d, generator=generator) + 1
    positives = anchors + 0.3 * torch.randn(n, d, generator=generator)
    return torch.randn(m, d, generator=generator), anchors, positives


@pytest.mark.parametrize("denominator", DENOMINATORS)
@pytest.mark.parametrize(("n", "m", "d"), [(6, 9, 16), (1, 3, 5), (5, 1, 8), (12, 4, 64)])
@pytest.mark.parametrize("temperature", [0.05, 0.5])
def test_equals_autograd(denominator: str, n: int, m: int, d: int, temperature: float) -> None:
    noise, anchors, positives = _tensors(n, m, d)
    for step_size in (1e-3, 0.1):  # the paper's, and one that shows the direction a hundred times larger
        arguments = {"temperature": temperature, "steps": 4, "step_size": step_size, "denominator": denominator}
        fast = refine_noise(noise, anchors, positives, **arguments)  # type: ignore[arg-type]
        exact = refine_noise_autograd(noise.double(), anchors.double(), positives.double(), *arguments.values())  # type: ignore[arg-type]
        torch.testing.assert_close(fast, exact.float(), rtol=0, atol=1e-6)


def test_a_vector_without_gradient_stays() -> None:
    _, anchors, positives = _tensors(1, 1, 24)
    # along the only anchor, against it, and nowhere: at a maximum, at a minimum, without a cosine
    noise = torch.cat([2 * anchors, -anchors, torch.zeros_like(anchors)])
    assert torch.equal(refine_noise(noise, anchors, positives, temperature=0.05), noise)


def test_a_nan_leaves_the_noise_alone() -> None:
    noise, anchors, positives = _tensors(4, 5, 8)
    anchors[2, 3] = torch.nan
    assert torch.equal(refine_noise(noise, anchors, positives, temperature=0.05), noise)


def test_direction_survives_underflow() -> None:
    # every softmax weight of the second vector is below the smallest float32, yet its direction is well defined
    noise = torch.tensor([[1.0, 0.1], [-1.0, 0.1]])
    anchors = torch.tensor([[1.0, 0.0], [1.0, 0.05]])
    arguments = {"temperature": 0.01, "steps": 1, "step_size": 0.1, "denominator": "noise"}
    exact = refine_noise_autograd(noise.double(), anchors.double(), anchors.double(), *arguments.values())  # type: ignore[arg-type]
    assert torch.exp(torch.tensor(-2.0 / 0.01)) == 0
    torch.testing.assert_close(refine_noise(noise, anchors, anchors, **arguments), exact.float(), rtol=0, atol=1e-6)  # type: ignore[arg-type]


def test_no_graph_and_inputs_unchanged_under_autocast() -> None:
    tensors = _tensors(6, 9, 16)
    copies = [t.clone() for t in tensors]
    inputs = [t.clone().requires_grad_() for t in tensors]
    plain = refine_noise(*tensors, temperature=0.05, step_size=0.1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        refined = refine_noise(*inputs, temperature=0.05, step_size=0.1)
    assert not refined.requires_grad
    assert torch.equal(refined, plain)
    assert all(torch.equal(a, b) for a, b in zip(inputs, copies, strict=True))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"temperature": 0.0}, "temperature must be positive"),
        ({"temperature": 0.05, "steps": -1}, "steps must be 0 or more"),
        ({"temperature": 0.05, "step_size": 0.0}, "step_size positive"),
        ({"temperature": 0.05, "denominator": "batch"}, "'noise' or 'batch_and_noise', got 'batch'"),
    ],
)
def test_bad_values_are_refused(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        refine_noise(*_tensors(2, 2, 3), **arguments)  # type: ignore[arg-type]
