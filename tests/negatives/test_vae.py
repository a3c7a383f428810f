"""The VAE against loops, and what it learns."""

from __future__ import annotations

import torch
from samplers import WIDTH, built, embeddings, spec
from torch import Tensor

from references.samplers import Adam, vae_bound, vae_decode
from sentrep.distributed import step_generator
from sentrep.negatives import VAENegatives


def _vae(**overrides: int | float) -> VAENegatives:
    sampler = built("vae", **overrides)
    assert isinstance(sampler, VAENegatives)
    return sampler


def _weights(sampler: VAENegatives) -> dict[str, Tensor]:
    return {name: p.detach().double().clone() for name, p in sampler.network.named_parameters()}


def test_fitting_equals_adam_on_the_bound_in_loops() -> None:
    sampler = _vae(window=2, steps=2, learning_rate=0.01)
    weights, adam = _weights(sampler), Adam(0.01)
    for update in range(4):
        sampler.update(embeddings(update)[0])
        past = torch.cat([embeddings(step)[0] for step in range(max(0, update - 1), update + 1)])  # the last two
        location, scale = past.double().mean(0), past.double().std(0)
        generator = step_generator(5, "extra/fit", update)
        for _ in range(2):
            noise = torch.randn(len(past), 3, generator=generator).double()
            leaves = {name: weight.clone().requires_grad_() for name, weight in weights.items()}
            vae_bound((past.double() - location) / scale, noise, leaves).backward()
            weights = adam.step(weights, {name: leaf.grad for name, leaf in leaves.items() if leaf.grad is not None})
        for name, weight in _weights(sampler).items():
            torch.testing.assert_close(weight, weights[name], rtol=0, atol=1e-5)
    latent = torch.randn(8, 3, generator=step_generator(5, "extra", 4)).double()
    expected = torch.stack([location + scale * vae_decode(z, weights) for z in latent])
    torch.testing.assert_close(sampler.sample(*embeddings(5)).double(), expected, rtol=0, atol=1e-4)


def test_fitting_to_the_batch_equals_adam_in_loops_and_a_draw_changes_nothing() -> None:
    sampler = built("vae on the batch", steps=2, learning_rate=0.01)
    assert isinstance(sampler, VAENegatives)
    weights, adam = _weights(sampler), Adam(0.01)
    for step in range(3):
        rows, keys = embeddings(step)
        location, scale = rows.double().mean(0), rows.double().std(0)
        drawn = [sampler.sample(rows, keys) for _ in range(2)]
        generator = step_generator(5, "extra/fit", step)
        for _ in range(2):
            noise = torch.randn(len(rows), 3, generator=generator).double()
            leaves = {name: weight.clone().requires_grad_() for name, weight in weights.items()}
            vae_bound((rows.double() - location) / scale, noise, leaves).backward()
            weights = adam.step(weights, {name: leaf.grad for name, leaf in leaves.items() if leaf.grad is not None})
        latent = torch.randn(8, 3, generator=step_generator(5, "extra", step)).double()
        expected = torch.stack([location + scale * vae_decode(z, weights) for z in latent])
        torch.testing.assert_close(drawn[0].double(), expected, rtol=0, atol=1e-4)
        assert torch.equal(*drawn)
        sampler.update(rows)
        for name, weight in _weights(sampler).items():
            torch.testing.assert_close(weight, weights[name], rtol=0, atol=1e-5)


def test_the_window_slides() -> None:
    sampler = _vae(window=3)
    for step in range(5):
        sampler.update(embeddings(step, rows=4 + step)[0])
        kept = [embeddings(past, rows=4 + past)[0] for past in range(max(0, step - 2), step + 1)]
        torch.testing.assert_close(sampler.location, torch.cat(kept).mean(0))


def test_learns_where_the_outputs_lie() -> None:
    # outputs near one line, far from the origin: draws end up near that line, on both sides of its middle
    direction, centre = torch.linspace(-1, 1, WIDTH), torch.full((WIDTH,), 5.0)
    sampler = _vae(hidden=32, steps=10, learning_rate=5e-3)
    for step in range(20):
        generator = torch.Generator().manual_seed(step)
        along = 3 * torch.randn(32, 1, generator=generator)
        sampler.update(centre + along * direction + 0.05 * torch.randn(32, WIDTH, generator=generator))
    drawn = sampler.sample(torch.zeros(500, WIDTH), torch.zeros(500, WIDTH)) - centre
    along = drawn @ direction / direction.square().sum()
    assert (drawn - along[:, None] * direction).norm(dim=1).median() < 0.5
    assert 1.5 < along.std() < 4
    assert abs(along.mean()) < 1


def test_weights_start_from_seed_and_stream() -> None:
    first, again, other = (VAENegatives(latent=3, hidden=7) for _ in range(3))
    for sampler, stream in ((first, "a"), (again, "a"), (other, "b")):
        sampler.build(spec(), stream)
    assert torch.equal(first.network.output.weight, again.network.output.weight)
    assert not torch.equal(first.network.output.weight, other.network.output.weight)
