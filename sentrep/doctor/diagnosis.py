"""The checks: machine, versions, a step in either precision, two processes against one, a resumed run."""

from __future__ import annotations

import functools
import importlib.metadata
import logging
import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from packaging.requirements import Requirement
from torch import Tensor

from sentrep.doctor.gradients import loss_and_gradients, relative_difference
from sentrep.doctor.outcome import Outcome
from sentrep.doctor.processes import run_processes
from sentrep.doctor.subject import Subject
from sentrep.encoder.compute.attention import CheapDropout
from sentrep.extras import lacking

_GATHER_BOUND = 1e-5
"""Largest difference, as a share of the largest gradient; a teacher model computes in float32, the rest in float64."""
_RESUME_BOUND_ON_GPU = 1e-4
"""Absolute, in the weights: a GPU adds up in another order each time. On a CPU the bound is 0."""
_PRECISION_BOUND = 5e-2
"""|bf16 − fp32| / |fp32| of the loss. One rounding is 2⁻⁸ = 4e-3, and layers add theirs up."""
_HALF = 3
"""Steps before the checkpoint from which a run is resumed, and after it."""


def diagnose(subject: Subject, note: Callable[[str], None] = lambda name: None) -> list[Outcome]:
    """Run every check; a check that raises an error has failed, with the error as its value.

    Args:
        subject: the model and text to check.
        note: told the name of each check before it runs.
    """
    outcomes = []
    logging.disable(logging.WARNING)  # of the short runs
    with warnings.catch_warnings(), torch.random.fork_rng():
        warnings.simplefilter("ignore")
        for check in CHECKS:
            note(name := check.__name__.replace("_", " "))
            try:
                outcomes.append(check(subject))
            except Exception as error:  # whatever breaks here would break the training
                reason = " ".join(str(error).split())[:300]
                outcomes.append(Outcome(name, False, f"{type(error).__name__}: {reason}", "runs", "fix this error"))
    logging.disable(logging.NOTSET)
    return outcomes


def machine(subject: Subject) -> Outcome:
    """What there is; a configuration that asks for more fails in its first step."""
    devices = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())] or ["no GPU"]
    processor = f"{os.cpu_count()} CPU cores ({torch.backends.cpu.get_cpu_capability()})"
    return Outcome("machine", True, f"{', '.join(devices)}; {processor}, {torch.get_num_threads()} threads", "", "")


def fast_paths(subject: Subject) -> Outcome:
    """The faster ways to compute that this model takes on this processor."""
    encoder = subject.module().encoder
    kinds = {type(module) for module in encoder.backbone.modules()}
    ways = {
        "packed batches": encoder.prepared.packs,
        "short last layer": encoder.prepared.last_layer is not None,
        "cheap dropout": CheapDropout in kinds,
        "compiled": bool(encoder.compute.compile),
    }
    return Outcome("fast paths", True, ", ".join(way for way, active in ways.items() if active) or "none", "", "")


def versions(subject: Subject) -> Outcome:
    """Every required package is there, within the bounds that sentrep declares."""
    declared = [Requirement(line) for line in importlib.metadata.requires("sentrep") or ()]
    needed = [one.name for one in declared if one.marker is None or one.marker.evaluate({"extra": ""})]
    wrong = lacking(*needed)
    measured = f"not {wrong}" if wrong else f"{len(needed)} bounds hold, torch {torch.__version__}"
    remedy = "install with the tested versions: pip install -c constraints.txt -e . (from the repository)"
    return Outcome("versions", wrong is None, measured, "as declared", remedy)


def first_step(subject: Subject) -> Outcome:
    """The loss of the first step is a number, and in bf16 nearly the same as in float32."""
    with tempfile.TemporaryDirectory() as folder:
        train = functools.partial(subject.train, Path(folder), max_steps=1)
        trainers = [train(subject.module(), precision=precision) for precision in ("32-true", "bf16-mixed")]
    expected, found = (float(trainer.callback_metrics["train/loss"]) for trainer in trainers)
    remedy = "train in fp32 (trainer.precision 32-true): this model loses too much in bfloat16, or this device lacks it"
    apart = abs(found - expected) / abs(expected)
    return Outcome.of_difference(f"loss {expected:.4f}, bf16 = fp32", apart, _PRECISION_BOUND, remedy)


def gather(subject: Subject) -> Outcome:
    """Two processes give the loss and the gradient of one: one global batch, without dropout, gloo on the CPU.

    Objectives that draw for every row (masked words, deleted words) draw other rows' numbers on two processes; they
    are left out, and named.
    """
    name = "2 processes = 1"
    module = subject.module().eval()
    batch, losses = subject.batch(module), []
    for seed in (1, 2):
        torch.manual_seed(seed)
        with torch.no_grad():
            losses.append(module.objectives(module.views_of(batch), batch)[1])
    random = [key for key in losses[0] if not torch.equal(losses[0][key], losses[1][key])]
    if len(random) == len(losses[0]):
        return Outcome(name, None, "all objectives draw at random for every row", f"≤ {_GATHER_BOUND:.0e}", "")
    expected = whole_batch(subject, random)
    apart = max(relative_difference(share, expected) for share in run_processes(whole_batch, 2, subject, random))
    remedy = "an objective sees its own rows only, or scales its loss by the number of processes: use "
    without = f", without {', '.join(random)}: random for every row" if random else ""
    return Outcome.of_difference(f"{name}{without}", apart, _GATHER_BOUND, f"{remedy}sentrep.distributed.gather")


def whole_batch(subject: Subject, without: list[str]) -> dict[str, Tensor]:
    """Loss and gradients of one global batch, averaged over the processes."""
    module = subject.module().eval()
    module.objectives.weights |= dict.fromkeys(without, 0.0)
    torch.manual_seed(subject.seed)
    loss, gradients = loss_and_gradients(module, subject.batch(module))
    return {"loss": loss, **gradients}


def resume(subject: Subject) -> Outcome:
    """A few steps in one go end where the second half of them does, from the checkpoint in the middle."""
    ends = []
    with tempfile.TemporaryDirectory() as folder:
        for checkpoint in (None, f"{folder}/step={_HALF}.ckpt"):
            module = subject.module()
            saving = ModelCheckpoint(folder, filename="{step}", every_n_train_steps=_HALF, save_top_k=-1)
            subject.train(Path(folder), module, saving, ckpt_path=checkpoint, max_steps=2 * _HALF)
            ends.append({name: weight.detach().cpu() for name, weight in module.named_parameters()})
    apart = max(float((ends[1][name] - weight).abs().max()) for name, weight in ends[0].items())
    remedy = "a plug-in keeps state outside of its state_dict (register_buffer, get_extra_state), or draws unseeded"
    bound = _RESUME_BOUND_ON_GPU if torch.cuda.is_available() else 0.0
    return Outcome.of_difference("resumed = uninterrupted", apart, bound, remedy)


CHECKS: tuple[Callable[[Subject], Outcome], ...] = (machine, versions, fast_paths, first_step, gather, resume)
"""In the order of the table."""
