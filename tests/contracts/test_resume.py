"""A resumed run equals the uninterrupted one bit for bit, with plug-ins of every kind at once."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
import torch

from sentrep import SentRepModule, negatives
from sentrep.objectives import Alignment, Contrastive, Distillation, MaskedLanguageModeling
from sentrep.stability import SAM
from sentrep.views import FGSM, EncodedViews, GaussianNoise, TokenShuffling
from sentrep.weighting import ComplementaryWeighting
from support import assert_resumes, tiny_encoder


def _all_plugins(teacher: str) -> SentRepModule:
    """Weighting, distillation, augmentations and a wrapped optimiser at once, on refined noise and a bank."""
    contrastive = Contrastive(
        negatives={"noise": negatives.RefinedNoiseNegatives(), "bank": negatives.MemoryBank(16)},
        weighting=ComplementaryWeighting(teacher, threshold=0.5),
    )
    return SentRepModule(
        tiny_encoder(),
        {
            "contrastive": contrastive,
            "distillation": Distillation(teacher),
            "alignment": Alignment(),
            "mlm": MaskedLanguageModeling(whole_word=True),
        },
        views=EncodedViews([GaussianNoise(0.01), TokenShuffling(), FGSM()], perturbs="both"),
        optimizer=functools.partial(SAM, base_optimizer=functools.partial(torch.optim.AdamW, lr=1e-3)),
        seed=3,
    )


@pytest.mark.filterwarnings("ignore:MemoryBank")
def test_resumed_equals_uninterrupted(teacher: str, tmp_path: Path) -> None:
    state = assert_resumes(functools.partial(_all_plugins, teacher), tmp_path).state_dict()
    assert any("negatives" in name and name.endswith("_extra_state") for name in state), "the samplers' too"
