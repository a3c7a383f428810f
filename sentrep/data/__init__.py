"""Training text, evaluation sets and batches.

    datamodule         `SentRepDataModule`, which puts the rest together for a Trainer
    arguments          what it takes (`Reading`) and the checks
    text/              from a file, a folder, an address or the Hub to rows of sentences, and to token ids
    batches/           from rows to the batches of a process: order, collation, loaders
    sets/              what is evaluated on: STS, transfer tasks, retrieval; held-out sentences; leakage
    augmentation/      new positives: back-translation, paraphrases by a language model
    toy/               the embedded corpus
    parts              a map that takes hours: what `encode` and the augmentations are kept in while they work
    stored_embeddings  what ``sentrep encode`` wrote

`SentRepDataModule` is imported on first use: lightning, which only it needs, takes a second or two.
"""

from typing import TYPE_CHECKING, Any

from sentrep.data.arguments import Reading
from sentrep.data.batches.collate import Collate
from sentrep.data.batches.distinct_batches import DistinctBatches
from sentrep.data.batches.loaders import OneBatchLoader, ResumableLoader, SentenceLoader
from sentrep.data.batches.sampler import GlobalBatchSampler
from sentrep.data.batches.streaming import StreamedBatches
from sentrep.data.sets.beir import RankingSet, load_reranking, load_retrieval
from sentrep.data.sets.labelled import LabelledSet, LabelledTexts, load_labelled_file, load_labelled_folder
from sentrep.data.sets.sts import SET_NAMES, PairsFile, load_sts
from sentrep.data.sets.transfer import TRANSFER_NAMES, load_transfer
from sentrep.data.stored_embeddings import StoredEmbeddings
from sentrep.data.text.corpus import Corpus, open_corpus
from sentrep.data.text.tables import TableFile
from sentrep.data.text.tokenized import CorpusCounts, TokenizedCorpus, TokenizedRows, TokenRows, tokenize_corpus

if TYPE_CHECKING:
    from sentrep.data.datamodule import SentRepDataModule

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
    if name == "SentRepDataModule":
        from sentrep.data.datamodule import SentRepDataModule

        return SentRepDataModule
    raise AttributeError(f"module 'sentrep.data' has no attribute {name!r}")
