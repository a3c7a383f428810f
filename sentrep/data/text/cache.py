"""The training text as token ids: tokenised once, kept in an Arrow file, read through a memory map."""

from __future__ import annotations

import logging
import mmap
import os
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from sentrep.data.text.corpus import Corpus, CorpusRow
from sentrep.data.text.fingerprints import hash_of
from sentrep.data.text.pairing import PairedCorpus
from sentrep.errors import InputError
from sentrep.io.files import atomic_write, remove_leftovers
from sentrep.io.paths import check_plain, expanded
from sentrep.types import Tokenize

logger = logging.getLogger("sentrep")

_FORMAT = "sentrep tokens 2"
_CHUNK_ROWS = 8192
_MANY = 0.4
"""Share of sentences that are cut from which there is advice."""
_COLUMNS = ("anchor", "positive", "negative")


class TokenRow(NamedTuple):
    """One row of the tokenised corpus."""

    row: int
    """Its number in the corpus, see `CorpusRow.number`."""
    ids: tuple[NDArray[np.int32], ...]
    """Token ids of the anchor and, where the corpus has them, of the positive and the hard negative."""


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
    """Sentences of more characters than ``data.reading.longest_line``, of which the rest was not read."""
    unpaired: int = 0
    """Kept rows that are their own positive, because the pairs joined to the corpus have none for them."""

    @property
    def kept(self) -> int:
        """Rows to train on."""
        return self.rows - self.blank


class TokenizedCorpus:
    """Random access to the token ids in a cache file, through a memory map: nothing is copied.

    Args:
        path: a file that `tokenize_corpus` wrote.

    Raises:
        pyarrow.ArrowInvalid: the file is cut off, damaged or not ours.
        InputError: on access, where the file was cut since it was opened.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        if os.path.exists(path):
            check_plain(path)  # a pipe would be waited for
        with open(self.path, "rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        reader = pa.ipc.open_file(pa.py_buffer(self._map))
        if (reader.schema.metadata or {}).get(b"format") != _FORMAT.encode():
            raise pa.ArrowInvalid(f"{path} is not a token cache of this version")
        self._chunks: list[_Chunk] = []
        for index in range(reader.num_record_batches):
            batch, metadata = reader.get_batch_with_custom_metadata(index)
            chunk = _Chunk(batch)
            if chunk.checksum() != metadata[b"checksum"].decode():
                raise pa.ArrowInvalid(f"{path} is damaged")
            self._chunks.append(chunk)
        if not self._chunks:
            raise pa.ArrowInvalid(f"{path} is empty")
        self._starts = np.cumsum([0, *(len(chunk.rows) for chunk in self._chunks)])
        self.counts = CorpusCounts(**{name: int(metadata[name.encode()]) for name in asdict(CorpusCounts())})

    def check_ids(self, vocabulary_size: int) -> None:
        """Refuse ids that no token has.

        Raises:
            ValueError: there is one.
        """
        if any(chunk.largest_id() >= vocabulary_size for chunk in self._chunks):
            raise ValueError(f"it has ids that none of {vocabulary_size} tokens has")

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, index: int) -> TokenRow:
        """Row ``index`` of the kept rows, in corpus order."""
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[TokenRow]:
        """Several of them: a DataLoader asks for a batch at a time, which is twice as fast as row by row."""
        self._check_length()
        rows = np.asarray(indices)
        if len(rows) and not (rows.min() >= 0 and rows.max() < len(self)):
            raise IndexError(f"rows {rows.min()} to {rows.max()} of a corpus of {len(self)}")
        numbers = np.searchsorted(self._starts, rows, side="right") - 1
        places = (rows - self._starts[numbers]).tolist()
        return [self._chunks[number][place] for number, place in zip(numbers.tolist(), places, strict=True)]

    def sentence_keys(self) -> NDArray[np.uint64]:
        """A 64-bit key of every sentence, (rows, columns): equal ids have equal keys, others practically never."""
        self._check_length()
        return np.concatenate([chunk.keys() for chunk in self._chunks])

    def _check_length(self) -> None:
        """Look at the file's length before reading from the map: past the end the system would kill this process."""
        if self._map.size() != len(self._map):
            hint = "leave the cache alone and go on with --ckpt_path last: the file is built again"
            raise InputError(f"{self.path}: was cut or written to while it was being read; {hint}")

    def __reduce__(self) -> tuple[type[TokenizedCorpus], tuple[str]]:
        return TokenizedCorpus, (self.path,)  # a worker process maps the file again instead of receiving a copy


class _Chunk:
    """Numpy views of one record batch."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        batch.validate(full=True)
        self.rows = batch.column("row").to_numpy()
        lists = [batch.column(name) for name in batch.schema.names if name != "row"]
        self._columns = [(column.offsets.to_numpy(), column.values.to_numpy()) for column in lists]

    def __getitem__(self, index: int) -> TokenRow:
        ids = [values[offsets[index] : offsets[index + 1]] for offsets, values in self._columns]
        return TokenRow(int(self.rows[index]), tuple(ids))

    def keys(self) -> NDArray[np.uint64]:
        columns = []
        for offsets, values in self._columns:
            starts, lengths = offsets[:-1], np.diff(offsets)
            place = np.arange(offsets[0], offsets[-1]) - np.repeat(starts, lengths)
            factors = np.random.default_rng(0).integers(2**64, size=lengths.max(initial=0), dtype=np.uint64)
            # + 1: an id of 0 must count; sums wrap around, and so do their differences
            summands = (values[offsets[0] : offsets[-1]].astype(np.uint64) + np.uint64(1)) * factors[place]
            sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(summands, dtype=np.uint64)])
            columns.append(sums[offsets[1:] - offsets[0]] - sums[starts - offsets[0]])
        return np.stack(columns, axis=1)

    def largest_id(self) -> int:
        # as unsigned numbers, where the negative ones are the largest
        return max(int(values.view(np.uint32).max(initial=0)) for _, values in self._columns)

    def checksum(self) -> str:
        crc = 0
        for array in chain([self.rows], *self._columns):
            crc = zlib.crc32(array, crc)
        return str(crc)


def default_cache_dir() -> Path:
    """``$SENTREP_CACHE``, or ``~/.cache/sentrep``."""
    return expanded(os.environ.get("SENTREP_CACHE") or "~/.cache/sentrep")


def tokenize_corpus(
    corpus: Corpus | PairedCorpus, tokenize: Tokenize, max_length: int | None, cache_dir: str | Path | None = None
) -> TokenizedCorpus:
    """The tokenised corpus, from the cache where the same text was tokenised the same way before.

    Args:
        corpus: the text.
        tokenize: gives the ids.
        max_length: longest sequence in tokens, special tokens included; None means the model's limit.
        cache_dir: folder of the cache files; None means `default_cache_dir`.

    Raises:
        InputError: no row has text, or the text cannot be read, see `Corpus.rows`.
    """
    folder = expanded(cache_dir) if cache_dir else default_cache_dir()
    path = folder / f"{hash_of(_FORMAT, corpus.fingerprint, tokenize.fingerprint, max_length)}.arrow"
    how = "from the cache"
    try:
        tokens = TokenizedCorpus(path)
        tokens.check_ids(tokenize.vocabulary_size)
    except (FileNotFoundError, pa.ArrowException, OSError, KeyError, ValueError) as problem:
        if not isinstance(problem, FileNotFoundError):
            logger.warning("%s cannot be used (%s) and is built again", path, problem)
        _build(corpus, tokenize, max_length, path)
        tokens, how = TokenizedCorpus(path), "tokenised"
    counts = tokens.counts
    some = f"{counts.unpaired} without a pair and their own positive, " if isinstance(corpus, PairedCorpus) else ""
    if counts.too_long:
        some += f"{counts.too_long} sentences cut in reading (data.reading.longest_line), "
    logger.info(
        "%s: %d rows %s (%d read, %d blank and skipped, %s%d sentences cut to %s tokens)",
        *(corpus.name, counts.kept, how, counts.rows, counts.blank, some, counts.cut),
        max_length or "the model's limit in",
    )
    share = counts.cut / (counts.kept * len(tokens[0].ids))
    if max_length and share > _MANY:
        logger.warning(
            "%.0f %% of the sentences are cut, and what stands behind is not trained on: model.encoder.max_length: %d "
            "in the configuration keeps more of it, in more time and memory; or give one sentence a line",
            *(100 * share, 2 * max_length),
        )
    if how == "tokenised":
        logger.info("the token ids are kept for the next start: %s", path)
    return tokens


def _build(corpus: Corpus | PairedCorpus, tokenize: Tokenize, max_length: int | None, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"data.reading.cache_dir: {path.parent} cannot be a folder ({error.strerror})") from error
    remove_leftovers(path.parent, path.name)
    with atomic_write(path) as file:
        counts = _write(corpus, tokenize, max_length, pa.PythonFile(file))
        if not counts.kept:
            raise InputError(f"{corpus.name}: no sentences ({counts.rows} rows, all blank); give a file with text")


def _write(
    corpus: Corpus | PairedCorpus, tokenize: Tokenize, max_length: int | None, sink: pa.NativeFile
) -> CorpusCounts:
    counts = CorpusCounts()
    writer: pa.RecordBatchFileWriter | None = None
    rows, before = corpus.rows(), corpus.too_long
    with _progress() as progress:
        task = progress.add_task(f"Tokenising {corpus.name}", total=1.0, rows="0")
        while chunk := list(islice(rows, _CHUNK_ROWS)):
            kept = [row for row in chunk if not row.blank]
            counts.rows += len(chunk)
            counts.blank += len(chunk) - len(kept)
            counts.unpaired += sum(not row.paired for row in kept)
            counts.too_long = corpus.too_long - before
            batch, cut = _tokenize_chunk(kept, len(chunk[0].sentences), tokenize, max_length)
            counts.cut += cut
            if writer is None:
                writer = pa.ipc.new_file(sink, batch.schema)
            # the totals so far go with every batch: those of the last one are the totals of the file
            totals = {name: str(value) for name, value in asdict(counts).items()}
            writer.write_batch(batch, custom_metadata={**totals, "checksum": _Chunk(batch).checksum()})
            progress.update(task, completed=corpus.fraction_read, rows=f"{counts.rows:,}")
    if writer is not None:
        writer.close()
    return counts


def _tokenize_chunk(
    rows: list[CorpusRow], width: int, tokenize: Tokenize, max_length: int | None
) -> tuple[pa.RecordBatch, int]:
    """Rows without blanks → their ids as a record batch, and how many sentences were cut."""
    columns: dict[str, pa.Array] = {"row": pa.array([row.number for row in rows], pa.int64())}
    cut = 0
    for position, name in enumerate(_COLUMNS[:width]):
        ids, cut_here = tokenize([row.sentences[position] for row in rows], max_length) if rows else ([], 0)
        cut += cut_here
        offsets = np.zeros(len(ids) + 1, np.int32)
        np.cumsum([len(sentence) for sentence in ids], out=offsets[1:])
        values = np.fromiter(chain.from_iterable(ids), np.int32, count=int(offsets[-1]))
        columns[name] = pa.ListArray.from_arrays(offsets, values)
    return pa.RecordBatch.from_pydict(columns, metadata={"format": _FORMAT}), cut


def _progress() -> Progress:
    texts = TextColumn("{task.description}"), TextColumn("{task.fields[rows]} rows")
    columns = texts[0], BarColumn(), TaskProgressColumn(), texts[1], TimeRemainingColumn()
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)  # a log: no blank line
