"""Several processes as one: gather with gradient, shared noise, per-rank dropout."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from sentrep.errors import InputError

T = TypeVar("T")

_STEP_SEED: ContextVar[int | None] = ContextVar("step seed", default=None)
"""What this process's training step is seeded with; None outside one."""

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


def derive_seed(*parts: int | str) -> int:
    """A 63-bit seed from any numbers and words; different parts give unrelated seeds.

    Examples:
        >>> derive_seed(42, "noise", 7) == derive_seed(42, "noise", 7) != derive_seed(42, "noise", 8)
        True
    """
    digest = hashlib.blake2b("/".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def global_seed() -> int:
    """Where lightning's ``seed_everything`` leaves it for all processes: the variable ``PL_GLOBAL_SEED``, or 0.

    Raises:
        InputError: for anything but a whole number.
    """
    found = os.environ.get("PL_GLOBAL_SEED", "0")
    if not found.isdecimal() or int(found) >= 2**63:
        raise InputError(f"the variable PL_GLOBAL_SEED is {found[:40]!r}, no whole number from 0 to 2⁶³ − 1; unset it")
    return int(found)


def step_generator(seed: int, stream: str, step: int, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator for one step's noise: the same on every rank and after a resume, independent of other streams.

    Args:
        seed: the run's noise seed (`EncoderSpec.seed`).
        stream: the name of the drawing object, for example the sampler's.
        step: number of the optimiser step.
        device: of the generator.
    """
    return torch.Generator(device).manual_seed(derive_seed(seed, stream, step))


@contextmanager
def own_draws(*parts: int | str, device: torch.device | str = "cpu") -> Iterator[None]:
    """Draw from an own seed (`derive_seed` of ``parts``), without changing torch's random state.

    Initial weights thus depend only on the run's seed, and no later draw depends on them.
    The same holds for dropout in an evaluation.

    Args:
        parts: the values that the draws depend on.
        device: also draw from this seed on this device, besides the CPU.

    Examples:
        >>> torch.manual_seed(0) and None
        >>> with own_draws(42, "decoder"):
        ...     weights = torch.randn(2)
        >>> undisturbed = torch.randn(2)
        >>> torch.equal(undisturbed, torch.manual_seed(0) and torch.randn(2))
        True
    """
    with forked_draws(device, derive_seed(*parts)):
        yield


@contextmanager
def forked_draws(device: torch.device | str, seed: int | None = None) -> Iterator[None]:
    """Draw from a seed, or from torch's current state, on the CPU and a device, without changing torch's state.

    Args:
        device: draw on this device too.
        seed: None for torch's current state.
    """
    place = torch.device(device)
    with torch.random.fork_rng([] if place.type == "cpu" else [place], device_type=place.type):
        if seed is not None:
            _seed(seed, place)
        yield


def _seed(seed: int, device: torch.device) -> None:
    """Seed the CPU and one device. `torch.manual_seed` also seeds all other kinds of device, which takes 1 to 3 ms."""
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(seed)


@contextmanager
def step_draws(seed: int, epoch: int, batch: int, device: torch.device) -> Iterator[None]:
    """Reseed torch for one training batch, differently on every rank: dropout does not depend on earlier draws.

    A resumed run thus draws the same masks as the uninterrupted run. Within the
    block `plugin_draws` gives each plug-in its own stream.
    """
    step = derive_seed(seed, "step", epoch, batch, rank())
    _seed(step, device)
    token = _STEP_SEED.set(step)
    try:
        yield
    finally:
        _STEP_SEED.reset(token)


@contextmanager
def plugin_draws(*stream: str, device: torch.device | str) -> Iterator[None]:
    """Draw in a plug-in's own stream of the step, so that the encoder's dropout is the same with and without it.

    The stream depends only on the run's seed, the batch, the rank and the name. Outside `step_draws` (for example in
    your own loop), and in a step that is compiled as one graph, draws come from torch's global generator.

    Args:
        stream: the plug-in's name.
        device: where its tensors are.
    """
    step = None if torch.compiler.is_compiling() else _STEP_SEED.get()  # no graph can hold it
    with nullcontext() if step is None else own_draws(step, *stream, device=device):
        yield


@contextmanager
def rehearsed_draws(device: torch.device | str) -> Iterator[None]:
    """Give a preceding pass (`sentrep.views.FGSM`) the random draws of the step's own pass of the encoder.

    Args:
        device: of the encoder.
    """
    with forked_draws(device, _STEP_SEED.get()):
        yield
