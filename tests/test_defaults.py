"""The defaults of the public functions and plug-ins: recipes and users rely on them, so a change of one is meant."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch

from sentrep import InputError, functional, negatives, objectives, stability, views, weighting

ROOMS = (functional, negatives, objectives, stability, views, weighting)
PUBLIC = {name: getattr(room, name) for room in ROOMS for name in room.__all__}
DEFAULTS: dict[str, dict[str, Any]] = {
    "AdversarialWeightPerturbation": {"gamma": 0.005},
    "BatchGaussianNegatives": {
        "ratio": 1.0,
        "use_mean": True,
        "use_std": True,
        "covariance": "none",
        "weight": 1.0,
        "gradient": "none",
    },
    "BatchGaussianNoise": {"scale": 1.0},
    "BernoulliDropout": {"rate": 0.1, "rescale": True},
    "BinaryContrastive": {"temperature": 0.05},
    "BidirectionalMargin": {"alpha": 0.1, "beta": 0.3},
    "ComplementaryWeighting": {"mask_noise": True, "kind": "hard", "softness": 0.05},
    "Contrastive": {
        "temperature": 0.05,
        "label_smoothing": 0.0,
        "hard_negative_weight": 0.0,
        "in_batch": True,
        "nt_xent": False,
        "angular_margin": 0.0,
        "hard_negatives": True,
        "keep_hardest": 1.0,
    },
    "ContrastiveTension": {"negatives": 7},
    "Denoising": {
        "layers": 16,
        "heads": 1,
        "feed_forward": 2048,
        "activation": "relu",
        "dropout": 0.1,
        "noise": 0.825,
        "target": "positive",
        "causal": False,
        "token_deletion": 0.0,
    },
    "Distillation": {"temperature": 0.05, "kind": "listnet", "first_share": 0.5, "own": True},
    "EncodedViews": {"perturbs": "positive"},
    "FGSM": {"epsilon": 0.001, "temperature": 0.05, "descend": False},
    "FeatureDropout": {"rate": 0.1},
    "FeatureMask": {"rate": 0.1, "by": "magnitude"},
    "GaussianDropout": {"std": 0.001},
    "GaussianMixtureNegatives": {
        "components": 8,
        "covariance": "diag",
        "decay": 0.9,
        "variance_floor": 0.01,
        "ratio": 1.0,
        "weight": 1.0,
    },
    "GaussianNegatives": {"ratio": 3.0, "mean": 0.0, "std": 1.0, "weight": 1.0},
    "GaussianNoise": {"std": 0.001},
    "InformationReconstruction": {"layers": 2, "heads": 12, "feed_forward": 3072, "dropout": 0.1, "probability": 0.4},
    "LayerContrast": {"temperature": 0.01, "regularisation": 0.1, "projection": 4096},
    "MaskedLanguageModeling": {
        "probability": 0.15,
        "whole_word": False,
        "mask": 0.8,
        "random": 0.1,
        "both_copies": False,
    },
    "MaskedTriplet": {"less": 0.2, "more": 0.4, "margin": 0.1},
    "MemoryBank": {"weight": 1.0},
    "MixedNegatives": {"share": 0.2, "weight": 1.0},
    "MomentumContrast": {"temperature": 0.05, "size": 4096, "momentum": 0.999, "in_batch": False},
    "NoisyAnchorNegatives": {"ratio": 1.0, "weight": 1.0},
    "NegativeSampler": {"weight": 1.0},
    "NonFiniteGuard": {"action": "stop", "max_skips": 10},
    "OutputPerturbedViews": {"negatives": "copies"},
    "Perturbation": {"strength": 1.0},
    "PhraseReconstruction": {"share": 0.3, "layers": 6, "heads": 16, "dropout": 0.1, "product": 1.0, "difference": 1.0},
    "RankingConsistency": {"temperature": 0.05, "own": True},
    "RefinedNoiseNegatives": {
        "ratio": 1.0,
        "std": 1.0,
        "steps": 4,
        "step_size": 0.001,
        "temperature": 0.05,
        "denominator": "noise",
        "weight": 1.0,
    },
    "ReplacedTokenDetection": {"probability": 0.3},
    "SAM": {"rho": 0.05, "adaptive": False},
    "SelfWeighting": {"mask_noise": True, "kind": "hard", "softness": 0.05},
    "SignFlippedContrastive": {"temperature": 0.05, "scale": 1.0},
    "SpanCutoff": {"rate": 0.15},
    "TokenAugmentation": {"strength": 1.0},
    "TokenCutoff": {"rate": 0.15},
    "TokenDeletion": {"rate": 0.1},
    "TokenSwap": {"rate": 0.1},
    "UncertaintyWeighted": {"lr": 0.001},
    "VAENegatives": {
        "latent": 64,
        "hidden": 256,
        "window": 8,
        "steps": 4,
        "learning_rate": 0.001,
        "ratio": 1.0,
        "weight": 1.0,
        "train_on": "window",
        "autoencoder": "standardised",
    },
    "WordRepetition": {"rate": 0.32},
    "info_nce": {"negative_weight": 1.0, "label_smoothing": 0.0, "margin": 0.0},
    "refine_noise": {"steps": 4, "step_size": 0.001, "denominator": "noise"},
    "refuse_gradient_scaler": {"clips": False},
}


@pytest.mark.parametrize("name", PUBLIC)
def test_the_defaults_are_these(name: str) -> None:
    one = PUBLIC[name]
    parameters = inspect.signature(one.__init__ if isinstance(one, type) else one).parameters.values()
    found = {p.name: p.default for p in parameters if isinstance(p.default, (bool, int, float, str))}
    assert found == DEFAULTS.get(name, {})


def test_these_objectives_need_no_token_states() -> None:
    """The pass leaves out the last layer's tokens where no objective reads them."""
    kinds = {name: getattr(objectives, name) for name in objectives.__all__}
    assert [name for name, kind in kinds.items() if not getattr(kind, "reads_tokens", True)] == [
        "Alignment",
        "BidirectionalMargin",
        "BinaryContrastive",
        "Contrastive",
        "ContrastiveTension",
        "Distillation",
        "FlowLikelihood",
        "InformationReconstruction",
        "LayerContrast",
        "MaskedTriplet",
        "MomentumContrast",
        "RankingConsistency",
        "ReplacedTokenDetection",
        "SignFlippedContrastive",
        "Uniformity",
    ]


def test_these_objectives_are_compiled() -> None:
    kinds = {name: getattr(objectives, name) for name in objectives.__all__}
    assert [name for name, kind in kinds.items() if getattr(kind, "compiles", False)] == [
        "Alignment",
        "BidirectionalMargin",
        "BinaryContrastive",
        "Contrastive",
        "Distillation",
        "RankingConsistency",
        "SignFlippedContrastive",
        "Uniformity",
    ]


def test_these_objectives_project_what_they_add() -> None:
    kinds = {name: getattr(objectives, name) for name in objectives.__all__}
    assert [name for name, kind in kinds.items() if getattr(kind, "projects_extra", False)] == ["MaskedTriplet"]


PLUGINS = {name: one for name, one in PUBLIC.items() if isinstance(one, type) and not inspect.isabstract(one)}


REQUIRED = {
    "params": [torch.nn.Parameter(torch.zeros(1))],
    "base_optimizer": torch.optim.SGD,
    "size": 8,
    "teacher": "nowhere",
    "model": "nowhere",
    "threshold": 0.5,
    "which": "trivial",
    "objectives": {"alignment": objectives.Alignment()},
    "objective": objectives.Alignment(),
    "dims": [2],
    "perturbation": views.GaussianNoise(),
}


@pytest.mark.parametrize(
    ("name", "argument"), [(name, argument) for name in PLUGINS for argument in DEFAULTS.get(name, {})]
)
def test_every_argument_is_checked(name: str, argument: str) -> None:
    required = {p.name for p in inspect.signature(PLUGINS[name].__init__).parameters.values() if p.default is p.empty}
    given = {key: value for key, value in REQUIRED.items() if key in required}
    with pytest.raises(InputError, match=rf"\b{argument}\b"):
        PLUGINS[name](**given, **{argument: "nonsense"})


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        (name, p.name)
        for name, one in PLUGINS.items()
        for p in inspect.signature(one.__init__).parameters.values()
        if p.default is p.empty and p.name in REQUIRED.keys() - {"params", "base_optimizer"}
    ],
)
def test_every_required_argument_is_checked(name: str, argument: str) -> None:
    others = {p.name for p in inspect.signature(PLUGINS[name].__init__).parameters.values() if p.default is p.empty}
    given = {key: value for key, value in REQUIRED.items() if key in others - {argument}}
    with pytest.raises(InputError, match=rf"\b{argument}\b"):
        PLUGINS[name](**given, **{argument: object()})


BELOW_1 = 1 - 1e-9
COUNT, WIDTH = ([1, 10_000], [0, 10_001]), ([1, 10**7], [0, 10**7 + 1])
ANY_COUNT = ([1, 10**9], [0, 10**9 + 1])
SHARE, PROPER_SHARE = ([0.0, BELOW_1], [-1e-9, 1.0]), ([1e-9, BELOW_1], [0.0, 1.0])
RANGES: dict[str, dict[str, tuple[list[float], list[float]]]] = {
    "BernoulliDropout": {"rate": SHARE},
    "Contrastive": {
        "hard_negative_weight": ([-80, 80], [-81, -80.01, 80.01, 81]),
        "angular_margin": ([0, 90], [-0.01, 90.01, 91]),
        "block": ([0, 10**9], [-1, 10**9 + 1]),
        "label_smoothing": SHARE,
        "keep_hardest": ([1e-9, 1], [0, 1 + 1e-9, 2]),
    },
    "ContrastiveTension": {"negatives": ANY_COUNT},
    "Denoising": {
        "layers": COUNT,
        "heads": COUNT,
        "feed_forward": WIDTH,
        "dropout": SHARE,
        "noise": SHARE,
        "token_deletion": SHARE,
    },
    "Distillation": {"first_share": ([0, 1], [-1e-9, 1 + 1e-9, 2])},
    "FeatureDropout": {"rate": SHARE},
    "FeatureMask": {"rate": SHARE},
    "GaussianMixtureNegatives": {
        "components": ([1, 10**6], [0, 10**6 + 1]),
        "decay": ([1e-9, 1], [0, 1 + 1e-9, 2]),
        "window": ANY_COUNT,
    },
    "GaussianNegatives": {"ratio": ([1e-9, 10_000], [0, 10_000.1, 10_001]), "mean": ([-1e37, 1e37], [-2e37, 2e37])},
    "InformationReconstruction": {
        "layer": ([0, 10_000], [-1, 10_001]),
        "layers": COUNT,
        "heads": COUNT,
        "feed_forward": WIDTH,
        "dropout": SHARE,
        "probability": PROPER_SHARE,
    },
    "LayerContrast": {"projection": WIDTH},
    "MaskedLanguageModeling": {"probability": PROPER_SHARE},
    "MaskedTriplet": {"less": ([1e-9], [0.0, 1.0]), "more": ([BELOW_1], [0.0, 1.0])},
    "MemoryBank": {"size": ([1], [0, 10**9 + 1])},
    "MixedNegatives": {"share": SHARE},
    "MomentumContrast": {"momentum": SHARE},
    "NonFiniteGuard": {"max_skips": ANY_COUNT},
    "PhraseReconstruction": {
        "share": PROPER_SHARE,
        "layers": COUNT,
        "heads": COUNT,
        "feed_forward": WIDTH,
        "dropout": SHARE,
    },
    "RefinedNoiseNegatives": {"steps": ([0, 10**6], [-1, 10**6 + 1])},
    "ReplacedTokenDetection": {"probability": PROPER_SHARE},
    "SelfWeighting": {"threshold": ([-1, 1], [-1.01, 1.01, -2, 2])},
    "SpanCutoff": {"rate": SHARE},
    "TokenCutoff": {"rate": SHARE},
    "TokenDeletion": {"rate": SHARE},
    "TokenSwap": {"rate": SHARE},
    "VAENegatives": {"latent": WIDTH, "hidden": WIDTH, "window": WIDTH, "steps": WIDTH},
    "WordRepetition": {"rate": ([1e-9, 1], [0, 1 + 1e-9, 2])},
}


@pytest.mark.parametrize("name", RANGES)
def test_the_ends_of_a_range_are_allowed_and_nothing_beyond(name: str) -> None:
    required = {p.name for p in inspect.signature(PLUGINS[name].__init__).parameters.values() if p.default is p.empty}
    for argument, (allowed, refused) in RANGES[name].items():
        given = {key: value for key, value in REQUIRED.items() if key in required - {argument}}
        for value in allowed:
            PLUGINS[name](**given, **{argument: value})
        for value in refused:
            with pytest.raises(InputError, match=rf"\b{argument} must"):
                PLUGINS[name](**given, **{argument: value})
