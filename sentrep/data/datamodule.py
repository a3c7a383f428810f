"""`SentRepDataModule`: training text, evaluation sets and sentences to encode, for a Trainer or without one."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import torch
from lightning.pytorch import LightningDataModule, Trainer
from lightning.pytorch.trainer.states import TrainerFn
from torch import nn
from torchmetrics import Metric

from sentrep import distributed
from sentrep.data.arguments import AS_USUAL, Reading, check_arguments
from sentrep.data.batches.collate import Collate
from sentrep.data.batches.loaders import OneBatchLoader, ResumableLoader, SentenceLoader
from sentrep.data.batches.sampler import GlobalBatchSampler
from sentrep.data.batches.streaming import StreamedBatches
from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.data.sets.sts import PairsFile, load_all_sts
from sentrep.data.text.corpus import Corpus, TrainingText, open_corpus
from sentrep.data.text.fingerprints import hash_of
from sentrep.data.text.memory import in_memory
from sentrep.data.text.tokenized import TokenizedCorpus, TokenizedRows, tokenize_corpus
from sentrep.errors import InputError
from sentrep.types import Tokenize

logger = logging.getLogger("sentrep")


class SentRepDataModule(LightningDataModule):
    """The data of a run.

    With a Trainer, the tokenizer and the training length come from the module's ``encoder``, or from the ``encoder`` of
    its only part with one. Without a Trainer, or if several parts have encoders, call
    ``datamodule.connect(encoder.tokenize, encoder.max_length)``; without a Trainer then call ``setup("fit")`` and
    ``train_dataloader()``.

    Args:
        train: the training text: a file (txt, csv, tsv, jsonl, parquet, compressed or not), a glob, a folder written by
            ``save_to_disk``, the id of a data set on the Hub, a list of these, or ``toy``, the embedded corpus. In
            Python also data in memory: a list of texts, pairs or triples, a ``datasets.Dataset`` or a pandas
            ``DataFrame``.
        columns: the columns of the training text: one (sentences), two (sentence, positive) or three (with hard
            negative); numbers from 0 for a csv or tsv file without a header; None picks the usual names.
        val: evaluation sets during training: names such as ``stsb-dev`` (see `sentrep.data.SET_NAMES`), files, or
            `PairsFile` objects for files with other column names.
        test: evaluation sets for ``test``, likewise.
        metrics: further metrics of each set of ``val`` and ``test``, by name, logged as ``<stage>/<set>/<name>``: any
            class of torchmetrics, or your own, whose ``update`` takes cosines (P,) and gold scores (P,).
        sts_folder: folder of the SentEval data, which contains ``STS`` and ``SICK``; None: named sets are from the Hub.
        predict: the sentences for ``predict``, like ``train``; the first column is encoded, blank rows too.
        batch_size: sentences in a batch of one process.
        seed: of the order of the training text; None means the global seed of ``seed_everything``, or 0.
        pairs: positives for a training text of sentences, joined by sentence: anything that ``train`` can be, with a
            column of sentences and one of positives (``reading.pair_columns``). A sentence without a pair is
            its own positive (counted).
        no_duplicates: no two rows of a batch of all processes share a sentence, see `sentrep.data.DistinctBatches`.
        reading: how the text is read and kept: split, fraction, cache, workers, streaming.

    Examples:
        >>> from sentrep import SentenceEncoder, SentRepDataModule
        >>> small = {"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> data = SentRepDataModule(train=["A dog barks.", "It rains today."], batch_size=2)
        >>> data.connect(SentenceEncoder(small, tokenizer="toy").tokenize, 32)
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
        metrics: dict[str, Metric] | None = None,
        sts_folder: str | None = None,
        predict: str | None = None,
        batch_size: int = 64,
        seed: int | None = None,
        pairs: TrainingText | None = None,
        no_duplicates: bool = False,
        reading: Reading = AS_USUAL,
    ) -> None:
        super().__init__()
        self.train, self.columns = train, columns
        self.pairs = pairs
        self.val, self.test, self.sts_folder, self.predict = val or [], test or [], sts_folder, predict
        self.metrics = metrics or {}
        self.batch_size, self.seed, self.no_duplicates = batch_size, seed, no_duplicates
        self.reading = reading
        check_arguments(self)
        self.fingerprint = ""
        """Hash of the training text, its columns and longest line, after ``setup("fit")``."""
        self.val_sets, self.test_sets = list[ScoredPairs](), list[ScoredPairs]()
        self._connected: tuple[Tokenize, int | None] | None = None
        self._connected_in: Trainer | None = None
        self._prepared = ""
        """Fingerprint of the tokenizer with which `prepare_data` has just read the text."""
        self._corpus: Corpus | None = None
        self._rows: TokenizedCorpus | TokenizedRows | None = None
        self._sampler: GlobalBatchSampler | StreamedBatches | None = None

    def connect(self, tokenize: Tokenize, max_length: int | None) -> None:
        """Set the tokenizer, without a Trainer or for a module with several encoders.

        A Trainer that fits a module with one encoder later takes that encoder's tokenizer and length instead.

        Args:
            tokenize: ``encoder.tokenize``.
            max_length: longest training sequence in tokens; None means the model's limit.
        """
        self._connected, self._connected_in = (tokenize, max_length), self.trainer

    def training_text(self) -> Corpus:
        """The training text, joined with `pairs`; nothing is read yet.

        Raises:
            InputError: a file is missing.
        """
        split, columns = self.reading.split, self.reading.pair_columns
        pairs = None if self.pairs is None else open_corpus(self.pairs, columns, split)
        return open_corpus(self.train, self.columns, split, self.reading.streaming, pairs)

    def prepare_data(self) -> None:
        """Tokenise the training text into the cache, on one process; the others open the cache in `setup`."""
        if self.trainer is None or self.trainer.state.fn == TrainerFn.FITTING:
            self._open_text()
            self._prepared = self._token_rows().fingerprint

    def setup(self, stage: str) -> None:
        """Open the text and the sets of a stage.

        Args:
            stage: ``fit``, ``validate``, ``test`` or ``predict``.

        Raises:
            InputError: something about the data is wrong; the message says what.
        """
        if stage == "fit":
            if self._prepared != self._token_rows().fingerprint:
                self._open_text()
            self._prepared = ""  # the next training reads the text again: it may have changed, and `train` too
            self._refuse_other_texts()
        if stage in ("fit", "validate"):
            self.val_sets = load_all_sts(self.val, self.sts_folder)
        if stage == "test":
            self.test_sets = load_all_sts(self.test, self.sts_folder)
        if not {"validate": self.val, "test": self.test, "predict": self.predict}.get(stage, True):
            key = stage.removesuffix("idate")
            raise InputError(f"nothing to {stage.lower()}: give the sentences or sets (data.{key}), for example a file")

    def train_dataloader(self) -> ResumableLoader:
        """Batches of `sentrep.types.TextBatch`, each process its share."""
        if self._rows is None:
            raise RuntimeError('call setup("fit") first')
        trainer = self.trainer
        seed = distributed.global_seed() if self.seed is None else self.seed
        self._sampler = self._order(seed=seed, reshuffle=not getattr(trainer, "overfit_batches", 0), **self._place())
        return ResumableLoader(
            self._rows,
            self._sampler,
            Collate(self._how_to_tokenize()[0].pad_token_id),
            num_workers=self.reading.num_workers,
            pin_memory=trainer is not None and trainer.strategy.root_device.type == "cuda",
            fingerprint=self.fingerprint,
            completed=self._completed_batches if trainer else None,
        )

    def _place(self) -> dict[str, int]:
        trainer = self.trainer
        return {"rank": trainer.global_rank, "world_size": trainer.world_size} if trainer else {}

    def _order(self, **run: Any) -> GlobalBatchSampler | StreamedBatches:
        if isinstance(self._rows, TokenizedRows):
            assert self._corpus is not None
            buffer = self.reading.shuffle_buffer
            return StreamedBatches(self._corpus, self.batch_size, buffer=buffer, gather=self._gather, **run)
        assert self._rows is not None
        keys = self._rows.sentence_keys() if self.no_duplicates else None
        order = GlobalBatchSampler(len(self._rows), self.batch_size, fraction=self.reading.fraction, keys=keys, **run)
        logger.info(
            "training on %d of %d rows in %d batches of %d; %d rows of each epoch %s and are left out",
            *(order.kept, len(self._rows), len(order), order.global_batch_size, order.dropped),
            "do not fill a batch or repeat sentences" if self.no_duplicates else "do not fill a batch",
        )
        return order

    def _gather(self, numbers: Sequence[int]) -> list[list[int]]:
        """Whole numbers of every process, by rank."""
        device = self.trainer.strategy.root_device if self.trainer else None
        return distributed.gather(torch.tensor(numbers, device=device)).view(-1, len(numbers)).tolist()

    def val_dataloader(self) -> list[OneBatchLoader]:
        """One loader a set, each gives one `sentrep.ScoredPairs`."""
        return [OneBatchLoader(pairs) for pairs in self.val_sets]

    def test_dataloader(self) -> list[OneBatchLoader]:
        """One loader a set."""
        return [OneBatchLoader(pairs) for pairs in self.test_sets]

    def predict_dataloader(self) -> SentenceLoader:
        """Batches of sentences (list of str)."""
        assert self.predict is not None
        corpus = open_corpus(self.predict, self.columns, self.reading.split)
        return SentenceLoader(corpus, self.batch_size, **self._place())

    def report(self) -> dict[str, Any]:
        """Counts for the record of a run: rows read, blank, kept, cut, left out; pairs of each set."""
        report: dict[str, Any] = {}
        if self._corpus is not None:
            report["train"] = {"source": self._corpus.name, "fingerprint": self.fingerprint, **self._counted()}
        if isinstance(self._sampler, GlobalBatchSampler):
            report["train"] |= {"used": self._sampler.kept, "left out of each epoch": self._sampler.dropped}
        for stage, sets in (("val", self.val_sets), ("test", self.test_sets)):
            if sets:
                report[stage] = {pairs.name: {"pairs": len(pairs), "protocol": pairs.protocol} for pairs in sets}
        return report

    def _counted(self) -> dict[str, Any]:
        if not isinstance(self._rows, TokenizedCorpus):
            return {"streaming": True}
        counts = self._rows.counts
        found = {"rows": counts.rows, "blank": counts.blank, "kept": counts.kept, "sentences cut": counts.cut}
        found["sentences cut in reading"] = counts.too_long
        return found | ({} if self.pairs is None else {"without a pair": counts.unpaired})

    def _open_text(self) -> None:
        reading = self.reading
        if reading.streaming and self.trainer is not None and self.trainer.max_steps == -1:
            raise InputError(
                "data.reading.streaming does not know how long the text is: say when to stop by --trainer.max_steps, "
                "for example the number of rows over the batch size of all processes"
            )
        rows, corpus = self._token_rows(), self.training_text()
        if reading.streaming:
            self._rows, text = rows, corpus.stamp
        else:
            self._rows = tokenize_corpus(corpus, rows, reading.cache_dir, reading.num_workers)
            text = corpus.fingerprint
        self.fingerprint = hash_of(text, reading.longest_line)
        self._corpus = corpus

    def _token_rows(self) -> TokenizedRows:
        return TokenizedRows(*self._how_to_tokenize(), self.reading.longest_line)

    def _refuse_other_texts(self) -> None:
        """Every process holds texts of its own, which an unseeded shuffle makes other ones."""
        if self.trainer is None or not any(map(in_memory, (self.train, self.pairs))):
            return
        strategy = self.trainer.strategy
        if not strategy.reduce_boolean_decision(strategy.broadcast(self.fingerprint) == self.fingerprint):
            raise InputError("data.train: the processes hold different texts; give all of them the same, in one order")

    def _how_to_tokenize(self) -> tuple[Tokenize, int | None]:
        trainer = self.trainer
        if self._connected is not None and self._connected_in is trainer:
            return self._connected
        encoders = _encoders(trainer.lightning_module) if trainer else []
        if len(encoders) == 1:
            return encoders[0].tokenize, encoders[0].max_length
        if self._connected is not None:
            return self._connected
        if trainer is None:
            raise RuntimeError("call connect(encoder.tokenize, encoder.max_length) first, or use a Trainer")
        name = type(trainer.lightning_module).__name__
        raise InputError(
            f"data: {name} has {len(encoders)} encoders, in modules that have one as their "
            "attribute encoder; say whose tokens to read: data.connect(encoder.tokenize, encoder.max_length)"
        )

    def _completed_batches(self) -> int:
        assert self.trainer is not None
        return self.trainer.fit_loop.epoch_loop.batch_progress.current.processed  # type: ignore[attr-defined]


def _encoders(module: nn.Module) -> list[Any]:
    """A module's own ``encoder``; if it has none that tokenises, the encoders of its parts, each one once."""
    own = getattr(module, "encoder", None)
    if hasattr(own, "tokenize") and hasattr(own, "max_length"):
        return [own]
    return list(dict.fromkeys(encoder for part in module.children() for encoder in _encoders(part)))
