"""The streams of random numbers: shared noise by seed, name and step; dropout by rank."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar

import torch

from sentrep.distributed import rank
from sentrep.errors import InputError

_STEP_SEED: ContextVar[int | None] = ContextVar("step seed", default=None)
"""What this process's training step is seeded with; None outside one."""


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
