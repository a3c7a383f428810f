"""Cosine similarity in float32 (or float64, where the input is), and the InfoNCE loss over it."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sentrep.functional.sum_in_chunks import rows_at_once, sum_in_chunks

LARGEST_MATRIX = 2**24
"""Similarities that a loss holds at once by default (4,096 × 4,096, 64 MiB); more are computed in blocks."""


def at_least_float32(x: Tensor) -> Tensor:
    """``x`` itself in float32 or float64, half precisions in float32."""
    return x if x.dtype == torch.float64 else x.float()


def linear(layer: nn.Linear, x: Tensor) -> Tensor:
    """``layer`` on ``x`` (..., D) in the precision of ``x``, whatever its weights are kept in."""
    return F.linear(x, layer.weight.to(x.dtype), None if layer.bias is None else layer.bias.to(x.dtype))


def unit(x: Tensor) -> Tensor:
    """Rows of ``x`` (..., D) scaled to length 1, in float32 or float64; a zero row stays zero."""
    return F.normalize(at_least_float32(x), dim=-1)


def cosine_similarity_matrix(x: Tensor, y: Tensor) -> Tensor:
    """Cosine of every row of ``x`` with every row of ``y``.

    Args:
        x: (N, D), any floating type.
        y: (K, D).

    Returns:
        (N, K) in [-1, 1], float32 (float64 for float64 input); 0 where a row has length zero. No autocast inside.

    Examples:
        >>> cosine_similarity_matrix(torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 1.0], [3.0, 0.0]]))
        tensor([[0., 1.]])
    """
    with torch.autocast(x.device.type, enabled=False):
        return unit(x) @ unit(y).T


def info_nce(
    queries: Tensor,
    keys: Tensor,
    *,
    temperature: float,
    positives: Tensor | None = None,
    negatives: Tensor | None = None,
    row_negatives: Tensor | None = None,
    weights: Tensor | None = None,
    negative_weight: float = 1.0,
    label_smoothing: float = 0.0,
    margin: float = 0.0,
    block: int | None = None,
) -> Tensor:
    r"""InfoNCE over in-batch keys and extra negatives, with weighted pairs.

    For query i with the key p(i) as its positive, s = cosine / τ:

        ℓ_i = −log  exp(s(q_i, k_{p(i)})) / ( Σ_j w_ij exp(s(q_i, k_j)) + λ Σ_m w_im exp(s(q_i, n_m)) )

    where m runs over the negatives that all queries share, then over the negatives of query i alone.

    The denominator holds the positive, as in all released code; GS-InfoNCE's eq. 5 has λ on the sum of exponentials.
    A weight 0 removes a pair from the softmax; the positive itself always has weight 1.

    Args:
        queries: (N, D) anchors.
        keys: (K, D) in-batch keys: the positives of all anchors, hard negatives too if wanted.
        temperature: τ > 0.
        positives: (N,) int64 column of each query's positive among the keys; default 0 … N−1.
        negatives: (M, D) extra negatives shared by all queries, or None.
        row_negatives: (N, k, D) further negatives of each query alone, or None.
        weights: (N, K+M+k) weights w in [0, ∞) on the exponentials, or None for all 1. No gradient flows into them.
        negative_weight: λ ≥ 0, on top of ``weights``, for the M + k extra negatives.
        label_smoothing: ε in [0, 1): the target gives 1 − ε to the positive and spreads ε evenly over all pairs that
            are left in the softmax (weight above 0), the positive included.
        margin: m in [0, 90] degrees: the positive's cosine cos θ is taken as cos(θ + m) (ArcCSE's ArcCon, ArcFace).
        block: queries whose logits, block × (K+M+k), are in memory at a time; their gradient is computed along with the
            value, and can be taken once. 0: all queries at once. None: all queries for up to 2²⁴ logits, else
            blocks of 2²³. Only rounding differs.

    Returns:
        Scalar float32 (float64 for float64 input): the mean of ℓ_i over the queries.

    Raises:
        ValueError: for a temperature that is not positive, or a margin out of range.

    Examples:
        >>> x = torch.eye(3)
        >>> round(info_nce(x, x, temperature=1.0).item(), 4)  # −log e / (e + 2)
        0.5514
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be positive, got {temperature}")
    if not 0 <= margin <= 90:
        raise ValueError(f"margin must be 0 to 90 degrees, got {margin}")
    if positives is None:
        positives = torch.arange(len(queries), device=queries.device)
    with torch.autocast(queries.device.type, enabled=False):
        scaled, columns, bias = unit(queries) / temperature, unit(keys), None
        if negatives is not None:
            columns = torch.cat([columns, unit(negatives)])
        own = queries.new_zeros(len(queries), 0, 1) if row_negatives is None else unit(row_negatives)
        width = len(columns) + own.shape[1]
        if negative_weight != 1.0:
            bias = scaled.new_ones(width)
            bias[len(keys) :] = negative_weight
            bias = bias.log()

        def total(
            scaled: Tensor, positives: Tensor, own: Tensor, weights: Tensor | None = None
        ) -> tuple[Tensor, Tensor]:
            logits = _logits(scaled, columns, own, positives, temperature, margin)
            if bias is not None:
                logits = logits + bias
            if weights is not None:
                logits = logits + weights.to(logits.dtype).log().scatter(1, positives[:, None], 0.0)
            return _cross_entropy(logits, positives, label_smoothing), logits.new_full((), len(logits))

        rows = [scaled, positives, own, *([] if weights is None else [weights.detach()])]
        if block is None:
            block = 0 if len(scaled) * width <= LARGEST_MATRIX else rows_at_once(width)
        loss, count = total(*rows) if block == 0 else sum_in_chunks(total, rows, [columns], chunk=block)
        return loss / count


@torch.compiler.disable
@torch.no_grad()
def drawn_shares(
    queries: Tensor,
    keys: Tensor,
    *,
    temperature: float,
    positives: Tensor,
    negatives: Tensor,
    row_negatives: Tensor,
    weights: Tensor | None = None,
    margin: float = 0.0,
    multiplied: bool = False,
) -> Tensor:
    """Mean share of each extra negative in the softmax of `info_nce`, over the queries.

    Args:
        queries: as in `info_nce`, like all arguments that are not listed here.
        keys: see there.
        temperature: see there.
        positives: see there.
        negatives: (M, D).
        row_negatives: (N, k, D).
        weights: see there.
        margin: see there.
        multiplied: whether the weights multiply the logits, as in `sentrep.functional.binary.binary_info_nce`.

    Returns:
        (M + k,) in [0, 1]; together with the shares of the keys they add up to 1.

    Examples:
        >>> x, nothing = torch.eye(3), torch.zeros(3, 0, 3)
        >>> drawn_shares(x, x, temperature=1.0, positives=torch.arange(3), negatives=x[:1], row_negatives=nothing)
        tensor([0.2384])
    """
    with torch.autocast(queries.device.type, enabled=False):
        columns = torch.cat([unit(keys), unit(negatives)])

        def sums(scaled: Tensor, positives: Tensor, own: Tensor, weights: Tensor | None = None) -> Tensor:
            logits = _logits(scaled, columns, own, positives, temperature, margin)
            if weights is not None:
                weights = weights.to(logits.dtype).scatter(1, positives[:, None], 1.0)
                logits = logits * weights if multiplied else logits + weights.log()
            return logits.softmax(1)[:, len(keys) :].sum(0)

        rows = [unit(queries) / temperature, positives, unit(row_negatives), *([] if weights is None else [weights])]
        groups = zip(*(part.split(rows_at_once(len(columns) + row_negatives.shape[1])) for part in rows), strict=True)
        return torch.stack([sums(*group) for group in groups]).sum(0) / len(queries)


def _logits(
    scaled: Tensor, columns: Tensor, own: Tensor, positives: Tensor, temperature: float, margin: float
) -> Tensor:
    """Cosines / τ (n, K + M + k) of n queries, already divided by τ, with unit columns and their own negatives."""
    logits = scaled @ columns.T
    if margin:
        logits = _widened(logits, positives, temperature, math.radians(margin))
    if own.shape[1]:
        logits = torch.cat([logits, (own @ scaled[:, :, None]).squeeze(2)], dim=1)
    return logits


def _widened(logits: Tensor, positives: Tensor, temperature: float, margin: float) -> Tensor:
    """The logits with cos(θ + m) / τ for each positive's cos θ / τ, m in radians."""
    cosine = logits.gather(1, positives[:, None]) * temperature
    # identical views have a cosine of 1, where the slope of the sine is infinite
    sine = (1 - cosine.square()).clamp_min(1e-7).sqrt()
    return logits.scatter(1, positives[:, None], (cosine * math.cos(margin) - sine * math.sin(margin)) / temperature)


def _cross_entropy(logits: Tensor, positives: Tensor, smoothing: float) -> Tensor:
    """Sum over the rows; smoothing is over the finite logits only: a removed pair (−∞) takes no share of ε."""
    if smoothing == 0.0:
        return F.cross_entropy(logits, positives, reduction="sum")
    log_p = F.log_softmax(logits, dim=1)
    kept = torch.isfinite(logits)
    spread = log_p.masked_fill(~kept, 0.0).sum(1) / kept.sum(1)
    hit = log_p.gather(1, positives[:, None]).squeeze(1)
    return -((1 - smoothing) * hit + smoothing * spread).sum()
