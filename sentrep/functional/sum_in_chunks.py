"""A sum over rows, differentiated group by group: activations, or logits over a vocabulary, of one group at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

LOGITS_AT_ONCE = 2**23
"""Logits that `rows_at_once` allows in memory: 32 MiB in float32."""


@torch.compiler.disable
def sum_in_chunks(
    function: Callable[..., tuple[Tensor, Tensor]], rows: Sequence[Tensor], parameters: Sequence[Tensor], *, chunk: int
) -> tuple[Tensor, Tensor]:
    """Sum of ``function`` over groups of ``chunk`` rows, whose gradient is computed along with the value.

    A loss that is a sum over sentences thus handles a large batch in the memory of a small batch: each group's
    activations are freed before the next group begins, and only gradients are kept. Nothing is computed twice, so that
    random draws need no replay. The function can be differentiated once.

    Args:
        function: maps a group's part of every tensor in ``rows`` to a scalar and a count (scalar, without gradient).
        rows: tensors of n rows each; those that require a gradient get theirs.
        parameters: further tensors of ``function``; tensors that require a gradient get theirs.
        chunk: rows in a group, at least 1.

    Returns:
        The sum of the scalars and the sum of the counts.

    Examples:
        >>> weight, x = torch.ones(2, requires_grad=True), torch.arange(6.0).view(3, 2)
        >>> total, count = sum_in_chunks(lambda x: ((x * weight).sum(), x.new_tensor(len(x))), [x], [weight], chunk=2)
        >>> total.backward()
        >>> total.item(), count.item(), weight.grad.tolist()
        (15.0, 3.0, [6.0, 9.0])
    """
    tensors = [*rows, *parameters]
    with_gradient = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    value, count = _SumInChunks.apply(function, chunk, with_gradient, len(rows), *tensors)
    return value, count


def rows_at_once(width: int) -> int:
    """Rows of ``width`` logits to compute at a time: few enough for the memory, enough for efficient matrix products.

    Examples:
        >>> rows_at_once(30522), rows_at_once(250002)
        (274, 128)
    """
    return max(128, LOGITS_AT_ONCE // width)


def chunked_cross_entropy(
    states: Tensor,
    targets: Tensor,
    head: Callable[[Tensor], Tensor],
    parameters: Sequence[Tensor],
    *,
    chunk: int,
) -> tuple[Tensor, Tensor]:
    """Sum of −log softmax(head(states))[target] over n rows, with the logits of ``chunk`` rows at a time.

    The gradients with respect to the states and the head's parameters are computed along with the value
    (`sum_in_chunks`): three matrix products per chunk, as without chunks, and none a second time. So the function can
    be differentiated once. The loss is computed in float32 whatever the autocast type.

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

    def total(states: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        return _CrossEntropy.apply(head(states), targets)

    return sum_in_chunks(total, [states, targets], parameters, chunk=chunk)


class _SumInChunks(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        function: Callable[..., tuple[Tensor, Tensor]],
        chunk: int,
        with_gradient: bool,
        number: int,
        *tensors: Tensor,
    ) -> tuple[Tensor, Tensor]:
        rows, parameters = tensors[:number], tensors[number:]
        trained = [tensor.requires_grad for tensor in tensors]
        inputs = [parameter for parameter in parameters if parameter.requires_grad]
        values, counts, by_group = [], [], []
        sums: list[Tensor] = []
        for group in zip(*(tensor.split(chunk) for tensor in rows), strict=True):
            parts = [part.detach().requires_grad_(wanted) for part, wanted in zip(group, trained, strict=False)]
            with torch.set_grad_enabled(with_gradient):
                value, count = function(*parts)
            values.append(value.detach())
            counts.append(count)
            if with_gradient:
                wanted = [part for part in parts if part.requires_grad]
                slopes = torch.autograd.grad(value, [*wanted, *inputs])
                by_group.append(slopes[: len(wanted)])
                others = slopes[len(wanted) :]
                if sums:
                    sums = [total.add_(one) for total, one in zip(sums, others, strict=True)]
                else:  # each addition in half precision would round again
                    sums = [one.to(torch.promote_types(one.dtype, torch.float32)) for one in others]
        sums = [total.to(parameter.dtype) for total, parameter in zip(sums, inputs, strict=False)]
        ctx.trained = trained
        ctx.save_for_backward(*(torch.cat(parts) for parts in zip(*by_group, strict=True)), *sums)
        total = torch.stack(counts).sum()
        ctx.mark_non_differentiable(total)
        return torch.stack(values).sum(), total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Any) -> tuple[Tensor | None, ...]:
        saved = iter(ctx.saved_tensors)
        return None, None, None, None, *(next(saved) * grad if wanted else None for wanted in ctx.trained)


class _CrossEntropy(torch.autograd.Function):
    """Sum of the cross-entropies of (k, V) logits, and number of correct guesses; one pass over the logits gives the
    slope, where autograd of the parts takes four."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        rows = logits.to(torch.promote_types(logits.dtype, torch.float32))
        columns = targets[:, None]
        wanted = rows.gather(1, columns)
        normaliser = rows.logsumexp(1, keepdim=True)
        correct = (wanted >= rows.amax(1, keepdim=True)).sum()
        slope = (rows - normaliser).exp_()
        slope.scatter_add_(1, columns, -torch.ones_like(wanted))
        ctx.save_for_backward(slope.to(logits.dtype))
        ctx.mark_non_differentiable(correct)
        return (normaliser - wanted).sum(), correct

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Any) -> tuple[Tensor, None]:
        (slope,) = ctx.saved_tensors
        return slope.mul_(grad), None
