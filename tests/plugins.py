"""One of each plug-in and of its ways, for the tests that all of them have to pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from samplers import KINDS

from sentrep import Objective, negatives
from sentrep.encoder import ConvolutionalPooling, Flow, SentenceModule
from sentrep.negatives import GaussianNegatives, HardestNegatives
from sentrep.objectives import (
    Alignment,
    ArcCon,
    BidirectionalMargin,
    BinaryContrastive,
    Contrastive,
    ContrastiveTension,
    Denoising,
    Distillation,
    FlowLikelihood,
    InformationReconstruction,
    LayerContrast,
    LocalGlobalInformation,
    MaskedLanguageModeling,
    MaskedTriplet,
    Matryoshka,
    MomentumContrast,
    NTXent,
    PhraseReconstruction,
    RankingConsistency,
    ReplacedTokenDetection,
    SignFlippedContrastive,
    UncertaintyWeighted,
    Uniformity,
)
from sentrep.views import (
    FGSM,
    BatchGaussianNoise,
    BernoulliDropout,
    EncodedViews,
    ExtraInputsOnly,
    FeatureDropout,
    FeatureMask,
    GaussianDropout,
    GaussianNoise,
    OutputPerturbedViews,
    SpanCutoff,
    TokenCutoff,
    TokenDeletion,
    TokenShuffling,
    TokenSwap,
    ViewMaker,
    WordRepetition,
)
from sentrep.weighting import ComplementaryWeighting, OnlyExtraNegatives, SelfWeighting

SMALL: dict[str, Any] = {"layers": 2, "heads": 2, "feed_forward": 48}


def objectives(teacher: str) -> dict[str, Callable[[], Objective]]:
    """One of each kind, every sampler and weighting included."""

    def sampled(kind: str) -> Callable[[], Objective]:
        name, arguments = KINDS[kind]
        return lambda: Contrastive(negatives={"extra": getattr(negatives, name)(**arguments)})

    return {
        "contrastive": Contrastive,
        **{f"contrastive, {kind}": sampled(kind) for kind in KINDS},
        "contrastive, hardest": lambda: Contrastive(negatives={"extra": HardestNegatives(GaussianNegatives(4.0))}),
        "hard negatives, in blocks": lambda: Contrastive(hard_negative_weight=0.5, label_smoothing=0.1, block=5),
        "nt-xent": NTXent,
        "nt-xent, noise": lambda: NTXent(negatives={"extra": GaussianNegatives()}),
        "no batch": lambda: Contrastive(negatives={"extra": GaussianNegatives()}, weighting=OnlyExtraNegatives()),
        "binary": lambda: BinaryContrastive(
            negatives={"extra": negatives.RefinedNoiseNegatives()},
            weighting=ComplementaryWeighting(teacher, 0.5, mask_noise=False),
        ),
        "sign-flipped": SignFlippedContrastive,
        "complementary": lambda: Contrastive(weighting=ComplementaryWeighting(teacher, 0.5)),
        "self-weighting": lambda: Contrastive(weighting=SelfWeighting(0.5)),
        "distillation": lambda: Distillation(teacher),
        "contrastive tension": ContrastiveTension,
        "momentum contrast": lambda: MomentumContrast(size=9, in_batch=True),
        "alignment": Alignment,
        "bidirectional margin": BidirectionalMargin,
        "uniformity": Uniformity,
        "denoising": lambda: Denoising(**SMALL, dropout=0.0),
        "tsdae": lambda: Denoising(**SMALL, dropout=0.0, target="anchor", causal=True, token_deletion=0.6),
        "phrases": lambda: PhraseReconstruction(layers=2, heads=2, dropout=0.0),
        "distillation, two teachers": lambda: Distillation(teacher, kind="listmle", second_model=teacher, own=False),
        "ranking consistency": lambda: RankingConsistency(own=False),
        "angular margin": ArcCon,
        "triplet": MaskedTriplet,
        "replaced tokens": ReplacedTokenDetection,
        "matryoshka": lambda: Matryoshka(Contrastive(negatives={"extra": GaussianNegatives()}), [32, 8]),
        "uncertainty": lambda: UncertaintyWeighted({"contrastive": Contrastive(), "alignment": Alignment()}),
        "layers": lambda: LayerContrast(0.1, projection=16),
        "information": lambda: InformationReconstruction(**SMALL, layer=1, dropout=0.0),
        "flow": FlowLikelihood,
        "local and global": LocalGlobalInformation,
        "mlm": MaskedLanguageModeling,
        "mlm, both copies": lambda: MaskedLanguageModeling(both_copies=True),
    }


VIEWS: dict[str, Callable[[], ViewMaker]] = {
    "encoded": EncodedViews,
    "extra inputs only": ExtraInputsOnly,
    "shuffled": lambda: EncodedViews([TokenShuffling()]),
    "noise on both": lambda: EncodedViews([GaussianNoise(), FeatureDropout()], perturbs="both"),
    "fgsm": lambda: EncodedViews([FGSM()]),
    "lists": lambda: EncodedViews([FGSM(), TokenDeletion()], "both", [TokenSwap(), GaussianNoise(), FGSM()]),
    "words repeated": lambda: EncodedViews([WordRepetition()]),
    "output noise": lambda: OutputPerturbedViews(GaussianNoise()),
    "output noise, second view": lambda: OutputPerturbedViews(GaussianNoise(), "second_view"),
    "output fgsm": lambda: OutputPerturbedViews(FGSM()),
    "cutoffs": lambda: EncodedViews([TokenCutoff(), SpanCutoff()]),
    "dropouts": lambda: EncodedViews([BernoulliDropout(), GaussianDropout()]),
    "output mask": lambda: OutputPerturbedViews(FeatureMask("trivial")),
    "output batch noise": lambda: OutputPerturbedViews(BatchGaussianNoise()),
}


def behind(name: str) -> list[SentenceModule]:
    """Modules that an objective is made for."""
    return {"flow": [Flow(steps=2)], "local and global": [ConvolutionalPooling()]}.get(name, [])  # type: ignore
