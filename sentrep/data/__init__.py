"""Training text, evaluation sets and batches.

    datamodule         `SentRepDataModule`, which puts the rest together for a Trainer
    arguments          its arguments (`Reading`) and their checks
    text/              from a file, a folder, an address or the Hub to rows of sentences, and to token ids
    batches/           from rows to the batches of a process: order, collation, loaders
    sets/              evaluation sets: STS, transfer tasks
    augmentation/      new positives: back-translation
    toy/               the embedded corpus

The names are imported on first use: PyTorch, Lightning and pyarrow take seconds, and the options of the command line
need none of them.
"""

from typing import TYPE_CHECKING

from sentrep.lazy import lazy_names

if TYPE_CHECKING:
    from sentrep.data.arguments import Reading as Reading
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
    from sentrep.data.text.corpus import Corpus as Corpus
    from sentrep.data.text.corpus import open_corpus as open_corpus
    from sentrep.data.text.tables import TableFile as TableFile
    from sentrep.data.text.tokenized import CorpusCounts as CorpusCounts
    from sentrep.data.text.tokenized import TokenizedCorpus as TokenizedCorpus
    from sentrep.data.text.tokenized import TokenizedRows as TokenizedRows
    from sentrep.data.text.tokenized import TokenRows as TokenRows
    from sentrep.data.text.tokenized import tokenize_corpus as tokenize_corpus

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "arguments": ("Reading",),
        "batches.collate": ("Collate",),
        "batches.distinct_batches": ("DistinctBatches",),
        "batches.loaders": ("OneBatchLoader", "ResumableLoader", "SentenceLoader"),
        "batches.sampler": ("GlobalBatchSampler",),
        "batches.streaming": ("StreamedBatches",),
        "datamodule": ("SentRepDataModule",),
        "sets.labelled": ("LabelledSet", "LabelledTexts"),
        "sets.sts": ("SET_NAMES", "PairsFile", "load_sts"),
        "sets.transfer": ("TRANSFER_NAMES", "load_transfer"),
        "text.corpus": ("Corpus", "open_corpus"),
        "text.tables": ("TableFile",),
        "text.tokenized": ("CorpusCounts", "TokenizedCorpus", "TokenizedRows", "TokenRows", "tokenize_corpus"),
    },
)
