"""What training does: on two processes, with accumulated gradients, after a resume, in bfloat16."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor

from sentrep import distributed
from sentrep.doctor.gradients import gradients_of, loss_and_gradients, relative_difference
from sentrep.doctor.outcome import Outcome
from sentrep.doctor.processes import run_processes
from sentrep.doctor.subject import BATCH, Subject
from sentrep.negatives import NegativeSampler
from sentrep.types import TextBatch

_GATHER_BOUND = 1e-5
"""Largest difference, as a share of the largest gradient. The checks compute in float64, a teacher model in float32."""
_ACCUMULATION_BOUND = 1e-4
"""Largest difference in float32, as a share of the largest gradient."""
_RESUME_BOUND_ON_GPU = 1e-4
"""Absolute, in the weights: a GPU adds up in another order each time. On a CPU the bound is 0."""
_PRECISION_BOUND = 5e-2
"""‖bf16 − fp32‖ / ‖fp32‖ of the worst sentence. One rounding is 2⁻⁸ = 4e-3, and layers add theirs up."""
_MICRO_BATCHES = 2
_HALF = 3
"""Steps before the checkpoint from which a run is resumed, and after it."""


def gather(subject: Subject) -> Outcome:
    """Two processes give the loss and the gradient of one: one global batch, without dropout, gloo on the CPU.

    Objectives that draw for every row (masked words, deleted words) draw other rows' numbers on two processes; they
    are left out, and named.
    """
    name = "gather: 2 processes = 1"
    everything, random = _random_objectives(subject)
    if random == everything:
        return Outcome(name, None, "all objectives draw at random for every row", f"≤ {_GATHER_BOUND:.0e}", "")
    expected = whole_batch(subject, random)
    difference = max(relative_difference(share, expected) for share in run_processes(whole_batch, 2, subject, random))
    remedy = "an objective sees its own rows only, or scales its loss by the number of processes: use "
    outcome = Outcome.of_difference(name, difference, _GATHER_BOUND, f"{remedy}sentrep.distributed.gather")
    without = f" (without {', '.join(random)}: random for every row)" if random else ""
    return dataclasses.replace(outcome, measured=outcome.measured + without)


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
            views = module.views_of(batch)
            losses.append(module.objectives(views, batch)[1])
    names = list(losses[0])
    return names, [name for name in names if not torch.equal(losses[0][name], losses[1][name])]


def noise(subject: Subject) -> Outcome:
    """What every configured sampler draws for one global batch is the same on two processes; dropout is not."""
    name = "noise is the same on all ranks"
    remedy = "draw negatives from NegativeSampler.generator only, and give all processes the same model.seed"
    first, second = run_processes(draws, 2, subject)
    if torch.equal(first["dropout"], second["dropout"]):
        return Outcome(name, False, "dropout is the same on all ranks, too", "noise 0, dropout not", remedy)
    apart = max(_difference(one, two) for one, two in zip(first["shared"], second["shared"], strict=True))
    return Outcome.of_difference(name, apart, 0.0, remedy)


def draws(subject: Subject) -> dict[str, Any]:
    """This process's draws: those to be shared (a stream of its own and every sampler's vectors), and those not."""
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


def accumulation(subject: Subject) -> Outcome:
    """The gradient of one optimiser step, dropout included, is the mean of those of its micro-batches one by one."""
    recorder = _Recorder()
    with tempfile.TemporaryDirectory() as folder:
        trainer = subject.trainer_for(Path(folder), [recorder], max_steps=1, accumulate_grad_batches=_MICRO_BATCHES)
        trainer.fit(subject.module(), datamodule=subject.datamodule(Path(folder)))
    module = subject.module().to(subject.device)
    for number, batch in enumerate(recorder.batches[:_MICRO_BATCHES]):
        distributed.seed_step(module.seed, 0, number)
        loss, _ = module.objectives(module.views_of(batch), batch)
        (loss / _MICRO_BATCHES).backward()
    found = {name: gradient.to(module.device) for name, gradient in recorder.gradients.items()}
    return Outcome.of_difference(
        "accumulation = mean of micro-batches",
        relative_difference(found, gradients_of(module)),
        _ACCUMULATION_BOUND,
        "train with trainer.accumulate_grad_batches 1, and look for an objective or callback that keeps state",
    )


class _Recorder(Callback):
    """Notes the micro-batches and the gradient of the first optimiser step."""

    def __init__(self) -> None:
        self.batches: list[TextBatch] = []
        self.gradients: dict[str, Tensor] = {}

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self.batches.append(batch)

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Any) -> None:
        if not self.gradients:  # the first call of the closure: SAM calls it again at other weights
            self.gradients = {name: gradient.clone() for name, gradient in gradients_of(pl_module).items()}


def resume(subject: Subject) -> Outcome:
    """A few steps in one go end where the second half of them does, from the checkpoint in the middle."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole = _train(subject, folder, None)
        resumed = _train(subject, folder, str(folder / f"step={_HALF}.ckpt"))
    apart = max(float((resumed[name] - weights).abs().max()) for name, weights in whole.items())
    bound = 0.0 if subject.device == "cpu" else _RESUME_BOUND_ON_GPU
    remedy = "a plug-in keeps state outside of its state_dict (register_buffer, get_extra_state), or draws unseeded"
    return Outcome.of_difference("resumed = uninterrupted", apart, bound, remedy)


def _train(subject: Subject, folder: Path, checkpoint: str | None) -> dict[str, Tensor]:
    """Weights at the end."""
    module = subject.module()
    saving = ModelCheckpoint(folder, filename="{step}", every_n_train_steps=_HALF, save_top_k=-1)
    trainer = subject.trainer_for(folder, [saving], max_steps=2 * _HALF)
    trainer.fit(
        module, datamodule=subject.datamodule(folder), ckpt_path=checkpoint, weights_only=True if checkpoint else None
    )
    return {
        name: value.detach().cpu()
        for name, value in module.state_dict().items()
        if isinstance(value, Tensor) and value.is_floating_point() and value.numel()
    }


def precision(subject: Subject) -> Outcome:
    """bfloat16 gives nearly the vectors of float32, in evaluation mode."""
    encoder = subject.module().encoder.to(subject.device).eval()
    sentences = [row[0] for row in subject.rows()[:BATCH]]
    expected = encoder.encode(sentences, show_progress_bar=False, convert_to_tensor=True)
    with torch.autocast(encoder.device.type, torch.bfloat16):
        found = encoder.encode(sentences, show_progress_bar=False, convert_to_tensor=True)
    apart = torch.linalg.vector_norm(found - expected, dim=1)  # type: ignore[operator]
    difference = apart / torch.linalg.vector_norm(expected, dim=1).clamp_min(1e-12)
    remedy = "train and encode in fp32: this model loses too much in bfloat16 (trainer.precision 32-true)"
    return Outcome.of_difference("bf16 ≈ fp32", float(difference.max()), _PRECISION_BOUND, remedy)
