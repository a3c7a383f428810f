"""What a view maker of one's own may rely on: built once, told of every step, its state trained, saved and resumed."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning import Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor, nn

from sentrep import (  # fmt: skip
    EncoderSpec,
    SentenceEncoder,
    SentRepDataModule,
    SentRepModule,
    TextBatch,
    TokenAugmentation,
    TokenBatch,
    ViewMaker,
    Views,
)
from sentrep.objectives import Contrastive
from sentrep.stability import SAM
from sentrep.types import Need
from sentrep.views import EncodedViews, TokenSwap, WordRepetition
from support import tiny_encoder


class Scaled(ViewMaker):
    """Learns a scale of the positive's dimensions, and counts its steps."""

    steps: Tensor

    def build(self, spec: EncoderSpec) -> None:
        assert not hasattr(self, "scale"), "built once"
        self.scale = nn.Parameter(torch.ones(spec.embedding_dim))
        self.register_buffer("steps", torch.zeros(()))
        self.augmented = EncodedViews([WordRepetition(), TokenSwap(0.5), Masked()])
        self.augmented.build(spec)

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

    def build(self, spec: EncoderSpec) -> None:
        super().build(spec)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, tokens: TokenBatch) -> TokenBatch:
        drawn = tokens.own(self.frame) & (torch.rand(tokens.input_ids.shape) < 0.3)
        self.seen += 1
        return TokenBatch(tokens.input_ids.masked_fill(drawn, 4), tokens.attention_mask)


def fit(folder: Path, optimizer: Any, checkpoint: Path | None = None) -> dict[str, Any]:
    """The module's state after four steps of two micro-batches; step 2 is kept as a checkpoint."""
    trainer = Trainer(
        max_steps=4,
        accumulate_grad_batches=2,
        accelerator="cpu",
        logger=False,
        callbacks=[ModelCheckpoint(folder, "{step}", every_n_train_steps=2, save_top_k=-1)],
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    module = SentRepModule(tiny_encoder(), [Contrastive()], views=Scaled(), optimizer=optimizer, seed=3)
    data = SentRepDataModule(train="toy", batch_size=4, seed=3)
    trainer.fit(module, data, ckpt_path=checkpoint, weights_only=True if checkpoint else None)
    return module.state_dict()


@pytest.mark.parametrize("sam", [False, True])
def test_its_state_is_trained_saved_and_resumed(tmp_path: Path, sam: bool) -> None:
    base = functools.partial(torch.optim.AdamW, lr=1e-3)
    optimizer = functools.partial(SAM, base_optimizer=base) if sam else base
    whole = fit(tmp_path, optimizer)
    assert whole["views.steps"] == 4, "once per optimiser step"
    assert whole["views.augmented.augmentations.2.seen"] == (16 if sam else 8)
    assert (whole["views.scale"] != 1).all()
    resumed = fit(tmp_path / "resumed", optimizer, tmp_path / "step=2.ckpt")
    assert resumed.keys() == whole.keys()
    for name, value in whole.items():
        if isinstance(value, Tensor):
            assert torch.equal(resumed[name], value), name
