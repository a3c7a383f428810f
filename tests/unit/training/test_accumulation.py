"""Gradient accumulation: an epoch's last optimiser step, which may have fewer micro-batches than the others."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor

from sentrep import SentRepDataModule, SentRepModule, distributed
from sentrep.objectives import Contrastive
from support import assert_same, quiet_trainer, run_processes, tiny_encoder, toy_sentences

LINES = toy_sentences(40)[:20]


def fit(train: Any, batch_size: int, *callbacks: Any, resume: str | None = None, **trainer: Any) -> SentRepModule:
    """Train in float64, where sums of gradients are compared up to rounding, by steps that change next to nothing."""
    world = distributed.world_size()
    streaming = trainer.pop("streaming", False)
    optimizer = functools.partial(torch.optim.SGD, lr=trainer.pop("lr", 1e-15))
    encoder = tiny_encoder(dropout=trainer.pop("dropout", 0.0)).double()
    module = SentRepModule(encoder, [Contrastive()], optimizer=optimizer, scheduler="constant", seed=1)
    data = SentRepDataModule(train, batch_size=batch_size // world, seed=2, streaming=streaming, shuffle_buffer=1)
    many = {"devices": world, "strategy": "ddp"} if world > 1 else {}
    quiet_trainer(callbacks=list(callbacks), **many, **trainer).fit(module, data, ckpt_path=resume)
    return module


class Gradients(lightning.Callback):
    """The whole gradient of each optimiser step."""

    def __init__(self) -> None:
        self.seen: list[Tensor] = []

    def on_before_optimizer_step(self, trainer: Any, module: Any, optimizer: Any) -> None:
        self.seen.append(torch.cat([p.grad.flatten() for p in module.parameters() if p.grad is not None]))


def gradients(train: Any, accumulate: int, batch_size: int = 4, **trainer: Any) -> list[Tensor]:
    """Of each optimiser step in an epoch, or until ``max_steps``."""
    os.environ["LOCAL_RANK"] = str(distributed.rank())
    found = Gradients()
    fit(train, batch_size, found, accumulate_grad_batches=accumulate, **trainer)
    return found.seen


def assert_means(found: list[Tensor], single: list[Tensor], accumulate: int) -> None:
    """Every gradient must be the mean over the micro-batches of its step."""
    windows = [single[k : k + accumulate] for k in range(0, len(single), accumulate)]
    assert len(found) == len(windows)
    for gradient, window in zip(found, windows, strict=True):
        torch.testing.assert_close(gradient, torch.stack(window).mean(0), rtol=0, atol=1e-10)


@pytest.mark.parametrize("accumulate", [2, 3, 4, 8])
def test_a_shorter_last_step_has_the_mean_gradient_of_its_micro_batches(accumulate: int) -> None:
    assert_means(gradients(LINES, accumulate), gradients(LINES, 1), accumulate)


def test_a_text_of_unknown_length_and_a_limit_end_a_step_as_well(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("\n".join(LINES) + "\n")
    text = {"train": str(tmp_path / "lines.txt"), "streaming": True, "max_epochs": 2}
    single = gradients(**text, accumulate=1, max_steps=10)  # type: ignore[arg-type]
    found = gradients(**text, accumulate=3, max_steps=4)  # type: ignore[arg-type]
    assert_means(found[:2], single[:5], 3)
    assert_means(found[2:], single[5:], 3)
    assert_means(gradients(LINES, 3, limit_train_batches=4), gradients(LINES, 1, limit_train_batches=4), 3)


def test_a_step_that_max_steps_ends_training_with_is_a_whole_one() -> None:
    assert_means(gradients(LINES, 2, max_steps=2), gradients(LINES, 1, max_steps=4), 2)


def test_two_processes_have_the_gradient_of_one() -> None:
    pairs = [(line, f"{line} indeed") for line in LINES]
    single = gradients(pairs, 1)
    for found in run_processes(gradients, 2, pairs, 2):
        assert_means(found, single, 2)


def test_a_run_that_resumes_before_a_shorter_step_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    options = {"accumulate_grad_batches": 3, "lr": 0.1, "dropout": 0.1}
    saver = ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=1, save_top_k=-1)
    whole = fit(LINES, 4, saver, max_epochs=2, **options)
    resumed = fit(LINES, 4, max_epochs=2, resume=str(tmp_path / "step=3.ckpt"), **options)
    assert_same(resumed.state_dict(), whole.state_dict())
