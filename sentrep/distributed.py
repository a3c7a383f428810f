"""Several processes as one: gather with gradient, rank and number of processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from sentrep.errors import InputError

T = TypeVar("T")

_LOST = ("ncclRemoteError", "remote process exited", "onnection", "imed out", "imeout", "Broken pipe")
"""In the messages of `torch.distributed.DistError`; other errors of this kind are bugs. Neither NCCL nor gloo has a
type of error for a lost peer, so their words are all there is to go by; nothing else of sentrep reads them."""


def world_size() -> int:
    """Number of processes; 1 outside a process group."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """This process's number among them; 0 outside a process group."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def leave_gloo_group() -> None:
    """Leave the process group if its back end is gloo.

    If a process ends while gloo's threads run, they sometimes abort it (status 134). Lightning ends groups of nccl
    itself.
    """
    if dist.is_available() and dist.is_initialized() and dist.get_backend() == "gloo":
        dist.destroy_process_group()


def says_peer_is_lost(error: BaseException) -> bool:
    """Whether an exception of the back end means that another process of the run was lost."""
    text = str(error)
    if "gloo/transport" in text:  # a RuntimeError: closed or reset connection, time-out
        return True
    return isinstance(error, dist.DistError) and any(word in text for word in _LOST)


@contextmanager
def explain_lost_peer() -> Iterator[None]:
    """Turn the back end's traceback into one sentence.

    Raises:
        InputError: another process of the run was lost.
    """
    try:
        yield
    except RuntimeError as error:
        if not says_peer_is_lost(error):
            raise
        raise InputError(
            "another process of this run was lost (killed, or its machine is out of reach); read its last output, and "
            "resume from the last checkpoint with --ckpt_path last"
        ) from error


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x = x.contiguous()
        out = x.new_empty(world_size() * len(x), *x.shape[1:])
        dist.all_gather(list(out.chunk(world_size())), x)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        # each addition in half precision would round again
        summed = grad.to(torch.promote_types(grad.dtype, torch.float32)).contiguous()
        dist.all_reduce(summed)
        return summed.chunk(world_size())[rank()].to(grad.dtype)


def gather(x: Tensor) -> Tensor:
    """Rows of all processes, in rank order, with gradient.

    The gradient of a row is the sum over all processes' losses. With a loss that is the mean over this process's own
    rows against all gathered keys, *unscaled*, DDP's averaging then gives exactly the gradient that one process would
    compute on the global batch. Scaling by the world size, or re-inserting the own shard into a gather without
    gradient, is wrong by a factor W or 1/W.

    Args:
        x: (B, ...), the same B on every process.

    Returns:
        (W·B, ...); ``x`` itself when there is one process.
    """
    return _gather_all(x) if world_size() > 1 else x


@torch.compiler.disable
def _gather_all(x: Tensor) -> Tensor:
    return _Gather.apply(x)


def share(items: Sequence[T]) -> Sequence[T]:
    """Every W-th of the items, the part of this process of W. Together the parts contain each item once."""
    return items[rank() :: world_size()]


def own_rows(count: int, device: torch.device | str | None = None) -> Tensor:
    """The places of this process's ``count`` rows among the gathered rows (`gather`): (count,) int64."""
    return torch.arange(rank() * count, (rank() + 1) * count, device=device)


def total(x: Tensor) -> Tensor:
    """Sum over the processes, without gradient; equal on every process.

    If at most one process has a number other than 0 at each place, the sum is this number, to the bit.
    """
    if world_size() > 1:
        x = x.detach().clone()
        dist.all_reduce(x)
    return x


def average(x: Tensor) -> Tensor:
    """Mean over the processes of a scalar, without gradient; equal on every process."""
    return gather(x.detach().reshape(1)).mean()


def average_each(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Mean over the processes of each scalar, without gradient, in one exchange; equal on every process.

    Args:
        values: by name; the same names in the same order on every process.
    """
    if world_size() == 1 or not values:
        return {name: value.detach() for name, value in values.items()}
    device = next(iter(values.values())).device  # a metric may be a number of the host
    together = total(torch.stack([value.detach().float().to(device) for value in values.values()])) / world_size()
    return dict(zip(values, together.unbind(), strict=True))
