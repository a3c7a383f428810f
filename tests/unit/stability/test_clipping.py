"""Clipping: the right norm, whatever the optimiser, the precision, the accumulation and the number of processes."""

from __future__ import annotations

import functools
import os
from typing import Any

import lightning
import pytest
import torch
from torch import Tensor

from sentrep import SentRepModule, distributed
from sentrep.objectives import Contrastive
from sentrep.stability import SAM, AdversarialWeightPerturbation, clip_gradients
from sentrep.types import TextBatch
from support import loader, own_share, quiet_trainer, run_processes, text_batch, tiny_encoder, toy_sentences

SENTENCES = toy_sentences(48)
SGD = functools.partial(torch.optim.SGD, lr=0.5)
LIMITS = [("norm", 0.3), ("value", 0.002)]


class Gradients(lightning.Callback):
    """Keeps the gradients as the optimiser gets them, at every step."""

    def __init__(self) -> None:
        self.steps: list[Tensor] = []

    def on_before_zero_grad(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        found = [p.grad.flatten() for p in pl_module.parameters() if p.grad is not None]
        if found:
            self.steps.append(torch.cat(found).clone())


def batches(encoder: Any) -> list[TextBatch]:
    """Six of 4 rows, this process's share of each."""
    starts = range(0, 48, 8)
    return [own_share(text_batch(encoder, SENTENCES[k : k + 4], SENTENCES[k + 4 : k + 8])) for k in starts]


def fit(optimizer: Any, **options: Any) -> tuple[list[Tensor], list[Tensor]]:
    """Weights at the end, and the gradient of every step."""
    world = distributed.world_size()
    encoder = tiny_encoder(pooling="mean", dropout=0.0)
    module = SentRepModule(encoder, [Contrastive()], optimizer=optimizer, scheduler="constant", seed=1)
    kept = Gradients()
    strategy = {"strategy": "ddp", "devices": world} if world > 1 else {}
    quiet_trainer(callbacks=[kept], **strategy, **options).fit(module, loader(batches(encoder)))
    return [p.detach().clone() for p in module.parameters()], kept.steps


@pytest.mark.parametrize(("algorithm", "limit"), LIMITS)
def test_a_fused_optimiser_is_clipped_like_any_other(algorithm: str, limit: float) -> None:
    """In mixed precision, where Lightning refuses to."""
    options = {"precision": "bf16-mixed", "gradient_clip_val": limit, "gradient_clip_algorithm": algorithm}
    plain, gradients = fit(SGD, **options)
    fused, _ = fit(functools.partial(SGD, fused=True), **options)
    torch.testing.assert_close(plain, fused, rtol=0, atol=2e-6)
    sizes = [float(step.norm() if algorithm == "norm" else step.abs().max()) for step in gradients]
    assert max(sizes) == pytest.approx(limit, rel=1e-4), "it acts, and to the limit"
    free, _ = fit(SGD, precision="bf16-mixed")
    assert any(not torch.equal(one, other) for one, other in zip(plain, free, strict=True))


def test_the_gradient_that_awp_steps_with_is_clipped() -> None:
    """The gradient at w + ε is clipped, as in the HF Trainer. ε is not, and the base optimiser may be fused.

    `test_training` has SAM, accumulation included.
    """
    base = functools.partial(torch.optim.SGD, lr=0.0, fused=True)
    still = functools.partial(AdversarialWeightPerturbation, base_optimizer=base, gamma=0.1)
    _, free = fit(still, precision="bf16-mixed")
    _, clipped = fit(still, precision="bf16-mixed", gradient_clip_val=0.3)
    assert max(float(step.norm()) for step in free) > 0.31, "it acts"
    for whole, part in zip(free, clipped, strict=True):
        torch.testing.assert_close(part, whole * min(1.0, 0.3 / float(whole.norm())), rtol=1e-3, atol=1e-5)


def on_processes() -> list[list[Tensor]]:
    """Weights after SAM with a clipped norm, and after SGD with clipped values."""
    if distributed.world_size() > 1:
        os.environ["LOCAL_RANK"] = str(distributed.rank())
    sam = functools.partial(SAM, base_optimizer=SGD)
    ways = zip((sam, SGD), LIMITS, strict=True)
    return [fit(way, gradient_clip_val=limit, gradient_clip_algorithm=kind)[0] for way, (kind, limit) in ways]


def test_two_processes_clip_the_global_gradient() -> None:
    expected = on_processes()
    for found in run_processes(on_processes, 2):
        torch.testing.assert_close(found, expected, rtol=0, atol=2e-5)


def test_no_gradient_is_no_error() -> None:
    clip_gradients(torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1), 1.0, "norm")
