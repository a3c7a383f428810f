"""The checks: machine, versions, a step in either precision, two processes against one, a resumed run."""

from __future__ import annotations

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
    """Every check's outcome; one that cannot be carried out has failed, with its reason as what was found.

    Args:
        subject: what is examined.
        note: told the name of each check before it runs.
    """
    outcomes = []
    logging.disable(logging.WARNING)  # of the short runs
    with warnings.catch_warnings(), torch.random.fork_rng():
        warnings.simplefilter("ignore")
        for name, check in CHECKS.items():
            note(name)
            try:
                outcomes.append(check(subject))
            except Exception as error:  # whatever breaks here would break the training
                reason = " ".join(str(error).split())[:300]
                outcomes.append(Outcome(name, False, f"{type(error).__name__}: {reason}", "runs", "mend what it names"))
    logging.disable(logging.NOTSET)
    return outcomes


def machine(subject: Subject) -> Outcome:
    """What there is; a configuration that asks for more fails in its first step."""
    devices = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())] or ["no GPU"]
    found = f"{', '.join(devices)}; {os.cpu_count()} CPU cores, {torch.get_num_threads()} threads"
    return Outcome("machine", True, found, "", "")


def versions(subject: Subject) -> Outcome:
    """Every required package is there, within the bounds that sentrep declares."""
    declared = [Requirement(line) for line in importlib.metadata.requires("sentrep") or ()]
    needed = [one.name for one in declared if one.marker is None or one.marker.evaluate({"extra": ""})]
    wrong = lacking(*needed)
    measured = f"not {wrong}" if wrong else f"{len(needed)} bounds hold, torch {torch.__version__}"
    remedy = "install with the tested versions: pip install -c constraints.txt -e . (from the repository)"
    return Outcome("versions", wrong is None, measured, "as declared", remedy)


def step_in_fp32(subject: Subject) -> Outcome:
    """The loss of the first step is a number."""
    loss = _first_loss(subject, "32-true")
    return Outcome("a step in fp32", True, f"loss {loss:.4f}", "finite", "")


def step_in_bf16(subject: Subject) -> Outcome:
    """The loss of the first step is nearly that of float32."""
    expected, found = (_first_loss(subject, precision) for precision in ("32-true", "bf16-mixed"))
    remedy = "train in fp32 (trainer.precision 32-true): this model loses too much in bfloat16, or this device lacks it"
    return Outcome.of_difference(
        "a step in bf16 ≈ fp32", abs(found - expected) / abs(expected), _PRECISION_BOUND, remedy
    )


def _first_loss(subject: Subject, precision: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        trainer = subject.train(Path(folder), subject.module(), max_steps=1, precision=precision)
    return float(trainer.callback_metrics["train/loss"])


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


CHECKS: dict[str, Callable[[Subject], Outcome]] = {
    "machine": machine,
    "versions": versions,
    "fp32": step_in_fp32,
    "bf16": step_in_bf16,
    "gather": gather,
    "resume": resume,
}
"""Name: the check, in the order of the table."""
