from __future__ import annotations

import math

import pytest
import torch

from references.info_nce import uniformity_loop
from sentrep.functional import alignment, effective_rank, geometry, retrieval_accuracy, uniformity
from sentrep.functional.geometry import nearest_negatives, pair_statistics


def test_uniformity_equals_the_loop() -> None:
    x = torch.randn(9, 5)
    assert uniformity(x).item() == pytest.approx(uniformity_loop(x.double()), abs=1e-5)


def test_uniformity_of_one_point_is_refused() -> None:
    with pytest.raises(ValueError, match="two"):
        uniformity(torch.randn(1, 4))


def test_alignment_is_the_mean_squared_distance_on_the_sphere() -> None:
    x, y = torch.randn(6, 5), torch.randn(6, 5)
    expected = sum(float((a / a.norm() - b / b.norm()).pow(2).sum()) for a, b in zip(x, y, strict=True)) / 6
    assert alignment(x, y).item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("scale", [5.0, 1.0])
def test_pairs_above_four_of_five_align_and_all_sentences_are_uniform(scale: float) -> None:
    first, second = torch.randn(7, 5), torch.randn(7, 5)
    scores = [scale * share for share in (0.2, 1.0, 0.8, 0.81, 0.0, 0.79, 0.9)]
    distances = [
        sum((float(a / x.norm()) - float(b / y.norm())) ** 2 for a, b in zip(x, y, strict=True))
        for x, y, score in zip(first, second, scores, strict=True)
        if score > 0.8 * scale
    ]
    assert len(distances) == 3
    found = pair_statistics(first, second, scores)
    assert float(found["alignment"]) == pytest.approx(sum(distances) / 3, abs=1e-6)
    assert float(found["uniformity"]) == pytest.approx(uniformity_loop(torch.cat([first, second]).double()), abs=1e-5)
    assert pair_statistics(first, second, [0.0] * 7).keys() == {"uniformity"}


@pytest.mark.parametrize(("n", "d"), [(40, 6), (6, 40)])
def test_effective_rank_is_the_participation_ratio_of_the_eigenvalues(n: int, d: int) -> None:
    x = torch.randn(n, d) * torch.linspace(0.1, 3, d)
    rows = x / x.norm(dim=1, keepdim=True)
    eigenvalues = torch.linalg.eigvalsh(torch.cov(rows.T.double()))
    expected = eigenvalues.sum() ** 2 / eigenvalues.square().sum()
    assert effective_rank(x).item() == pytest.approx(expected.item(), rel=1e-4)


def test_effective_rank_of_identical_rows_is_zero() -> None:
    assert effective_rank(torch.ones(8, 4)).item() == 0.0


def test_gradients_of_alignment_and_uniformity_are_finite_at_coinciding_points() -> None:
    x = torch.ones(4, 3, requires_grad=True)
    (alignment(x, torch.ones(4, 3)) + uniformity(x)).backward()
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()
    assert uniformity(x).item() == pytest.approx(0.0, abs=1e-5)
    assert math.isfinite(uniformity(torch.randn(3, 3)).item())


@pytest.mark.parametrize("rows", [5, 12, 30])
def test_nearest_negatives_are_the_means_of_the_sorted_cosines(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geometry, "_QUERIES", 12)  # the last in three blocks
    x = torch.randn(rows, 3, generator=torch.Generator().manual_seed(rows))
    expected = [0.0] * 4
    for i in range(rows):
        others = torch.cat([x[:i], x[i + 1 :]])
        cosines = [float(cosine) for cosine in torch.cosine_similarity(x[i], others, dim=1)]
        for rank, cosine in enumerate(sorted(cosines, reverse=True)[:4]):
            expected[rank] += cosine / rows
    assert nearest_negatives(x).tolist() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("count", [2, 30, 2500])  # the last in several blocks
def test_retrieval_accuracy_counts_whose_own_row_is_nearest(count: int) -> None:
    generator = torch.Generator().manual_seed(count)
    x = torch.randn(count, 4, generator=generator)
    y = x + 0.4 * torch.randn(count, 4, generator=generator)
    cosine = torch.nn.functional.cosine_similarity(x[:, None], y[None], dim=-1)
    expected = (cosine.argmax(1) == torch.arange(count)).float().mean()
    assert float(retrieval_accuracy(x, y)) == pytest.approx(float(expected), abs=1.5 / count if count > 100 else 1e-6)
    assert float(retrieval_accuracy(x, x.flip(0))) < 0.5


def test_retrieval_in_a_collapsed_space_finds_nothing() -> None:
    assert float(retrieval_accuracy(torch.ones(5, 3), torch.ones(5, 3))) == 0
    with pytest.raises(ValueError, match="two"):
        retrieval_accuracy(torch.ones(1, 3), torch.ones(1, 3))
