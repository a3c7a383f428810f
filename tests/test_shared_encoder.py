"""An encoder and an objective's class that several users share: each trains as it would alone."""

from __future__ import annotations

import torch
from torch import Tensor

from sentrep import Objective, SentRepModule
from sentrep.objectives import Contrastive, Denoising, InformationReconstruction
from support import text_batch, tiny_encoder, toy_sentences


def terms(name: str) -> dict[str, Objective | None]:
    """Objectives that read vectors, tokens' states and a layer."""
    return {
        "vectors": {"simcse": Contrastive()},
        "tokens": {"denoising": Denoising(layers=1, heads=2, noise=0.0)},
        "layer": {"reconstruction": InformationReconstruction(heads=2), "simcse": Contrastive(temperature=0.1)},
    }[name]  # type: ignore[return-value]


def step(module: SentRepModule) -> tuple[Tensor, list[Tensor | None]]:
    """Loss of one training step with dropout, and the gradients of what is trained."""
    module.zero_grad()
    loss = module.training_step(text_batch(module.encoder, toy_sentences(9)), 0)
    loss.backward()
    return loss.detach(), [parameter.grad for parameter in module.parameters()]


def alone(name: str) -> tuple[Tensor, list[Tensor | None]]:
    return step(SentRepModule(tiny_encoder(dropout=0.1), terms(name), seed=1))


def test_two_modules_train_one_encoder_as_each_would_alone() -> None:
    encoder = tiny_encoder(dropout=0.1)
    modules = {name: SentRepModule(encoder, terms(name), seed=1) for name in ("layer", "tokens", "vectors")}
    for name in ("vectors", "tokens", "layer", "vectors"):
        torch.testing.assert_close(step(modules[name]), alone(name), rtol=0, atol=0)
