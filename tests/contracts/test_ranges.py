"""Settings of plug-ins whose violation would train something else in silence: ends of ranges, and combinations."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from sentrep import InputError, negatives, objectives, stability, views, weighting
from sentrep.negatives import BatchGaussianNegatives, VAENegatives
from sentrep.objectives import Alignment, BidirectionalMargin, MaskedLanguageModeling, MaskedTriplet, Matryoshka
from sentrep.views import EncodedViews, FeatureMask, OutputPerturbedViews, TokenShuffling

PLUGINS = {
    name: getattr(room, name) for room in (negatives, objectives, stability, views, weighting) for name in room.__all__
}
REQUIRED = {
    "params": [torch.nn.Parameter(torch.zeros(1))],
    "base_optimizer": torch.optim.SGD,
    "size": 8,
    "teacher": "nowhere",
    "model": "nowhere",
    "threshold": 0.5,
    "which": "trivial",
    "sampler": negatives.GaussianNegatives(),
    "objectives": {"alignment": objectives.Alignment()},
}
BELOW_1 = 1 - 1e-9
RANGES: list[tuple[list[float], list[float], str]] = [
    (
        [1e-9, 1e37],
        [0.0, -0.05, math.inf],
        """Contrastive.temperature Distillation.temperature Distillation.teacher_temperature FGSM.temperature
        LayerContrast.temperature MomentumContrast.temperature RankingConsistency.temperature
        RefinedNoiseNegatives.temperature RefinedNoiseNegatives.std RefinedNoiseNegatives.step_size
        SignFlippedContrastive.temperature GaussianNegatives.std GaussianMixtureNegatives.variance_floor
        VAENegatives.learning_rate AdversarialWeightPerturbation.gamma SAM.rho
        UncertaintyWeighted.lr""",
    ),
    (
        [0.0, 1e37],
        [-1e-9, -1.0, math.inf],
        """LayerContrast.regularisation MaskedTriplet.margin PhraseReconstruction.product SignFlippedContrastive.scale
        PhraseReconstruction.difference MemoryBank.weight FGSM.epsilon GaussianNoise.std GaussianDropout.std
        BatchGaussianNoise.scale""",
    ),
    (
        [0.0, BELOW_1],
        [-1e-9, 1.0],
        """BernoulliDropout.rate Contrastive.label_smoothing Denoising.dropout Denoising.noise Denoising.token_deletion
        FeatureDropout.rate FeatureMask.rate InformationReconstruction.dropout MixedNegatives.share
        MomentumContrast.momentum PhraseReconstruction.dropout SpanCutoff.rate TokenCutoff.rate TokenDeletion.rate
        TokenSwap.rate""",
    ),
    (
        [1e-9, BELOW_1],
        [0.0, 1.0],
        """InformationReconstruction.probability MaskedLanguageModeling.probability PhraseReconstruction.share
        ReplacedTokenDetection.probability""",
    ),
    (
        [1e-9, 1.0],
        [0.0, 1 + 1e-9],
        "HardestNegatives.share GaussianMixtureNegatives.decay WordRepetition.rate",
    ),
    ([0.0], [-1e-9], "BidirectionalMargin.alpha"),
    ([1e37], [-1e-9, math.inf], "BidirectionalMargin.beta"),
    ([1e-9], [0.0, 1.0], "MaskedTriplet.less"),
    ([BELOW_1], [0.0, 1.0], "MaskedTriplet.more"),
    ([0, 1], [-1e-9, 1 + 1e-9], "Distillation.first_share"),
    ([-1, 1], [-1.01, 1.01], "SelfWeighting.threshold ComplementaryWeighting.threshold"),
    ([0, 90], [-0.01, 90.01], "ArcCon.margin"),
    ([-80, 80], [-80.01, 80.01], "Contrastive.hard_negative_weight"),
    ([-1e37, 1e37], [-2e37, math.nan], "GaussianNegatives.mean"),
    ([1e-9, 10_000], [0, 10_000.1], "GaussianNegatives.ratio NoisyAnchorNegatives.ratio"),
    (
        [1],
        [0],
        """ContrastiveTension.negatives Denoising.layers Denoising.heads GaussianMixtureNegatives.window
        InformationReconstruction.layers MemoryBank.size NonFiniteGuard.max_skips PhraseReconstruction.layers
        PhraseReconstruction.heads VAENegatives.window VAENegatives.steps""",
    ),
    ([0], [-1], "InformationReconstruction.layer RefinedNoiseNegatives.steps"),
]
CASES = [(name, allowed, refused) for allowed, refused, names in RANGES for name in names.split()]


@pytest.mark.parametrize(("name", "allowed", "refused"), CASES, ids=[name for name, _, _ in CASES])
def test_the_ends_of_a_range_are_allowed_and_nothing_beyond(
    name: str, allowed: list[float], refused: list[float]
) -> None:
    plugin, argument = name.split(".")
    kind: Any = PLUGINS[plugin]
    parameters = inspect.signature(kind.__init__).parameters.values()
    required = {p.name for p in parameters if p.default is p.empty} - {argument}
    given = {key: value for key, value in REQUIRED.items() if key in required}
    for value in allowed:
        kind(**given, **{argument: value})
    for value in refused:
        with pytest.raises(InputError, match=rf"\b{argument}\b"):
            kind(**given, **{argument: value})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BatchGaussianNegatives(covariance="full", use_std=False), "leave use_std true"),
        (lambda: BatchGaussianNegatives(gradient="covariance"), "needs covariance 'multiplied' or 'full'"),
        (lambda: VAENegatives(initial_weights="vae.pt"), "initial_weights are of the released autoencoder"),
        (lambda: MaskedLanguageModeling(mask=0.95), "with a sum ≤ 1"),
        (lambda: MaskedLanguageModeling(random=-0.1), "with a sum ≤ 1"),
        (lambda: MaskedTriplet(less=0.4, more=0.2), "more must be above less"),
        (lambda: BidirectionalMargin(alpha=0.4, beta=0.3), "alpha must not exceed beta"),
        (lambda: Matryoshka(Alignment(), dims=[8, 8]), "dims must be widths that differ"),
        (lambda: Matryoshka(Alignment(), dims=[8, 4], weights=[1.0]), "one number for each of the 2 dims"),
        (lambda: EncodedViews([FeatureMask("trivial")]), "use it in OutputPerturbedViews"),
        (lambda: OutputPerturbedViews(TokenShuffling()), r"use it in EncodedViews\.augmentations"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()
