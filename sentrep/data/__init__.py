"""Training text, evaluation sets and batches."""

from sentrep.data.cache import CorpusCounts, TokenizedCorpus, TokenRow, tokenize_corpus
from sentrep.data.collate import Collate
from sentrep.data.corpus import Corpus, open_corpus
from sentrep.data.datamodule import SentRepDataModule
from sentrep.data.loaders import PairsLoader, ResumableLoader, SentenceLoader
from sentrep.data.pairing import PairedCorpus
from sentrep.data.sampler import GlobalBatchSampler
from sentrep.data.sts import SET_NAMES, PairsFile, load_sts
from sentrep.data.tables import TableFile

__all__ = [
    "SET_NAMES",
    "Collate",
    "Corpus",
    "CorpusCounts",
    "GlobalBatchSampler",
    "PairedCorpus",
    "PairsFile",
    "PairsLoader",
    "ResumableLoader",
    "SentRepDataModule",
    "SentenceLoader",
    "TableFile",
    "TokenRow",
    "TokenizedCorpus",
    "load_sts",
    "open_corpus",
    "tokenize_corpus",
]
