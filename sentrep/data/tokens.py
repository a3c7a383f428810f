"""The training text as token ids: tokenised once into an Arrow file, which is read through a memory map."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from itertools import compress, islice, pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasets import ArrowBasedBuilder, Dataset, DatasetInfo, Features, IterableDataset, List, SplitGenerator, Value
from numpy.typing import NDArray

from sentrep.data.files import COLUMNS, quiet_datasets
from sentrep.data.fingerprints import keys_of
from sentrep.data.text import Text
from sentrep.errors import InputError
from sentrep.types import Tokenize

logger = logging.getLogger("sentrep")

_TOKENISED_AT_ONCE = 1024
_WRITTEN_AT_ONCE = 16_384
"""Rows of a record batch. Opening a file touches the memory around the head of each."""

StreamedRow = tuple[int, tuple[str, ...]]
"""The number of a row, and its sentences."""


@dataclass(frozen=True)
class TextCounts:
    """What became of the rows of a text."""

    rows: int
    """Rows read."""
    blank: int
    """Rows left out because a needed sentence was empty."""
    cut: int
    """Sentences that were longer than the limit and are cut."""
    unpaired: int
    """Kept rows that are their own positive, because the joined pairs have none for them."""


class TokenRows(NamedTuple):
    """B rows of token ids."""

    rows: NDArray[np.int64]
    """(B,) their numbers in the text."""
    columns: list[list[NDArray[np.int32]]]
    """B sentences for each column of the text."""


class RowTokenizer:
    """Makes token ids of rows, in any process: the data set of a loader with `StreamedBatches`.

    Args:
        tokenize: gives the ids.
        max_length: longest sequence in tokens, special tokens included; None means the model's limit.

    Attributes:
        fingerprint: the content of the tokenizer, and the length.
    """

    def __init__(self, tokenize: Tokenize, max_length: int | None) -> None:
        self._tokenize, self.max_length = tokenize, max_length
        self.fingerprint = f"{tokenize.fingerprint}-{max_length}"

    def __getitem__(self, rows: Sequence[StreamedRow]) -> TokenRows:
        """Ids of rows without blanks."""
        columns, _ = self._ids([sentences for _, sentences in rows])
        numbers = np.array([number for number, _ in rows])
        return TokenRows(numbers, [[np.array(ids, np.int32) for ids in column] for column in columns])

    def table(self, batch: dict[str, list[Any]]) -> pa.Table:
        """The ids in each column, null for a blank row, and counts, all of them in the first row."""
        names = [name for name in COLUMNS if name in batch]
        cells = [[cell or "" for cell in batch[name]] for name in names]
        rows = list(zip(*cells, strict=True))
        filled = [all(map(str.strip, row)) for row in rows]
        columns, cut = self._ids(list(compress(rows, filled)))
        found = dict[str, pa.Array]()
        for name, column in zip(names, columns or [[]] * len(names), strict=True):
            ids = iter(column)
            found[name] = pa.array([next(ids) if there else None for there in filled], pa.list_(pa.int32()))
        unpaired = sum(compress(batch.get("unpaired", []), filled))
        for name, count in (("cut", cut), ("unpaired", unpaired)):
            found[name] = pa.array([count, *[0] * (len(rows) - 1)], pa.int32())
        return pa.table(found)

    def _ids(self, rows: Sequence[tuple[str, ...]]) -> tuple[list[list[list[int]]], int]:
        """Ids of every sentence by column, and how many sentences were cut."""
        found = [self._tokenize(column, self.max_length) for column in zip(*rows, strict=True)]
        return [ids for ids, _ in found], sum(cut for _, cut in found)


class TokenizedText:
    """Random access to token ids through the memory map of the files that `tokenize_text` wrote.

    Row i of the data set is row i of the text; a row that is left out is null there.

    Args:
        dataset: the ids.
        max_length: to which they were cut, for the log.
    """

    def __init__(self, dataset: Dataset, max_length: int | None = None) -> None:
        self.max_length = max_length
        self.columns = [name for name in COLUMNS if name in dataset.column_names]
        self._dataset = dataset.select_columns(self.columns).with_format("arrow")
        table = dataset.data
        self.rows = np.flatnonzero(table.column(COLUMNS[0]).is_valid())
        cut, unpaired = (pc.sum(table.column(name)).as_py() or 0 for name in ("cut", "unpaired"))
        self.counts = TextCounts(len(dataset), len(dataset) - len(self.rows), cut, unpaired)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, places: Sequence[int] | NDArray[np.integer]) -> TokenRows:
        """Some of the rows that are left."""
        rows = self.rows[places]
        table = self._dataset[rows]
        return TokenRows(rows, [_lists(table[name].combine_chunks()) for name in self.columns])

    def report(self) -> dict[str, int]:
        """The counts, named for a report."""
        counts = self.counts
        found = {"rows": counts.rows, "blank": counts.blank, "kept": len(self), "sentences cut": counts.cut}
        return found | ({"without a pair": counts.unpaired} if counts.unpaired else {})

    def log(self, name: str) -> None:
        """Log the counts of a text of this name."""
        rows, blank, cut, unpaired = astuple(self.counts)
        pairs = f"{unpaired} without a pair and their own positive, " if unpaired else ""
        cuts = f"{cut} sentences cut to {self.max_length or 'the limit in'} tokens"
        logger.info("%s: %d rows (%d read, %d blank and skipped, %s%s)", name, len(self), rows, blank, pairs, cuts)

    def sentence_keys(self) -> NDArray[np.uint64]:
        """A 64-bit key of every sentence, (rows, columns): equal ids have equal keys, others practically never."""
        every = range(len(self))
        chunks = (self[every[start : start + _WRITTEN_AT_ONCE]] for start in every[::_WRITTEN_AT_ONCE])
        return np.concatenate(
            [np.stack([keys_of(ids.tobytes() for ids in column) for column in rows.columns], 1) for rows in chunks]
        )


def _lists(column: Any) -> list[NDArray[np.int32]]:
    ids, offsets = column.values.to_numpy(), column.offsets.to_pylist()
    return [ids[start:end] for start, end in pairwise(offsets)]


class _TokenFiles(ArrowBasedBuilder):
    """Writes token ids; `datasets` gives the files their names when they are whole, and lets one process do it.

    Args:
        text: the rows.
        rows: makes the ids.
        name: of the folder of the files.
    """

    def __init__(self, text: IterableDataset, rows: RowTokenizer, name: str) -> None:
        self._text, self._rows = text, rows
        super().__init__(config_id=name, writer_batch_size=_WRITTEN_AT_ONCE)

    def _info(self) -> DatasetInfo:
        ids = {name: List(Value("int32")) for name in COLUMNS if name in (self._text.column_names or ())}
        return DatasetInfo(features=Features({**ids, "cut": Value("int32"), "unpaired": Value("int32")}))

    def _split_generators(self, dl_manager: Any) -> list[SplitGenerator]:
        return [SplitGenerator("train", {"shards": list(range(self._text.num_shards))})]

    def _generate_tables(self, shards: list[int]) -> Iterator[tuple[tuple[int, int], pa.Table]]:
        for shard in shards:
            tables = map(self._rows.table, self._text.shard(self._text.num_shards, shard).iter(_TOKENISED_AT_ONCE))
            number = 0
            while some := list(islice(tables, _WRITTEN_AT_ONCE // _TOKENISED_AT_ONCE)):
                yield (shard, number), pa.concat_tables(some).combine_chunks()
                number += 1


def tokenize_text(text: Text, rows: RowTokenizer, num_workers: int = 0) -> TokenizedText:
    """The tokenised text, from the cache where the same text was tokenised the same way before.

    Args:
        text: the text.
        rows: makes the ids.
        num_workers: processes that tokenise, at most one a file; below 2 means this one.

    Raises:
        InputError: no row has text, or the text cannot be read.
    """
    builder = _TokenFiles(text.rows, rows, f"{text.fingerprint}-{rows.fingerprint}")
    processes = min(num_workers, text.rows.num_shards)
    with quiet_datasets():
        builder.download_and_prepare(num_proc=processes if processes > 1 else None)
    read = builder.info.splits["train"].num_examples
    if not read or not len(tokens := TokenizedText(builder.as_dataset("train"), rows.max_length)):
        raise InputError(f"{text.name}: no sentences ({read} rows, all blank); give a file with text")
    if tokens.counts.unpaired == len(tokens):
        raise InputError(f"{text.name}: no sentence has a pair; are they the same sentences, and the `pair_columns`?")
    return tokens
