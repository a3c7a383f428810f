"""`SentRepDataModule`: training text, evaluation sets and sentences to encode, for a Trainer or without one."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import torch
from lightning.pytorch import LightningDataModule, Trainer
from lightning.pytorch.trainer.states import TrainerFn
from torch import nn

from sentrep import distributed
from sentrep.data.batches.collate import Collate
from sentrep.data.batches.loaders import OneBatchLoader, ResumableLoader, SentenceLoader
from sentrep.data.batches.sampler import GlobalBatchSampler
from sentrep.data.batches.streaming import StreamedBatches
from sentrep.data.pairing import joined
from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.data.sets.sts import PairsFile, load_all_sts
from sentrep.data.text import Text, TrainingText, load, open_text
from sentrep.data.tokens import RowTokenizer, TokenizedText, tokenize_text
from sentrep.errors import InputError
from sentrep.random import global_seed

logger = logging.getLogger("sentrep")


class SentRepDataModule(LightningDataModule):
    """The data of a run.

    With a Trainer, the tokenizer and the training length come from the module's ``encoder``, or from the ``encoder`` of
    its only part with one. Without a Trainer, or if several parts have encoders, call ``datamodule.connect(encoder)``;
    without a Trainer then call ``setup("fit")`` and ``train_dataloader()``. A training reads the attributes and the
    files as they are at its start.

    Args:
        train: the training text, see `sentrep.data.load`: a file (txt, csv, tsv, jsonl, parquet, compressed or not), a
            glob, an address, a folder written by ``save_to_disk``, the id of a data set on the Hub, a list of files,
            or ``toy``, the embedded corpus. In Python also a list of texts, pairs or triples, a ``datasets.Dataset``
            or a pandas ``DataFrame``.
        columns: the columns of the training text: one (sentences), two (sentence, positive) or three (with hard
            negative); numbers from 0 for a csv or tsv file without a header; None picks the usual names.
        val: evaluation sets during training: names such as ``stsb-dev`` (see `sentrep.data.SET_NAMES`), files, or
            `PairsFile` objects for files with other column names.
        test: evaluation sets for ``test``, likewise.
        sts_folder: folder of the SentEval data, which contains ``STS`` and ``SICK``; None: named sets are from the Hub.
        predict: the sentences for ``predict``, like ``train``; the first column is encoded, blank rows too.
        batch_size: sentences in a batch of one process.
        seed: of the order of the training text; None means the global seed of ``seed_everything``, or 0.
        split: the split, where ``train``, ``pairs`` or ``predict`` is a data set with several.
        pairs: positives for a training text of sentences, joined by sentence: anything that ``train`` can be, with a
            column of sentences and one of positives. A sentence without a pair is its own positive (counted).
        pair_columns: the two columns of ``pairs``; None picks the usual names.
        no_duplicates: no two rows of a batch of all processes share a sentence, see `sentrep.data.DistinctBatches`.
        fraction: share of the training text to use, in (0, 1].
        streaming: read the text while training instead of tokenising it first, for text larger than the disk; see
            `sentrep.data.StreamedBatches`. The length is unknown then, so the trainer needs ``max_steps``.
        shuffle_buffer: rows in memory that streaming shuffles at a time.
        num_workers: processes that prepare batches ahead, and tokenise a text of several files.

    Raises:
        InputError: ``streaming`` with a setting that needs the whole text, or wrong columns.

    Examples:
        >>> from sentrep import SentenceEncoder, SentRepDataModule
        >>> small = {"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> data = SentRepDataModule(train=["A dog barks.", "It rains today."], batch_size=2)
        >>> data.connect(SentenceEncoder(small, tokenizer="toy"))
        >>> data.setup("fit")
        >>> next(iter(data.train_dataloader())).anchor.input_ids.shape[0]
        2
    """

    def __init__(
        self,
        train: TrainingText = "toy",
        columns: list[str | int] | None = None,
        val: list[str | PairsFile] | None = None,
        test: list[str | PairsFile] | None = None,
        sts_folder: str | None = None,
        predict: str | None = None,
        batch_size: int = 64,
        seed: int | None = None,
        split: str = "train",
        pairs: TrainingText | None = None,
        pair_columns: list[str | int] | None = None,
        no_duplicates: bool = False,
        fraction: float = 1.0,
        streaming: bool = False,
        shuffle_buffer: int = 10_000,
        num_workers: int = 0,
    ) -> None:
        super().__init__()
        self.train, self.columns, self.split = train, columns, split
        self.pairs, self.pair_columns = pairs, pair_columns
        self.val, self.test, self.sts_folder, self.predict = val or [], test or [], sts_folder, predict
        self.batch_size, self.seed, self.no_duplicates, self.fraction = batch_size, seed, no_duplicates, fraction
        self.streaming, self.shuffle_buffer, self.num_workers = streaming, shuffle_buffer, num_workers
        self.fingerprint = ""
        """Hash of the training text and its columns, after ``setup("fit")``."""
        self.val_sets, self.test_sets = list[ScoredPairs](), list[ScoredPairs]()
        self._connected: tuple[Any, Trainer | None] | None = None
        self._text: Text | None = None
        self._rows: TokenizedText | RowTokenizer | None = None
        self._order: GlobalBatchSampler | StreamedBatches | None = None

    def connect(self, encoder: Any) -> None:
        """Set the encoder whose tokens are read, without a Trainer or for a module with several encoders.

        A Trainer that fits a module with one encoder later takes that encoder's tokenizer and length instead.

        Args:
            encoder: anything with ``tokenize`` and ``max_length``, the longest training sequence in tokens.
        """
        self._connected = encoder, self.trainer

    def text(self) -> Text:
        """The training text, joined with `pairs`; the rows are not read yet.

        Raises:
            InputError: a file or a column is missing.
        """
        text = open_text(self.train, self.columns, self.split, self.streaming)
        return text if self.pairs is None else joined(text, open_text(self.pairs, self.pair_columns, self.split))

    def prepare_data(self) -> None:
        """Tokenise the training text into the cache, on one process; the others open the cache in `setup`."""
        if not self.streaming and (self.trainer is None or self.trainer.state.fn == TrainerFn.FITTING):
            tokenize_text(self.text(), self._tokenizer(), self.num_workers)

    def setup(self, stage: str) -> None:
        """Open the text and the sets of a stage.

        Args:
            stage: ``fit``, ``validate``, ``test`` or ``predict``.

        Raises:
            InputError: something about the data is wrong; the message says what.
        """
        if stage == "fit":
            self._open_text()
        if stage in ("fit", "validate"):
            self.val_sets = load_all_sts(self.val, self.sts_folder) if self.val else []
        if stage == "test":
            self.test_sets = load_all_sts(self.test, self.sts_folder)
        if not {"validate": self.val, "test": self.test, "predict": self.predict}.get(stage, True):
            key = stage.removesuffix("idate")
            raise InputError(f"nothing to {stage.lower()}: give the sentences or sets (data.{key}), for example a file")

    def train_dataloader(self) -> ResumableLoader:
        """Batches of `sentrep.types.TextBatch`, each process its share."""
        if self._rows is None or self._text is None:
            raise RuntimeError('call setup("fit") first')
        trainer, pad_token_id = self.trainer, self._encoder().tokenize.pad_token_id
        run: dict[str, Any] = {**self._place(), "reshuffle": not getattr(trainer, "overfit_batches", 0)}
        run["seed"] = global_seed() if self.seed is None else self.seed
        if isinstance(self._rows, RowTokenizer):
            rows, buffer = self._text.rows, self.shuffle_buffer
            self._order = StreamedBatches(rows, self.batch_size, buffer=buffer, gather=self._gather, **run)
        else:
            keys = self._rows.sentence_keys() if self.no_duplicates else None
            order = GlobalBatchSampler(self._rows.rows.size, self.batch_size, fraction=self.fraction, keys=keys, **run)
            counts = order.kept, order.rows, len(order), order.global_batch_size, order.dropped
            logger.info("training on %d of %d rows in %d batches of %d; %d rows of each epoch are left out", *counts)
            self._order = order
        return ResumableLoader(
            self._rows,
            self._order,
            Collate(pad_token_id),
            num_workers=self.num_workers,
            pin_memory=trainer is not None and trainer.strategy.root_device.type == "cuda",
            fingerprint=self.fingerprint,
            completed=self._completed_batches if trainer else None,
        )

    def val_dataloader(self) -> list[OneBatchLoader]:
        """One loader a set, each gives one `sentrep.ScoredPairs`."""
        return [OneBatchLoader(pairs) for pairs in self.val_sets]

    def test_dataloader(self) -> list[OneBatchLoader]:
        """One loader a set."""
        return [OneBatchLoader(pairs) for pairs in self.test_sets]

    def predict_dataloader(self) -> SentenceLoader:
        """Batches of sentences (list of str)."""
        assert self.predict is not None
        text = load(self.predict, self.columns, self.split, streaming=True)
        return SentenceLoader(text, self.batch_size, **self._place())

    def report(self) -> dict[str, Any]:
        """Counts for the record of a run: rows read, blank, kept, cut, left out; pairs of each set."""
        report: dict[str, Any] = {}
        if self._rows is not None and self._text is not None:
            report["train"] = {"source": self._text.name, "fingerprint": self.fingerprint}
            report["train"] |= self._rows.report() if isinstance(self._rows, TokenizedText) else {"streaming": True}
        if isinstance(self._order, GlobalBatchSampler):
            report["train"] |= {"used": self._order.kept, "left out of each epoch": self._order.dropped}
        for stage, sets in (("val", self.val_sets), ("test", self.test_sets)):
            if sets:
                report[stage] = {pairs.name: {"pairs": len(pairs), "protocol": pairs.protocol} for pairs in sets}
        return report

    def _open_text(self) -> None:
        needed = {"pairs": self.pairs is not None, "no_duplicates": self.no_duplicates, "fraction": self.fraction != 1}
        if self.streaming and (asked := " and ".join(f"data.{name}" for name in needed if needed[name])):
            raise InputError(f"data.streaming never holds the whole text, which {asked} needs: remove one of them")
        if self.streaming and self.trainer is not None and self.trainer.max_steps == -1:
            raise InputError("data.streaming does not know how long the text is: set --trainer.max_steps")
        self._text = self.text()
        self.fingerprint, self._rows = self._text.fingerprint, self._tokenizer()
        if not self.streaming:
            self._rows = tokenize_text(self._text, self._rows, self.num_workers)
            self._rows.log(self._text.name)
        if self.trainer is not None and self.trainer.world_size > 1:
            strategy = self.trainer.strategy
            if not strategy.reduce_boolean_decision(strategy.broadcast(self.fingerprint) == self.fingerprint):
                raise InputError("data.train: the processes hold different texts; give all the same, in one order")

    def _tokenizer(self) -> RowTokenizer:
        encoder = self._encoder()
        return RowTokenizer(encoder.tokenize, encoder.max_length)

    def _place(self) -> dict[str, int]:
        trainer = self.trainer
        return {"rank": trainer.global_rank, "world_size": trainer.world_size} if trainer else {}

    def _gather(self, numbers: Sequence[int]) -> list[list[int]]:
        """Whole numbers of every process, by rank."""
        device = self.trainer.strategy.root_device if self.trainer else None
        return distributed.gather(torch.tensor(numbers, device=device)).view(-1, len(numbers)).tolist()

    def _encoder(self) -> Any:
        connected, trainer = self._connected or (None, None)
        encoders = _encoders(self.trainer.lightning_module) if self.trainer else []
        if connected is not None and (trainer is self.trainer or len(encoders) != 1):
            return connected
        if len(encoders) == 1:
            return encoders[0]
        if self.trainer is None:
            raise RuntimeError("call connect(encoder) first, or use a Trainer")
        name = type(self.trainer.lightning_module).__name__
        raise InputError(f"data: {name} has {len(encoders)} encoders; say whose tokens to read: data.connect(encoder)")

    def _completed_batches(self) -> int:
        assert self.trainer is not None
        return self.trainer.fit_loop.epoch_loop.batch_progress.current.processed  # type: ignore[attr-defined]


def _encoders(module: nn.Module) -> list[Any]:
    """A module's own ``encoder``; if it has none that tokenises, the encoders of its parts, each one once."""
    own = getattr(module, "encoder", None)
    if hasattr(own, "tokenize") and hasattr(own, "max_length"):
        return [own]
    return list(dict.fromkeys(encoder for part in module.children() for encoder in _encoders(part)))
