from __future__ import annotations

import pytest
import torch

from sentrep.functional import alignment, effective_rank, uniformity
from sentrep.functional.geometry import view_statistics


def test_uniformity_of_one_point_is_refused() -> None:
    with pytest.raises(ValueError, match="two"):
        uniformity(torch.randn(1, 4))


@pytest.mark.parametrize(("n", "d", "centre"), [(40, 6, 0), (6, 40, 0), (6, 40, 20)])  # the last in a narrow cone
def test_effective_rank_is_the_participation_ratio_of_the_eigenvalues(n: int, d: int, centre: float) -> None:
    x = torch.randn(n, d) * torch.linspace(0.1, 3, d) + centre
    rows = x / x.norm(dim=1, keepdim=True)
    eigenvalues = torch.linalg.eigvalsh(torch.cov(rows.T.double()))
    expected = eigenvalues.sum() ** 2 / eigenvalues.square().sum()
    assert effective_rank(x).item() == pytest.approx(expected.item(), rel=1e-4)


def test_effective_rank_of_identical_rows_is_zero() -> None:
    assert effective_rank(torch.ones(8, 4)).item() == 0.0
    assert effective_rank(torch.randn(1, 32).expand(20_000, 32)).item() == 0.0  # whose rounding adds up


@pytest.mark.parametrize("count", [1, 2, 7])
def test_view_statistics_equal_loops_also_under_autocast(count: int) -> None:
    x, y = torch.randn(count, 5) + 1, torch.randn(count, 5) + 1
    cosine = torch.nn.functional.cosine_similarity(x[:, None].double(), y[None].double(), dim=-1)
    expected = {
        "alignment": float(alignment(x, y)),
        "positive_cosine": sum(float(cosine[i, i]) for i in range(count)) / count,
        "effective_rank": float(effective_rank(x)),
    }
    if count > 1:
        others = [float(cosine[i, j]) for i in range(count) for j in range(count) if i != j]
        expected |= {"uniformity": float(uniformity(x)), "negative_cosine": sum(others) / len(others)}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = view_statistics(x, y)
    assert {name: float(value) for name, value in found.items()} == pytest.approx(expected, abs=1e-5)
