"""Objectives and weightings on two processes against one: the same loss and gradients on the same global batch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sentrep import Objective, SentRepModule
from sentrep.objectives import Alignment, Contrastive, Denoising, Distillation, Uniformity
from sentrep.weighting import ComplementaryWeighting, SelfWeighting
from support import assert_equal_to_one_process, loss_and_gradients, run_processes, text_batch, tiny_encoder
from weighting.test_complementary import ANCHORS, POSITIVES, Fixed, judged, median_off_diagonal


def every_objective(teacher: str, threshold: float) -> dict[str, tuple[Tensor, dict[str, Tensor]]]:
    noise = torch.cat([judged(teacher, paired=False)[0][:2], torch.randn(5, 32, generator=torch.manual_seed(3))])

    def weighted(weighting: ComplementaryWeighting | SelfWeighting) -> Contrastive:
        return Contrastive(negatives={"noise": Fixed(noise.tolist())}, weighting=weighting)

    objectives: dict[str, Objective] = {
        "complementary": weighted(ComplementaryWeighting(teacher, threshold)),
        "self": weighted(SelfWeighting(threshold)),
        "distillation": Distillation(teacher),
        "denoising": Denoising(layers=2, heads=2, feed_forward=48, dropout=0.0, noise=0.0),
        "denoising, causal": Denoising(layers=1, feed_forward=48, dropout=0.0, noise=0.0, target="anchor", causal=True),
        "alignment": Alignment(),
        "uniformity": Uniformity(),
    }
    results = {}
    for name, objective in objectives.items():
        encoder = tiny_encoder(dropout=0.0, pooling="mean")
        module = SentRepModule(encoder, {name: objective})
        results[name] = loss_and_gradients(module, text_batch(encoder, ANCHORS, POSITIVES))
        if "masked" in objective.metrics:
            assert 0 < objective.metrics["masked"] < 1, f"{name}: nothing is tested"
    return results


@pytest.mark.slow
def test_losses_and_gradients_equal_one_process(teacher: str) -> None:
    threshold = median_off_diagonal(*judged(teacher, paired=True))
    expected = every_objective(teacher, threshold)
    shares = run_processes(every_objective, 2, teacher, threshold)
    for name, (loss, gradients) in expected.items():
        # the teacher computes in float32, whose rounding depends on the shape of the batch
        atol = 1e-6 if name == "distillation" else 1e-10
        assert loss != pytest.approx(0.0), name
        assert_equal_to_one_process([share[name] for share in shares], loss, gradients, atol)
