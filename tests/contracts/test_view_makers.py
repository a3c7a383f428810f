"""What a view maker of one's own may rely on: built once, told of every step, its state trained, saved and resumed."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from plugins import VIEWS
from torch import Tensor, nn

from sentrep import (  # fmt: skip
    EncoderServices,
    EncoderSpec,
    SentenceEncoder,
    SentRepModule,
    TextBatch,
    TokenAugmentation,
    TokenBatch,
    ViewMaker,
    Views,
)
from sentrep.objectives import Contrastive
from sentrep.stability import SAM
from sentrep.testing import check_view
from sentrep.types import Need
from sentrep.views import EncodedViews, TokenSwap, WordRepetition
from support import assert_resumes, tiny_encoder


class Scaled(ViewMaker):
    """Learns a scale of the positive's dimensions, and counts its steps."""

    steps: Tensor

    def build(self, spec: EncoderSpec, services: EncoderServices) -> None:
        assert not hasattr(self, "scale"), "built once"
        self.scale = nn.Parameter(torch.ones(spec.embedding_dim))
        self.register_buffer("steps", torch.zeros(()))
        self.augmented = EncodedViews([WordRepetition(), TokenSwap(0.5), Masked()])
        self.augmented.build(spec, services)

    def forward(
        self, encoder: SentenceEncoder, batch: TextBatch, extra: Mapping[str, TokenBatch], need: Need = Need()
    ) -> Views:
        views = self.augmented(encoder, batch, extra, need)
        views.positive = views.positive * self.scale * (1 + 0.01 * self.steps)
        return views

    def after_step(self, views: Views) -> None:
        self.steps += 1


class Masked(TokenAugmentation):
    """A user's augmentation with a buffer."""

    def build(self, spec: EncoderSpec, services: EncoderServices) -> None:
        super().build(spec, services)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, tokens: TokenBatch) -> TokenBatch:
        drawn = tokens.own(self.frame) & (torch.rand(tokens.input_ids.shape) < 0.3)
        self.seen += 1
        return TokenBatch(tokens.input_ids.masked_fill(drawn, 4), tokens.attention_mask)


def test_its_state_is_trained_saved_and_resumed(tmp_path: Path) -> None:
    """Under SAM, which computes every view twice."""
    optimizer = functools.partial(SAM, base_optimizer=functools.partial(torch.optim.AdamW, lr=1e-3))

    def build() -> SentRepModule:
        return SentRepModule(tiny_encoder(), [Contrastive()], views=Scaled(), optimizer=optimizer, seed=3)

    whole = assert_resumes(build, tmp_path, accumulate_grad_batches=2).state_dict()
    assert whole["views.steps"] == 4, "once per optimiser step"
    assert whole["views.augmented.augmentations.2.seen"] == 16
    assert (whole["views.scale"] != 1).all()


@pytest.mark.parametrize("name", [name for name in VIEWS if name != "extra inputs only"])  # which has no views
def test_a_view_maker_keeps_its_promises(name: str) -> None:
    """`contracts/test_every_plugin.py` compares them on several processes, with draws that are equal for every row."""
    check_view(VIEWS[name], encoder=tiny_encoder(dropout=0.1), pairs="output" not in name, skip=["processes"])
