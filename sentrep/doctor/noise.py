"""Negatives that are drawn are the same on all ranks; dropout is not."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sentrep import distributed
from sentrep.doctor.outcome import Outcome
from sentrep.doctor.processes import run_processes
from sentrep.doctor.subject import Subject
from sentrep.negatives import NegativeSampler

CHECK = "noise is the same on all ranks"
_REMEDY = "draw negatives from NegativeSampler.generator only, and give all processes the same model.seed"


def check(subject: Subject) -> Outcome:
    """What every configured sampler draws for one global batch on two processes, and what dropout draws."""
    first, second = run_processes(draws, 2, subject)
    apart = max([_difference(one, two) for one, two in zip(first["shared"], second["shared"], strict=True)])
    if torch.equal(first["dropout"], second["dropout"]):
        return Outcome(CHECK, False, "dropout is the same on all ranks, too", "noise 0, dropout not", _REMEDY)
    return Outcome.of_difference(CHECK, apart, 0.0, _REMEDY)


def draws(subject: Subject) -> dict[str, Any]:
    """Of this process: what must be shared (a stream of its own and every sampler's vectors), and what must not."""
    module = subject.module().eval()
    shared: list[Tensor] = [torch.randn(8, generator=distributed.step_generator(module.seed, "doctor", 0))]
    width = module.encoder.spec(module.seed).embedding_dim
    anchors, keys = torch.randn(2, 16, width, generator=torch.manual_seed(0))
    for sampler in module.modules():
        if isinstance(sampler, NegativeSampler):
            for _ in range(2):
                shared.append(sampler.sample(anchors, keys))
                sampler.update(anchors)
    distributed.seed_step(module.seed, 0, 0)
    return {"shared": shared, "dropout": torch.rand(8)}


def _difference(one: Tensor, two: Tensor) -> float:
    if one.shape != two.shape:
        return float("inf")
    return float((one - two).abs().max()) if one.numel() else 0.0
