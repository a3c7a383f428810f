"""A sum over rows, differentiated group by group: the activations of one group at a time."""

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

    What a loss that is a sum over sentences needs for a large batch in the memory of a small one: each group's
    activations are gone before the next begins, and only gradients are kept. Nothing is computed twice, so that random
    draws need no replay. The function can be differentiated once.

    Args:
        function: maps a group's part of every tensor in ``rows`` to a scalar and a count (scalar, without gradient).
        rows: tensors of n rows each; those that require a gradient get theirs.
        parameters: what ``function`` depends on besides; those with gradient get theirs.
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
                sums = [total.add_(one) for total, one in zip(sums, others, strict=True)] if sums else list(others)
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
