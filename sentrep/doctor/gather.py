"""Two processes give the loss and the gradient of one."""

from __future__ import annotations

import torch
from torch import Tensor

from sentrep.doctor.gradients import loss_and_gradients, relative_difference
from sentrep.doctor.outcome import Outcome
from sentrep.doctor.processes import run_processes
from sentrep.doctor.subject import Subject

CHECK = "gather: 2 processes = 1"
BOUND = 1e-5
"""Of the largest gradient. The checks compute in float64, a teacher model in float32."""
_REMEDY = (
    "an objective sees its own rows only, or scales its loss by the number of processes: use sentrep.distributed.gather"
)


def check(subject: Subject) -> Outcome:
    """Loss and gradient of the configured objectives on one global batch, without dropout, gloo on the CPU.

    Objectives that draw for every row (masked words, deleted words) draw other rows' numbers on two processes; they
    are left out, and named.
    """
    everything, random = _random_objectives(subject)
    if random == everything:
        return Outcome(CHECK, None, "all objectives draw at random for every row", f"≤ {BOUND:.0e}", "")
    expected = whole_batch(subject, random)
    difference = max(relative_difference(share, expected) for share in run_processes(whole_batch, 2, subject, random))
    outcome = Outcome.of_difference(CHECK, difference, BOUND, _REMEDY)
    return outcome if not random else _named(outcome, random)


def whole_batch(subject: Subject, without: list[str]) -> dict[str, Tensor]:
    """Loss and gradients of one global batch, averaged over the processes."""
    module = subject.module(without).eval()
    torch.manual_seed(subject.seed)
    loss, gradients = loss_and_gradients(module, subject.batch(module))
    return {"loss": loss, **gradients}


def _random_objectives(subject: Subject) -> tuple[list[str], list[str]]:
    """Names of all objectives, and of those whose loss depends on torch's random numbers even without dropout."""
    losses = []
    module = subject.module().eval()
    batch = subject.batch(module)
    for seed in (1, 2):
        torch.manual_seed(seed)
        with torch.no_grad():
            views = module.views(module.encoder, batch, module.objectives.extra_inputs(batch))
            losses.append(module.objectives(views, batch)[1])
    names = list(losses[0])
    return names, [name for name in names if not torch.equal(losses[0][name], losses[1][name])]


def _named(outcome: Outcome, random: list[str]) -> Outcome:
    measured = f"{outcome.measured} (without {', '.join(random)}: random for every row)"
    return Outcome(outcome.check, outcome.passed, measured, outcome.bound, outcome.remedy)
