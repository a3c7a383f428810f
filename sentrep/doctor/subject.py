"""The subject of the checks: the model and a few rows of the training text of a configuration."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.cli import instantiate_module

from sentrep.data import SentRepDataModule
from sentrep.data.arguments import Reading
from sentrep.encoder.encode import pad
from sentrep.errors import InputError
from sentrep.module import SentRepModule
from sentrep.types import TextBatch, TokenBatch

Tree = dict[str, Any]

ROWS = 64
"""How many rows of the training text are looked at."""
BATCH = 8
"""Sentences in a batch of the checks."""


@dataclass
class Subject:
    """Builds the configured model anew for every check; plain data, so that it travels to other processes.

    Args:
        model: arguments of `SentRepModule` as plain data, plug-ins as ``{class_path, init_args}``.
        data: arguments of `SentRepDataModule`.
        accelerator: of Lightning's Trainer.
        seed: of the random weights.
    """

    model: Tree
    data: Tree
    accelerator: str = "auto"
    seed: int = 0

    @cached_property
    def rows(self) -> list[tuple[str, ...]]:
        """The first rows of the training text without blanks: sentence, and positive and hard negative if any.

        Raises:
            InputError: for a text that cannot be read, or is too short.
        """
        data = instantiate_module(SentRepDataModule, copy.deepcopy(self.data))
        found = list(islice((row.sentences for row in data.training_text().rows() if not row.blank), ROWS))
        if len(found) < 2 * BATCH:
            raise InputError(f"data.train has {len(found)} rows; the checks need at least {2 * BATCH}")
        return found

    def module(self) -> SentRepModule:
        """The configured module, new, with the same weights every time."""
        torch.manual_seed(self.seed)
        model = copy.deepcopy(self.model)
        return instantiate_module(SentRepModule, {**model, "seed": model.get("seed", self.seed)})

    def batch(self, module: SentRepModule) -> TextBatch:
        """The first `BATCH` rows of the training text."""

        def tokens(texts: tuple[str, ...]) -> TokenBatch:
            ids = module.encoder.tokenize(texts, module.encoder.max_length)[0]
            return pad(ids, module.encoder.tokenize.pad_token_id, module.device)

        anchor, *others = map(tokens, zip(*self.rows[:BATCH], strict=True))
        positive, negative, *_ = *others, None, None
        return TextBatch(anchor, positive, negative, torch.arange(BATCH))

    def train(
        self, folder: Path, module: SentRepModule, *callbacks: Callback, ckpt_path: str | None = None, **options: Any
    ) -> Trainer:
        """A few silent steps on those rows, on one device.

        Args:
            folder: for the tokens.
            module: that is trained.
            callbacks: of the Trainer.
            ckpt_path: to go on from.
            options: of the Trainer.
        """
        rows: Any = self.rows if len(self.rows[0]) > 1 else [sentence for (sentence,) in self.rows]
        reading = Reading(cache_dir=str(folder))
        data = SentRepDataModule(rows, batch_size=BATCH, seed=self.seed, reading=reading)
        trainer = Trainer(
            accelerator=self.accelerator,
            devices=1,
            default_root_dir=folder,
            callbacks=list(callbacks),
            logger=False,
            enable_checkpointing=bool(callbacks),
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
            **options,
        )
        trainer.fit(module, datamodule=data, ckpt_path=ckpt_path, weights_only=True if ckpt_path else None)
        return trainer
