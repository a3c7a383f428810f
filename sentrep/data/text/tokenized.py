"""The training text as token ids: tokenised once into an Arrow file, which is read through a memory map."""

from __future__ import annotations

import logging
import os
import sys
import time
import zlib
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch.utils.data import DataLoader

from sentrep.data.text.corpus import COLUMNS, Corpus, CorpusRow
from sentrep.data.text.fingerprints import hash_of, keys_of
from sentrep.errors import InputError
from sentrep.io.bars import progress_bar
from sentrep.io.chunks import chunks_of
from sentrep.io.files import atomic_write
from sentrep.io.paths import default_cache_dir, expanded, writing
from sentrep.types import Tokenize

logger = logging.getLogger("sentrep")

LONGEST_LINE = 1_000_000
"""The most characters of a sentence that are tokenised by default; the rest is left out and counted."""
_FORMAT = "sentrep tokens 6"
_CHECKSUM = 4
"""Bytes at the end of a file: the CRC-32 of the bytes before them."""
_CHUNK_ROWS = 8192
_MANY = 0.4
"""Share of sentences that are cut from which there is advice."""
_ABANDONED = 3600
"""Seconds after which a half-written file is a killed process's: a living one writes every few seconds."""


@dataclass
class CorpusCounts:
    """What became of the rows of a corpus."""

    rows: int = 0
    """Rows read."""
    blank: int = 0
    """Rows left out because a needed sentence was empty."""
    cut: int = 0
    """Sentences that were longer than the limit and are cut."""
    too_long: int = 0
    """Sentences of more characters than ``data.reading.longest_line``, of which the rest was left out."""
    unpaired: int = 0
    """Kept rows that are their own positive, because the pairs joined to the corpus have none for them."""

    @property
    def kept(self) -> int:
        """Rows to train on."""
        return self.rows - self.blank


class TokenRows(NamedTuple):
    """B rows of token ids."""

    rows: NDArray[np.int64]
    """(B,) their numbers in the corpus, see `CorpusRow.number`."""
    columns: list[list[NDArray[np.int32]]]
    """B sentences for each of `COLUMNS` that the corpus has."""


class TokenizedCorpus:
    """Random access to token ids through the memory map of a file that `tokenize_corpus` wrote.

    Row i of the file is row i of the text; a row that is left out is null there.

    Args:
        path: the file.

    Raises:
        pyarrow.ArrowInvalid: the file is cut off or damaged.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        table = pa.ipc.open_stream(pa.memory_map(self.path)).read_all()
        self.counts = CorpusCounts(**_counted(table))
        self.columns = [name for name in COLUMNS if name in table.column_names]
        self.rows = np.flatnonzero(table[COLUMNS[0]].is_valid())
        batches = table.select(self.columns).to_batches()
        self._starts = np.cumsum([0, *(batch.num_rows for batch in batches)])
        self._views = [[(ids.offsets.to_numpy(), ids.values.to_numpy()) for ids in batch.columns] for batch in batches]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, places: Sequence[int] | NDArray[np.integer]) -> TokenRows:
        """Some of the rows."""
        rows = self.rows[places]
        numbers = np.searchsorted(self._starts, rows, side="right") - 1
        at = list(zip(numbers.tolist(), (rows - self._starts[numbers]).tolist(), strict=True))
        columns = range(len(self.columns))
        return TokenRows(
            rows, [[_cell(self._views[number][column], place) for number, place in at] for column in columns]
        )

    def sentence_keys(self) -> NDArray[np.uint64]:
        """A 64-bit key of every sentence, (rows, columns): equal ids have equal keys, others practically never."""
        chunks = (self[places] for places in chunks_of(range(len(self)), _CHUNK_ROWS))
        return np.concatenate(
            [np.stack([keys_of(ids.tobytes() for ids in column) for column in rows.columns], 1) for rows in chunks]
        )

    def __reduce__(self) -> tuple[type[TokenizedCorpus], tuple[Any, ...]]:
        return TokenizedCorpus, (self.path,)  # a worker process maps the file again


def _counted(table: pa.Table) -> Counter[str]:
    """`CorpusCounts` of some rows."""
    sums = {name: pc.sum(table[name]).as_py() for name in ("cut", "too_long", "unpaired")}
    return Counter(rows=len(table), blank=table[COLUMNS[0]].null_count, **sums)


def _cell(ids: tuple[NDArray[np.int32], NDArray[np.int32]], place: int) -> NDArray[np.int32]:
    offsets, values = ids
    return values[offsets[place] : offsets[place + 1]]


class TokenizedRows:
    """Makes token ids of rows, in any process: the data set of a loader with `StreamedBatches`.

    Args:
        tokenize: gives the ids.
        max_length: longest sequence in tokens, special tokens included; None means the model's limit.
        longest_line: characters of a sentence that are tokenised; the rest is left out.

    Attributes:
        fingerprint: hash of all three.
    """

    def __init__(self, tokenize: Tokenize, max_length: int | None, longest_line: int = LONGEST_LINE) -> None:
        self._tokenize, self.max_length, self._longest_line = tokenize, max_length, longest_line
        self.fingerprint = hash_of(tokenize.fingerprint, max_length, longest_line)

    def __getitem__(self, rows: Sequence[CorpusRow]) -> TokenRows:
        """As `TokenizedCorpus` gives them."""
        numbers = np.array([row.number for row in rows])
        return TokenRows(numbers, [[np.array(ids, np.int32) for ids in column] for column in self._columns(rows)[0]])

    def table(self, rows: Sequence[CorpusRow]) -> pa.Table:
        """The ids in each of `COLUMNS`, null for a blank row, and counts, all of them in the first row."""
        filled = [not row.blank for row in rows]
        kept = list(compress(rows, filled))
        columns, cut = self._columns(kept)
        found = dict[str, pa.Array]()
        for name, column in zip(COLUMNS, columns or [[]] * len(rows[0].sentences), strict=False):
            ids = iter(column)
            found[name] = pa.array([next(ids) if there else None for there in filled], pa.list_(pa.int32()))
        counts = {
            "cut": cut,
            "too_long": sum(len(sentence) > self._longest_line for row in kept for sentence in row.sentences),
            "unpaired": sum(not row.paired for row in kept),
        }
        rest = [0] * (len(rows) - 1)
        return pa.table(found | {name: pa.array([count, *rest], pa.int32()) for name, count in counts.items()})

    def _columns(self, rows: Sequence[CorpusRow]) -> tuple[list[list[list[int]]], int]:
        """Ids of every sentence by column, and how many sentences were cut."""
        columns = zip(*(row.sentences for row in rows), strict=True)
        found = [
            self._tokenize([sentence[: self._longest_line] for sentence in column], self.max_length)
            for column in columns
        ]
        return [ids for ids, _ in found], sum(cut for _, cut in found)


def tokenize_corpus(
    corpus: Corpus, rows: TokenizedRows, cache_dir: str | Path | None = None, num_workers: int = 0
) -> TokenizedCorpus:
    """The tokenised corpus, from the cache where the same text was tokenised the same way before.

    The file appears under its name when it is whole. Processes that tokenise one text at the same time each write a
    whole file, and the last one stays; the files are the same.

    Args:
        corpus: the text.
        rows: makes the ids.
        cache_dir: folder of the cache files; None means `default_cache_dir`.
        num_workers: processes that tokenise, at most one a processor; 0 means this one.

    Raises:
        InputError: no row has text, the text cannot be read, see `Corpus.blocks`, or the folder takes no file.
    """
    folder = expanded(cache_dir) if cache_dir else default_cache_dir()
    path = folder / f"{hash_of(_FORMAT, corpus.fingerprint, rows.fingerprint)}.arrow"
    tokens, how = _kept(path), "from the cache"
    if tokens is None:
        with writing(f"data.reading.cache_dir: {folder}"):
            _write(corpus, rows, path, num_workers)
        tokens, how = TokenizedCorpus(path), "tokenised"
    _report(corpus, tokens, rows.max_length, how)
    return tokens


def _kept(path: Path) -> TokenizedCorpus | None:
    try:
        if not path.is_file():
            return None
        if _checksum(path, max(0, path.stat().st_size - _CHECKSUM)) != _end_of(path):
            raise pa.ArrowInvalid("its content has changed")
        return TokenizedCorpus(path)
    except (pa.ArrowException, OSError) as problem:
        logger.warning("%s cannot be used (%s) and is built again", path, problem)
        return None


def _report(corpus: Corpus, tokens: TokenizedCorpus, max_length: int | None, how: str) -> None:
    counts = tokens.counts
    some = f"{counts.unpaired} without a pair and their own positive, " if corpus.pairs else ""
    if counts.too_long:
        some += f"{counts.too_long} sentences cut in reading (data.reading.longest_line), "
    logger.info(
        "%s: %d rows %s (%d read, %d blank and skipped, %s%d sentences cut to %s tokens)",
        *(corpus.name, counts.kept, how, counts.rows, counts.blank, some, counts.cut),
        max_length or "the model's limit in",
    )
    share = counts.cut / (counts.kept * len(tokens.columns))
    if max_length and share > _MANY:
        logger.warning(
            "%.0f %% of the sentences are cut, and their ends are not trained on: model.encoder.max_length: %d "
            "in the configuration keeps more of it, in more time and memory; or give one sentence a line",
            *(100 * share, 2 * max_length),
        )
    if how == "tokenised":
        logger.info("the token ids are kept for the next start: %s", tokens.path)


def _write(corpus: Corpus, rows: TokenizedRows, path: Path, num_workers: int) -> None:
    for left in path.parent.glob(".*.arrow.*.tmp"):
        if time.time() - left.stat().st_mtime > _ABANDONED:
            left.unlink(missing_ok=True)
    tables: DataLoader[Any] = DataLoader(
        _Same(),  # type: ignore[arg-type]  # the sampler reads; `collate_fn` runs in the workers
        sampler=corpus.blocks(),
        batch_size=None,
        collate_fn=rows.table,
        num_workers=min(num_workers, os.cpu_count() or 1),
        generator=torch.Generator(),  # else it would draw from the global stream and shift the dropout
    )
    found = Counter[str]()
    bar = progress_bar(Console(stderr=True), disable=not sys.stderr.isatty())
    with atomic_write(path) as file:
        with ExitStack() as stack:
            stack.enter_context(bar)
            task, writer = bar.add_task(f"Tokenising {corpus.name}", total=None, note=""), None
            for table in tables:
                writer = writer or stack.enter_context(pa.ipc.new_stream(file, table.schema))
                writer.write_table(table)
                found.update(_counted(table))
                bar.update(task, completed=found["rows"])
        counts = CorpusCounts(**found)
        if not counts.kept:
            raise InputError(f"{corpus.name}: no sentences ({counts.rows} rows, all blank); give a file with text")
        if corpus.pairs is not None and counts.unpaired == counts.kept:
            raise InputError(
                f"no sentence of {corpus.sources[0].name} has a pair in {corpus.pairs.name}; are they the same "
                "sentences, and does the first of `reading.pair_columns` name them?"
            )
        file.flush()
        file.write(_checksum(file.name, file.tell()))


def _checksum(path: str | Path, length: int) -> bytes:
    """CRC-32 of the first bytes of a file."""
    found = 0
    with open(path, "rb") as file:
        while chunk := file.read(min(length, 1 << 20)):
            found = zlib.crc32(chunk, found)
            length -= len(chunk)
    return found.to_bytes(_CHECKSUM, "little")


def _end_of(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(-_CHECKSUM, os.SEEK_END)
        return file.read()


class _Same:
    """Gives a loader what its sampler gave."""

    def __getitem__(self, rows: list[CorpusRow]) -> list[CorpusRow]:
        return rows
