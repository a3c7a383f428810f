"""The mixture against stepwise EM in loops, and where it gets into trouble."""

from __future__ import annotations

import pytest
import torch
from samplers import WIDTH, advance, built, embeddings
from sklearn.mixture import GaussianMixture
from torch import Tensor

from references.samplers import StepwiseEM
from sentrep.negatives import gaussian_mixture
from sentrep.random import derive_seed, step_generator


def drawn_by_one(step: int, mass: Tensor, means: Tensor, covariances: Tensor, rows: int) -> Tensor:
    """The draws of a mixture, one by one; covariances are (K, D) variances or (K, D, D)."""
    generator = step_generator(5, "extra", step)
    component = torch.multinomial(mass.float(), rows, replacement=True, generator=generator)
    noise = torch.randn(rows, WIDTH, generator=generator).double()
    matrices = torch.diag_embed(covariances) if covariances.ndim == 2 else covariances
    factors = torch.linalg.cholesky(matrices.double())
    return torch.stack([means[k].double() + factors[k] @ x for k, x in zip(component.tolist(), noise, strict=True)])


@pytest.mark.parametrize("covariance", ["diag", "full"])
@pytest.mark.parametrize("decay", [0.3, 1.0])
def test_equals_stepwise_em_in_loops(covariance: str, decay: float) -> None:
    sampler = built("mixture", covariance=covariance, decay=decay, components=2)
    rows = embeddings(0, rows=40)[0]
    seeds = rows[torch.randperm(40, generator=step_generator(5, "extra/fit", 0))[:2]]
    reference = StepwiseEM(seeds, rows.var(0, correction=0), decay, floor=0.01, full=covariance == "full")
    for step in range(5):
        rows = embeddings(step, rows=40)[0]
        advance(sampler, rows)
        reference.update(rows)
        torch.testing.assert_close(sampler.mass.double(), reference.s0, rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(sampler.mean.double(), reference.means, rtol=1e-3, atol=1e-3)
        expected = torch.stack(reference.covariances)
        if covariance == "diag":
            expected = expected.diagonal(dim1=1, dim2=2)
        fitted = sampler._covariance(torch.zeros_like(sampler.scatter))
        torch.testing.assert_close(fitted.double(), expected, rtol=1e-3, atol=1e-3)
    assert sampler.mass.min() > 4  # the comparison had two living components
    drawn = drawn_by_one(5, sampler.mass, sampler.mean, fitted, rows=40)
    torch.testing.assert_close(sampler.sample(rows, rows).double(), drawn, rtol=1e-4, atol=1e-4)


def test_dead_components_are_seeded_again_from_the_step_generator() -> None:
    rows = embeddings(0, rows=64)[0]
    sampler = built("mixture", components=3, decay=1.0)
    advance(sampler, rows)
    sampler.mass[1] = 4e-3 * sampler.mass.sum()  # 1.2 % of its even part, which is enough
    sampler._responsibilities(rows)
    assert sampler.mass[1] > 0
    sampler.mass[1] = 1e-3 * sampler.mass.sum()
    sampler.mean[1] = 1e6
    living = (sampler.mass[0] + sampler.mass[2]).item()
    sampler._responsibilities(rows)
    order = torch.randperm(len(rows), generator=step_generator(5, "extra/fit", 1))
    assert torch.equal(sampler.mean[1], rows[order[1]])
    advance(sampler, rows)
    assert sampler.mass[1] > 1
    assert sampler.mass.sum().item() == pytest.approx(living + len(rows), abs=0.01)


@pytest.mark.parametrize("covariance", ["diag", "full"])
def test_fewer_rows_than_components_and_dimensions_far_from_the_origin(covariance: str) -> None:
    sampler = built("mixture", covariance=covariance, components=5)
    batch = 1e4 + embeddings(0, rows=3)[0]
    for _ in range(5):
        advance(sampler, batch)
    drawn = sampler.sample(batch, batch)
    assert drawn.isfinite().all()
    assert (drawn - 1e4).abs().max() < 100


def test_identical_rows_leave_a_mixture_that_recovers() -> None:
    sampler = built("mixture")
    same = torch.ones(8, WIDTH)
    for _ in range(3):
        advance(sampler, same)
    torch.testing.assert_close(sampler.sample(same, same), same, rtol=0, atol=1e-4)
    for step in range(20):
        advance(sampler, embeddings(step, rows=40)[0])
    drawn = sampler.sample(*embeddings(0, rows=400))
    torch.testing.assert_close(drawn.mean(0), torch.linspace(-2, 3, WIDTH), rtol=0, atol=1.0)
    assert drawn.std(0).min() > 0.5


@pytest.mark.parametrize(("window", "covariance"), [(1, "full"), (3, "full"), (2, "diag")])
def test_the_refitted_mixture_is_scikit_learns_of_the_last_batches(window: int, covariance: str) -> None:
    """Its fit to the rows by hand, and draws that are taken from it one by one."""
    sampler = built("refitted mixture", components=2, window=window, covariance=covariance)
    for step in range(5):
        anchors, keys = embeddings(step, rows=6)
        rows = torch.cat([anchors, *(embeddings(past, rows=6)[0] for past in range(max(0, step - window + 1), step))])
        seed = derive_seed(5, "extra/fit", step) % 2**32
        model = GaussianMixture(2, covariance_type=covariance, random_state=seed).fit(rows.double().numpy())
        expected = drawn_by_one(step, *map(torch.tensor, (model.weights_, model.means_, model.covariances_)), rows=6)
        torch.testing.assert_close(sampler.sample(anchors, keys).double(), expected, rtol=0, atol=1e-4)
        advance(sampler, anchors)


def test_a_window_with_fewer_rows_than_components_draws_nothing() -> None:
    sampler = built("refitted mixture", components=5, window=3)
    assert len(sampler.sample(*embeddings(rows=4))) == 0
    advance(sampler, embeddings(rows=4)[0])
    assert len(sampler.sample(*embeddings(rows=4))) == 4
    assert len(sampler.sample(*embeddings(rows=1))) == 1  # as many rows as components
    alone = built("refitted mixture", components=1)
    assert [len(alone.sample(*embeddings(rows=rows))) for rows in (1, 2)] == [0, 2]


def test_a_window_of_equal_rows_draws_them() -> None:
    same = torch.ones(8, WIDTH)
    drawn = built("refitted mixture").sample(same, same)
    torch.testing.assert_close(drawn, same, rtol=0, atol=0.01)


def test_a_component_of_less_than_one_row_has_its_own_variance() -> None:
    sampler = built("mixture", components=2, variance_floor=1e-6)
    sampler.mass.copy_(torch.tensor([0.5, 8.0]))
    sampler.scatter.fill_(2.0)
    expected = torch.tensor([4.0, 0.25])[:, None].expand(2, WIDTH)
    torch.testing.assert_close(sampler._covariance(torch.full_like(sampler.scatter, 7.0)), expected, rtol=0, atol=1e-4)


def test_a_moved_component_is_as_likely_as_any_other() -> None:
    rows = embeddings(0, rows=6)[0]
    sampler = built("mixture", components=2)
    sampler.mass[0], sampler.mean[0], sampler.scatter[0] = 10.0, rows.mean(0), 10 * rows.var(0, correction=0)
    found = sampler._responsibilities(rows)
    wide = rows.var(0, correction=0).expand(2, -1)
    density = gaussian_mixture._log_density(rows, sampler.mean, sampler._covariance(wide))
    torch.testing.assert_close(found, (torch.tensor([10.0, 10.0 / 2]).log() + density).softmax(1))
