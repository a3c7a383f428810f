"""What is examined: the model and a few rows of the training text of a configuration."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.cli import instantiate_module

from sentrep.data import SentRepDataModule
from sentrep.data.arguments import Reading
from sentrep.data.text.pairing import open_training_text
from sentrep.encoder.encode import pad
from sentrep.errors import InputError
from sentrep.module import SentRepModule
from sentrep.types import TextBatch, TokenBatch

Tree = dict[str, Any]

ROWS = 64
"""How many rows of the training text are looked at."""
BATCH = 8
"""Sentences in a batch of the checks."""
_COLUMNS = ("sent0", "sent1", "hard_neg")


@dataclass
class Subject:
    """Builds the configured model anew for every check; plain data, so that it travels to other processes.

    Args:
        model: arguments of `SentRepModule` as plain data, plug-ins as ``{class_path, init_args}``.
        data: arguments of `SentRepDataModule`.
        trainer: arguments of Lightning's Trainer; only what it says of devices, precision and folders is read.
        seed: of the random weights.
    """

    model: Tree
    data: Tree
    trainer: Tree = field(default_factory=dict)
    seed: int = 0
    _rows: list[tuple[str, ...]] = field(default_factory=list)

    @property
    def device(self) -> str:
        """Where the checks compute that need one device: a GPU with float64, or the CPU."""
        return "cuda" if torch.cuda.is_available() else "cpu"

    def rows(self) -> list[tuple[str, ...]]:
        """The first rows of the training text without blanks: sentence, and positive and hard negative if any.

        Raises:
            InputError: for a text that cannot be read, or is too short.
        """
        if not self._rows:
            data = instantiate_module(SentRepDataModule, copy.deepcopy(self.data))
            corpus = open_training_text(
                data.train, data.columns, data.pairs, data.reading.pair_columns, data.reading.split
            )
            self._rows = list(islice((row.sentences for row in corpus.rows() if not row.blank), ROWS))
        if len(self._rows) < 2 * BATCH:
            raise InputError(f"data.train has {len(self._rows)} rows; the checks need at least {2 * BATCH}")
        return self._rows

    def module(self, without: Iterable[str] = (), compute: Tree | None = None, **changes: Any) -> SentRepModule:
        """The configured module, new, with the same weights every time.

        Args:
            without: names of objectives to leave out.
            compute: settings of the encoder's `sentrep.encoder.Compute` to replace.
            changes: arguments of `SentRepModule` to replace.
        """
        model = _without(copy.deepcopy(self.model), set(without))
        model["seed"] = self.seed if model.get("seed") is None else model["seed"]
        if compute is not None:
            encoder = model["encoder"].get("init_args", model["encoder"])
            encoder["compute"] = {**(encoder.get("compute") or {}), **compute}
        torch.manual_seed(self.seed)
        return instantiate_module(SentRepModule, {**model, **changes})

    def batch(self, module: SentRepModule, start: int = 0) -> TextBatch:
        """`BATCH` rows of the training text."""
        rows = self.rows()[start : start + BATCH]

        def tokens(texts: tuple[str, ...]) -> TokenBatch:
            ids = module.encoder.tokenize(texts, module.encoder.max_length)[0]
            return pad(ids, module.encoder.tokenize.pad_token_id, module.device)

        anchor, positive, negative = (*map(tokens, zip(*rows, strict=True)), None, None)[:3]
        assert anchor is not None
        return TextBatch(anchor, positive, negative, torch.arange(start, start + len(rows), device=module.device))

    def datamodule(self, folder: Path) -> SentRepDataModule:
        """Those rows, the way that training reads them; ``folder`` is for the text and its tokens."""
        text = folder / "rows.jsonl"
        rows = self.rows()
        columns = _COLUMNS[: len(rows[0])]
        text.write_text("".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows), "utf-8")
        reading = Reading(cache_dir=str(folder / "cache"))
        return SentRepDataModule(str(text), list(columns), batch_size=BATCH, seed=self.seed, reading=reading)

    def trainer_for(self, folder: Path, callbacks: list[Callback], **options: Any) -> Trainer:
        """A Trainer of a few silent steps on `device`."""
        return Trainer(
            accelerator="gpu" if self.device == "cuda" else "cpu",
            devices=1,
            default_root_dir=folder,
            callbacks=callbacks,
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,
            enable_checkpointing=any(type(callback).__name__ == "ModelCheckpoint" for callback in callbacks),
            **options,
        )


def _without(model: Tree, names: set[str]) -> Tree:
    objectives = model.get("objectives")
    if isinstance(objectives, dict):
        model["objectives"] = {name: value for name, value in objectives.items() if name not in names}
    elif isinstance(objectives, list):
        model["objectives"] = [value for value in objectives if _list_name(value) not in names]
    if model.get("weights"):
        model["weights"] = {name: weight for name, weight in model["weights"].items() if name not in names}
    return model


def _list_name(objective: Any) -> str:
    """How `sentrep.objectives.WeightedSum` names an element of a list."""
    path = objective["class_path"] if isinstance(objective, dict) else objective
    return str(path).rsplit(".", 1)[-1].lower()
