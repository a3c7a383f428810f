"""Training text, evaluation sets and batches.

    datamodule         `SentRepDataModule`, which puts the rest together for a Trainer
    arguments          its arguments (`Reading`) and their checks
    text/              from a file, a folder, an address or the Hub to rows of sentences, and to token ids
    batches/           from rows to the batches of a process: order, collation, loaders
    sets/              evaluation sets: STS, transfer tasks, retrieval; held-out sentences; leakage
    augmentation/      new positives: back-translation, paraphrases by a language model
    toy/               the embedded corpus
    parts              a map that takes hours: what `encode` and the augmentations are kept in while they work
    shard              one process's share of it
    stored_embeddings  what ``sentrep encode`` wrote

The names are imported on first use: PyTorch, Lightning and pyarrow take seconds, and the options of the command line
need none of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sentrep.data.arguments import Reading
    from sentrep.data.batches.collate import Collate
    from sentrep.data.batches.distinct_batches import DistinctBatches
    from sentrep.data.batches.loaders import OneBatchLoader, ResumableLoader, SentenceLoader
    from sentrep.data.batches.sampler import GlobalBatchSampler
    from sentrep.data.batches.streaming import StreamedBatches
    from sentrep.data.datamodule import SentRepDataModule
    from sentrep.data.sets.beir import RankingSet, load_reranking, load_retrieval
    from sentrep.data.sets.labelled import LabelledSet, LabelledTexts, load_labelled_file, load_labelled_folder
    from sentrep.data.sets.sts import SET_NAMES, PairsFile, load_sts
    from sentrep.data.sets.transfer import TRANSFER_NAMES, load_transfer
    from sentrep.data.stored_embeddings import StoredEmbeddings
    from sentrep.data.text.corpus import Corpus, open_corpus
    from sentrep.data.text.tables import TableFile
    from sentrep.data.text.tokenized import CorpusCounts, TokenizedCorpus, TokenizedRows, TokenRows, tokenize_corpus

_HOMES = {
    "arguments": ("Reading",),
    "batches.collate": ("Collate",),
    "batches.distinct_batches": ("DistinctBatches",),
    "batches.loaders": ("OneBatchLoader", "ResumableLoader", "SentenceLoader"),
    "batches.sampler": ("GlobalBatchSampler",),
    "batches.streaming": ("StreamedBatches",),
    "datamodule": ("SentRepDataModule",),
    "sets.beir": ("RankingSet", "load_reranking", "load_retrieval"),
    "sets.labelled": ("LabelledSet", "LabelledTexts", "load_labelled_file", "load_labelled_folder"),
    "sets.sts": ("SET_NAMES", "PairsFile", "load_sts"),
    "sets.transfer": ("TRANSFER_NAMES", "load_transfer"),
    "stored_embeddings": ("StoredEmbeddings",),
    "text.corpus": ("Corpus", "open_corpus"),
    "text.tables": ("TableFile",),
    "text.tokenized": ("CorpusCounts", "TokenizedCorpus", "TokenizedRows", "TokenRows", "tokenize_corpus"),
}
"""The names of each module."""

__all__ = [
    "SET_NAMES",
    "TRANSFER_NAMES",
    "Collate",
    "Corpus",
    "CorpusCounts",
    "DistinctBatches",
    "GlobalBatchSampler",
    "LabelledSet",
    "LabelledTexts",
    "OneBatchLoader",
    "PairsFile",
    "RankingSet",
    "Reading",
    "ResumableLoader",
    "SentRepDataModule",
    "SentenceLoader",
    "StoredEmbeddings",
    "StreamedBatches",
    "TableFile",
    "TokenRows",
    "TokenizedCorpus",
    "TokenizedRows",
    "load_labelled_file",
    "load_labelled_folder",
    "load_reranking",
    "load_retrieval",
    "load_sts",
    "load_transfer",
    "open_corpus",
    "tokenize_corpus",
]


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"sentrep.data.{module}"), name)
    raise AttributeError(f"module 'sentrep.data' has no attribute {name!r}")
