"""Where embeddings lie on the sphere: alignment, uniformity, effective rank."""

from __future__ import annotations

import torch
from torch import Tensor

from sentrep.functional.similarity import cosine_similarity_matrix, unit


def alignment(x: Tensor, y: Tensor) -> Tensor:
    """Mean squared distance of positive pairs on the unit sphere (Wang & Isola 2020, α = 2): mean ‖x − y‖².

    Args:
        x: (N, D).
        y: (N, D), row i is the positive of row i of ``x``.

    Returns:
        Scalar float32 in [0, 4]; 0 when every pair coincides.

    Example:
        >>> alignment(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 5.0]]))
        tensor(2.)
    """
    return (unit(x) - unit(y)).pow(2).sum(-1).mean()


def uniformity(x: Tensor) -> Tensor:
    """How evenly embeddings cover the unit sphere (Wang & Isola 2020, t = 2): log mean_{i<j} exp(−2 ‖x_i − x_j‖²).

    Args:
        x: (N, D) with N ≥ 2.

    Returns:
        Scalar float32 in [−8, 0]; lower is more uniform, 0 means that all rows coincide.

    Raises:
        ValueError: for fewer than two rows.

    Example:
        >>> uniformity(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))
        tensor(-8.)
    """
    count = len(x)
    if count < 2:
        raise ValueError("uniformity needs at least two embeddings")
    cosine = cosine_similarity_matrix(x, x)
    pair = torch.triu_indices(count, count, offset=1, device=x.device)
    # ‖a − b‖² = 2 − 2 cos on the sphere: one matrix product instead of N²·D differences
    return torch.logsumexp(4 * cosine[pair[0], pair[1]] - 4, 0) - torch.log(
        torch.tensor(float(pair.shape[1]), device=x.device)
    )


def effective_rank(x: Tensor) -> Tensor:
    """Number of dimensions that the rows of ``x`` really use: the participation ratio (Σλ)² / Σλ².

    λ are the eigenvalues of the covariance of the unit-length rows. Computed from traces alone, tr(C)² / tr(C²), so
    that nothing is decomposed and no device waits. 1 means that all rows lie on a line; identical rows give 0.

    Args:
        x: (N, D).

    Returns:
        Scalar float32 in [0, min(N − 1, D)].

    Example:
        >>> effective_rank(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))
        tensor(2.)
    """
    with torch.autocast(x.device.type, enabled=False):
        rows = unit(x)
        rows = rows - rows.mean(0)
        gram = rows @ rows.T if len(rows) <= rows.shape[1] else rows.T @ rows
        trace = gram.diagonal().sum()
        # identical rows leave only rounding (about 1e-7 a row) behind: no direction, rank 0
        varied = trace > 1e-6 * len(rows)
        return torch.where(varied, trace.square() / gram.square().sum().clamp_min(1e-30), torch.zeros_like(trace))
