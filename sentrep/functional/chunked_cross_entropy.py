"""Cross-entropy over a large vocabulary without ever holding all logits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def chunked_cross_entropy(
    states: Tensor,
    targets: Tensor,
    head: Callable[[Tensor], Tensor],
    parameters: Sequence[Tensor],
    *,
    chunk: int,
) -> tuple[Tensor, Tensor]:
    """Sum of −log softmax(head(states))[target] over n rows, with the logits of ``chunk`` rows at a time.

    The gradients with respect to the states and the head's parameters are computed along with the value, chunk by
    chunk, and only they are kept: three matrix products per chunk, as without chunks, and none a second time. So the
    function can be differentiated once. The loss is computed in float32 whatever the autocast type.

    Args:
        states: (n, H).
        targets: (n,) int64, classes in [0, V).
        head: maps (k, H) to logits (k, V), each row by itself, and draws no random numbers.
        parameters: what ``head`` depends on besides its argument; those with gradient get theirs.
        chunk: rows at a time, at least 1.

    Returns:
        The sum (scalar, float32, or float64 for float64 logits), and how many targets have the largest logit of their
        row (scalar, int64).

    Examples:
        >>> weight = torch.eye(3)
        >>> loss, correct = chunked_cross_entropy(weight, torch.tensor([0, 1, 1]), lambda x: x @ weight, [], chunk=2)
        >>> print(f"{loss:.4f}", correct.item())
        2.6543 2
    """
    with_gradient = torch.is_grad_enabled()
    return _ChunkedCrossEntropy.apply(states, targets, head, chunk, with_gradient, *parameters)


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        targets: Tensor,
        head: Callable[[Tensor], Tensor],
        chunk: int,
        with_gradient: bool,
        *parameters: Tensor,
    ) -> tuple[Tensor, Tensor]:
        ctx.trained = [parameter.requires_grad for parameter in parameters]
        inputs = [parameter for parameter in parameters if parameter.requires_grad]
        by_chunk: list[Tensor] = []
        sums: list[Tensor] = []
        values, hits = [], []
        for rows, wanted in zip(states.split(chunk), targets.split(chunk), strict=True):
            rows = rows.detach().requires_grad_(with_gradient)
            with torch.set_grad_enabled(with_gradient):
                logits = head(rows)
            value, hit, slope = _value_and_slope(logits.detach(), wanted)
            values.append(value)
            hits.append(hit)
            if with_gradient:
                rows_gradient, *others = torch.autograd.grad(logits, [rows, *inputs], slope.to(logits.dtype))
                by_chunk.append(rows_gradient)
                if sums:
                    for total, one in zip(sums, others, strict=True):
                        total.add_(one)
                else:
                    sums = [one.to(torch.promote_types(one.dtype, torch.float32)) for one in others]
        if with_gradient:
            totals = [total.to(parameter.dtype) for total, parameter in zip(sums, inputs, strict=True)]
            ctx.save_for_backward(torch.cat(by_chunk), *totals)
        correct = torch.stack(hits).sum()
        ctx.mark_non_differentiable(correct)
        return torch.stack(values).sum(), correct

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Any) -> tuple[Tensor | None, ...]:
        states, *saved = ctx.saved_tensors
        totals = iter(saved)
        others = [next(totals) * grad if trained else None for trained in ctx.trained]
        return states * grad, None, None, None, None, *others


def _value_and_slope(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sum of the cross-entropies, number of correct guesses, gradient with respect to the logits."""
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    columns = targets[:, None]
    wanted = logits.gather(1, columns)
    normaliser = logits.logsumexp(1, keepdim=True)
    correct = (wanted >= logits.amax(1, keepdim=True)).sum()
    slope = (logits - normaliser).exp_()
    slope.scatter_add_(1, columns, -torch.ones_like(wanted))
    return (normaliser - wanted).sum(), correct, slope
