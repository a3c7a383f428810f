"""The VAE against loops, and what it learns."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from samplers import WIDTH, advance, built, embeddings
from torch import Tensor

from references.samplers import released_vae_decode, released_vae_loss, vae_bound, vae_decode
from sentrep import InputError
from sentrep.negatives.autoencoders import ReleasedVAE
from sentrep.random import step_generator
from support import assert_same


def _weights(sampler: Any) -> dict[str, Tensor]:
    return {name: p.detach().double().clone().requires_grad_() for name, p in sampler.network.named_parameters()}


def test_fitting_equals_adam_on_the_bound_in_loops() -> None:
    sampler = built("vae", window=2, steps=2, learning_rate=0.01)
    weights = _weights(sampler)
    adam = torch.optim.Adam(weights.values(), lr=0.01)
    for update in range(4):
        advance(sampler, embeddings(update)[0])
        past = torch.cat([embeddings(step)[0] for step in range(max(0, update - 1), update + 1)])  # the last two
        location, scale = past.double().mean(0), past.double().std(0)
        generator = step_generator(5, "extra/fit", update)
        for _ in range(2):
            noise = torch.randn(len(past), 3, generator=generator).double()
            adam.zero_grad()
            vae_bound((past.double() - location) / scale, noise, weights).backward()
            adam.step()
        torch.testing.assert_close(_weights(sampler), weights, rtol=0, atol=1e-5)
    latent = torch.randn(8, 3, generator=step_generator(5, "extra", 4)).double()
    expected = torch.stack([location + scale * vae_decode(z, weights) for z in latent])
    torch.testing.assert_close(sampler.sample(*embeddings(5)).double(), expected, rtol=0, atol=1e-4)


def _standardised(rows: Tensor, generator: torch.Generator, leaves: dict[str, Tensor]) -> Tensor:
    noise = torch.randn(len(rows), 3, generator=generator).double()
    return vae_bound((rows - rows.mean(0)) / rows.std(0), noise, leaves)


def _released(rows: Tensor, generator: torch.Generator, leaves: dict[str, Tensor]) -> Tensor:
    first, second = (torch.rand(len(rows), width, generator=generator) >= 0.5 for width in (7, 3))
    noise = torch.randn(len(rows), 3, generator=generator).double()
    return released_vae_loss(rows, [first, second, torch.rand(len(rows), 7, generator=generator) >= 0.5], noise, leaves)


def _drawn(kind: str, rows: Tensor, generator: torch.Generator, weights: dict[str, Tensor]) -> Tensor:
    latent = torch.randn(len(rows), 3, generator=generator).double()
    if kind == "vae on the batch":
        return torch.stack([rows.mean(0) + rows.std(0) * vae_decode(z, weights) for z in latent])
    masks = torch.rand(len(rows), 7, generator=generator) >= 0.5
    return torch.stack([released_vae_decode(z, mask, weights) for z, mask in zip(latent, masks, strict=True)])


@pytest.mark.parametrize(("kind", "loss"), [("vae on the batch", _standardised), ("released vae", _released)])
def test_fitting_to_the_batch_equals_adam_in_loops_and_a_draw_changes_nothing(
    kind: str, loss: Callable[..., Tensor]
) -> None:
    sampler = built(kind, steps=2, learning_rate=0.01)
    weights = _weights(sampler)
    adam = torch.optim.Adam(weights.values(), lr=0.01)
    for step in range(3):
        rows, keys = embeddings(step)
        drawn = [sampler.sample(rows, keys) for _ in range(2)]
        generator = step_generator(5, "extra/fit", step)
        for _ in range(2):
            adam.zero_grad()
            loss(rows.double(), generator, weights).backward()
            adam.step()
        expected = _drawn(kind, rows.double(), step_generator(5, "extra", step), weights)
        torch.testing.assert_close(drawn[0].double(), expected, rtol=0, atol=1e-4)
        assert torch.equal(*drawn)
        advance(sampler, rows)
        torch.testing.assert_close(_weights(sampler), weights, rtol=0, atol=1e-5)


def test_vectors_that_hardly_differ_are_standardised() -> None:
    network, rows = built("vae").network, 1e-3 * embeddings()[0]
    rows[:, 0] = 2.0
    network.observe(rows)
    expected = rows.std(0)
    expected[0] = 1e-6  # no deviation: the dimension keeps its mean
    torch.testing.assert_close(network.scale, expected)
    torch.testing.assert_close(network.location, rows.mean(0))


LAYERS = {
    "encoder": "enc1", "bottleneck": "enc2", "mean": "to_z_mean", "spread": "to_z_var", "decoder": "dec1",
    "output": "dec2",
}  # fmt: skip
"""Our names of the layers, and those of the thesis's code."""


def _published(file: Path, width: int = WIDTH, **changes: Any) -> dict[str, Tensor]:
    """Write a file as the thesis's code has it; return its weights by our names."""
    generator = torch.Generator().manual_seed(9)
    network = ReleasedVAE(width, 7, 3, generator)
    own = {name: 0.1 * torch.randn(p.shape, generator=generator) for name, p in network.named_parameters()}
    stored = {f"{LAYERS[name.split('.')[0]]}.{name.split('.')[1]}": weight for name, weight in own.items()}
    torch.save(stored | changes, file)
    return own


@pytest.mark.parametrize("first", ["sample", "update"])
def test_the_published_weights_are_the_start_and_a_resumed_run_does_not_need_them(tmp_path: Path, first: str) -> None:
    file = tmp_path / "vae.pt"
    own = _published(file)
    sampler = built("released vae", initial_weights=str(file), steps=1)
    if first == "sample":
        sampler.sample(*embeddings())
        assert_same(dict(sampler.network.named_parameters()), own)
    advance(sampler, embeddings()[0])
    # one step of Adam with 1e-3
    torch.testing.assert_close(dict(sampler.network.named_parameters()), own, rtol=0, atol=1.1e-3)
    state = copy.deepcopy(sampler.state_dict())
    file.unlink()
    resumed = built("released vae", initial_weights=str(file), steps=1)
    resumed.load_state_dict(state)
    resumed.step = sampler.step
    assert torch.equal(resumed.sample(*embeddings(1)), sampler.sample(*embeddings(1)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "no such file"),
        ({"width": WIDTH + 1}, r"expected finite weights enc1.weight of shape \(7, 6\).*width 768"),
        ({"to_z_var.bias": torch.full((3,), torch.nan)}, r"expected finite weights to_z_var.bias of shape \(3,\)"),
        ({"dec2.bias": 3}, r"expected finite weights dec2.bias of shape \(6,\)"),
        ({"dec2.bias": Path}, r"no file of weights that can be read without running code \(UnpicklingError\)"),
    ],
)
def test_other_files_are_refused_before_the_first_draw(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    file = tmp_path / "vae.pt"
    if changes:
        _published(file, **changes)
    with pytest.raises(InputError, match=f"vae.pt: {message}"):
        built("released vae", initial_weights=str(file)).sample(*embeddings())
