"""Where embeddings lie on the sphere: alignment, uniformity, effective rank."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sentrep.functional.similarity import LARGEST_MATRIX, cosine_similarity_matrix, unit
from sentrep.functional.sum_in_chunks import rows_at_once, sum_in_chunks


def alignment(x: Tensor, y: Tensor) -> Tensor:
    """Mean squared distance of positive pairs on the unit sphere (Wang & Isola 2020, α = 2): mean ‖x − y‖².

    Args:
        x: (N, D).
        y: (N, D), row i is the positive of row i of ``x``.

    Returns:
        Scalar float32 in [0, 4]; 0 when every pair coincides.

    Examples:
        >>> alignment(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 5.0]]))
        tensor(2.)
    """
    return (unit(x) - unit(y)).pow(2).sum(-1).mean()


def uniformity(x: Tensor) -> Tensor:
    """How evenly embeddings cover the unit sphere (Wang & Isola 2020, t = 2): log mean_{i<j} exp(−2 ‖x_i − x_j‖²).

    Args:
        x: (N, D) with N ≥ 2. More than 4,096 rows are compared in blocks, whose gradient can be taken once.

    Returns:
        Scalar float32 in [−8, 0]; lower is more uniform, 0 means that all rows coincide.

    Raises:
        ValueError: for fewer than two rows.

    Examples:
        >>> uniformity(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))
        tensor(-8.)
    """
    count = len(x)
    if count < 2:
        raise ValueError("uniformity needs at least two embeddings")
    if count * count > LARGEST_MATRIX:
        return _uniformity_in_blocks(x)
    cosine = cosine_similarity_matrix(x, x)
    pair = torch.triu_indices(count, count, offset=1, device=x.device)
    # ‖a − b‖² = 2 − 2 cos on the sphere: one matrix product instead of N²·D differences
    return torch.logsumexp(4 * cosine[pair[0], pair[1]] - 4, 0) - math.log(pair.shape[1])


def _uniformity_in_blocks(x: Tensor) -> Tensor:
    """`uniformity` as the sum over all ordered pairs, so many rows at a time that no N×N matrix is needed."""
    count = len(x)
    with torch.autocast(x.device.type, enabled=False):
        columns = unit(x)

        def total(rows: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
            kernel = (4 * (rows @ columns.T) - 4).exp()
            return kernel.scatter(1, own[:, None], 0.0).sum(), kernel.new_full((), len(rows) * (count - 1))

        own = torch.arange(count, device=x.device)
        value, pairs = sum_in_chunks(total, [columns, own], [columns], chunk=rows_at_once(count))
        return (value / pairs).log()


def effective_rank(x: Tensor) -> Tensor:
    """Number of dimensions that the rows of ``x`` really use: the participation ratio (Σλ)² / Σλ².

    λ are the eigenvalues of the covariance of the unit-length rows. Computed from traces alone, tr(C)² / tr(C²), so
    that nothing is decomposed and no device waits. 1 means that all rows lie on a line; identical rows give 0.

    Args:
        x: (N, D).

    Returns:
        Scalar float32 in [0, min(N − 1, D)].

    Examples:
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


def view_statistics(anchor: Tensor, positive: Tensor) -> dict[str, Tensor]:
    """What tells a healthy embedding space from a collapsed one.

    Args:
        anchor: (N, D).
        positive: (N, D), row i is the positive of row i.

    Returns:
        Scalars: ``alignment``, ``positive_cosine`` (mean), ``effective_rank`` of the anchors and, for two rows or more,
        ``uniformity`` of the anchors and ``negative_cosine``, the mean over all pairs of different rows.
    """
    size = len(anchor)
    first, second = unit(anchor), unit(positive)
    own = (first * second).sum(-1)
    statistics = {
        "alignment": alignment(anchor, positive),
        "positive_cosine": own.mean(),
        "effective_rank": effective_rank(anchor),
    }
    if size > 1:
        statistics["uniformity"] = uniformity(anchor)
        with torch.autocast(anchor.device.type, enabled=False):
            total = first.sum(0) @ second.sum(0)  # the sum over all pairs is the product of the sums
        statistics["negative_cosine"] = (total - own.sum()) / (size * (size - 1))
    return statistics
