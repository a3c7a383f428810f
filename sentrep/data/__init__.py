"""Training text, evaluation sets and batches.

    text, files        from a file, a folder, an address or the Hub to rows of sentences: `load`; a file's rows
    pairing            positives from another file, found by sentence
    tokens             the text as token ids, tokenised once
    batches/           from rows to the batches of a process: order, collation, loaders
    datamodule         `SentRepDataModule`, which puts these together for a Trainer
    sets/              evaluation sets: STS, transfer tasks
    augmentation/      new positives: back-translation
    toy/               the embedded corpus
    fingerprints       hashes of texts and sets

The names are imported on first use: PyTorch, Lightning and pyarrow take seconds, and the options of the command line
do not need them.
"""

from typing import TYPE_CHECKING

from sentrep.lazy import lazy_names

if TYPE_CHECKING:
    from sentrep.data.batches.collate import Collate as Collate
    from sentrep.data.batches.distinct_batches import DistinctBatches as DistinctBatches
    from sentrep.data.batches.loaders import OneBatchLoader as OneBatchLoader
    from sentrep.data.batches.loaders import ResumableLoader as ResumableLoader
    from sentrep.data.batches.loaders import SentenceLoader as SentenceLoader
    from sentrep.data.batches.sampler import GlobalBatchSampler as GlobalBatchSampler
    from sentrep.data.batches.streaming import StreamedBatches as StreamedBatches
    from sentrep.data.datamodule import SentRepDataModule as SentRepDataModule
    from sentrep.data.sets.labelled import LabelledSet as LabelledSet
    from sentrep.data.sets.labelled import LabelledTexts as LabelledTexts
    from sentrep.data.sets.sts import SET_NAMES as SET_NAMES
    from sentrep.data.sets.sts import PairsFile as PairsFile
    from sentrep.data.sets.sts import load_sts as load_sts
    from sentrep.data.sets.transfer import TRANSFER_NAMES as TRANSFER_NAMES
    from sentrep.data.sets.transfer import load_transfer as load_transfer
    from sentrep.data.text import load as load
    from sentrep.data.tokens import RowTokenizer as RowTokenizer
    from sentrep.data.tokens import TextCounts as TextCounts
    from sentrep.data.tokens import TokenizedText as TokenizedText
    from sentrep.data.tokens import TokenRows as TokenRows
    from sentrep.data.tokens import tokenize_text as tokenize_text

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "batches.collate": ("Collate",),
        "batches.distinct_batches": ("DistinctBatches",),
        "batches.loaders": ("OneBatchLoader", "ResumableLoader", "SentenceLoader"),
        "batches.sampler": ("GlobalBatchSampler",),
        "batches.streaming": ("StreamedBatches",),
        "datamodule": ("SentRepDataModule",),
        "sets.labelled": ("LabelledSet", "LabelledTexts"),
        "sets.sts": ("SET_NAMES", "PairsFile", "load_sts"),
        "sets.transfer": ("TRANSFER_NAMES", "load_transfer"),
        "text": ("load",),
        "tokens": ("RowTokenizer", "TextCounts", "TokenizedText", "TokenRows", "tokenize_text"),
    },
)
