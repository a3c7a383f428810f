"""The training text as token ids: tokenised once by ``datasets``, kept in an Arrow file, read through a memory map."""

from __future__ import annotations

import logging
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from filelock import FileLock
from numpy.typing import NDArray

from sentrep.data.text.corpus import COLUMNS, Corpus, RowReader, warn_of_long
from sentrep.data.text.fingerprints import hash_of, keys_of
from sentrep.data.text.tables import quiet
from sentrep.errors import InputError
from sentrep.io.files import atomic_write
from sentrep.io.paths import default_cache_dir, expanded
from sentrep.types import Tokenize

logger = logging.getLogger("sentrep")

_FORMAT = "sentrep tokens 4"
_CHUNK_ROWS = 8192
_MANY = 0.4
"""Share of sentences that are cut from which there is advice."""
_WORK = ".building-"


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
        rows: which of its rows, by their number in the text; None means all that are not null.

    Raises:
        pyarrow.ArrowInvalid: the file is cut off or damaged.
    """

    def __init__(self, path: str | Path, rows: NDArray[np.int64] | None = None) -> None:
        self.path = str(path)
        table = pa.ipc.open_stream(pa.memory_map(self.path)).read_all()
        counted = {name: pc.sum(table[name]).as_py() for name in ("cut", "too_long", "unpaired")}
        self.counts = CorpusCounts(table.num_rows, table[COLUMNS[0]].null_count, **counted)
        self.columns = [name for name in COLUMNS if name in table.column_names]
        self.rows = np.flatnonzero(table[COLUMNS[0]].is_valid()) if rows is None else rows
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

    def check_ids(self, vocabulary_size: int) -> None:
        """See that every id is one of a token, so that a damaged file ends no training.

        Raises:
            pyarrow.ArrowInvalid: one is not.
        """
        for ids in (ids for batch in self._views for _, ids in batch if len(ids)):
            if ids.min() < 0 or ids.max() >= vocabulary_size:
                raise pa.ArrowInvalid(f"it has ids that none of {vocabulary_size} tokens has")

    def sentence_keys(self) -> NDArray[np.uint64]:
        """A 64-bit key of every sentence, (rows, columns): equal ids have equal keys, others practically never."""
        chunks = (self[range(start, min(start + _CHUNK_ROWS, len(self)))] for start in range(0, len(self), _CHUNK_ROWS))
        return np.concatenate(
            [np.stack([keys_of(ids.tobytes() for ids in column) for column in rows.columns], 1) for rows in chunks]
        )

    def __reduce__(self) -> tuple[type[TokenizedCorpus], tuple[Any, ...]]:
        return TokenizedCorpus, (self.path, self.rows)  # a worker process maps the file again


def _cell(ids: tuple[NDArray[np.int32], NDArray[np.int32]], place: int) -> NDArray[np.int32]:
    offsets, values = ids
    return values[offsets[place] : offsets[place + 1]]


def tokenize_corpus(
    corpus: Corpus,
    tokenize: Tokenize,
    max_length: int | None,
    cache_dir: str | Path | None = None,
    num_workers: int = 0,
) -> TokenizedCorpus:
    """The tokenised corpus, from the cache where the same text was tokenised the same way before.

    Of several processes that want to tokenise into one cache, one does; the others wait and open its file.

    Args:
        corpus: the text.
        tokenize: gives the ids.
        max_length: longest sequence in tokens, special tokens included; None means the model's limit.
        cache_dir: folder of the cache files; None means `default_cache_dir`.
        num_workers: processes that tokenise; 0 and 1 mean this one.

    Raises:
        InputError: no row has text, or the text cannot be read, see `Corpus.rows`.
    """
    folder = expanded(cache_dir) if cache_dir else default_cache_dir()
    path = folder / f"{hash_of(_FORMAT, corpus.fingerprint, tokenize.fingerprint, max_length)}.arrow"
    tokens, how = _kept(path, tokenize), "from the cache"
    if tokens is None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"data.reading.cache_dir: {folder} cannot be a folder ({error.strerror})") from error
        with FileLock(folder / ".lock"):
            tokens = _kept(path, tokenize)
            if tokens is None:
                for left in folder.glob(f"{_WORK}*"):  # by processes that were killed
                    shutil.rmtree(left)
                with tempfile.TemporaryDirectory(prefix=_WORK, dir=folder) as work:
                    _build(corpus, tokenize, max_length, path, Path(work), num_workers)
                tokens, how = TokenizedCorpus(path), "tokenised"
    _report(corpus, tokens, max_length, how)
    return tokens


def _kept(path: Path, tokenize: Tokenize) -> TokenizedCorpus | None:
    if not path.is_file():
        return None
    try:
        tokens = TokenizedCorpus(path)
        tokens.check_ids(tokenize.vocabulary_size)
    except (pa.ArrowException, OSError) as problem:
        logger.warning("%s cannot be used (%s) and is built again", path, problem)
        return None
    return tokens


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
            "%.0f %% of the sentences are cut, and what stands behind is not trained on: model.encoder.max_length: %d "
            "in the configuration keeps more of it, in more time and memory; or give one sentence a line",
            *(100 * share, 2 * max_length),
        )
    if how == "tokenised":
        logger.info("the token ids are kept for the next start: %s", tokens.path)


def _build(
    corpus: Corpus, tokenize: Tokenize, max_length: int | None, path: Path, work: Path, num_workers: int
) -> None:
    parts, first = [], 0
    with quiet(bars=sys.stderr.isatty()):
        for number, (source, (dataset, wanted)) in enumerate(corpus.tables(work / "text")):
            if not len(dataset):
                continue
            part = dataset.select_columns(wanted).map(
                partial(_tokenize, wanted=wanted, read=corpus.reader(source, first), how=(tokenize, max_length)),
                with_indices=True,
                batched=True,
                batch_size=_CHUNK_ROWS,
                writer_batch_size=_CHUNK_ROWS,
                remove_columns=wanted,
                new_fingerprint=f"{number}",
                cache_file_name=str(work / f"{number}.arrow"),
                num_proc=num_workers if num_workers > 1 else None,
                desc=f"Tokenising {source.name}",
            )
            first += len(part)
            parts.append(part.with_format("arrow")[:])
    kept = first - sum(part[COLUMNS[0]].null_count for part in parts)
    if not kept:
        raise InputError(f"{corpus.name}: no sentences ({first} rows, all blank); give a file with text")
    tokens = pa.concat_tables(parts)
    if pc.sum(tokens["unpaired"]).as_py() == kept:
        raise corpus.no_pair()
    warn_of_long(corpus.name, pc.sum(tokens["too_long"]).as_py(), corpus.longest)
    with atomic_write(path) as file, pa.ipc.new_stream(file, tokens.schema) as writer:
        writer.write_table(tokens, max_chunksize=_CHUNK_ROWS)


def _tokenize(
    batch: dict[str, list[Any]],
    indices: Sequence[int],
    *,
    wanted: Sequence[str],
    read: RowReader,
    how: tuple[Tokenize, int | None],
) -> pa.Table:
    """Token ids of each of `COLUMNS`, null for a blank row, and what is counted; sentences cut in the first row."""
    rows = read(list(zip(*(batch[name] for name in wanted), strict=True)), indices[0])
    kept, columns, cut = [row for row in rows if not row.blank], dict[str, pa.Array](), 0
    tokenize, max_length = how
    for position, name in enumerate(COLUMNS[: len(rows[0].sentences)]):
        ids, cut_here = tokenize([row.sentences[position] for row in kept], max_length) if kept else ([], 0)
        cut += cut_here
        cells = iter(ids)
        columns[name] = pa.array([None if row.blank else next(cells) for row in rows], pa.list_(pa.int32()))
    counted = {
        "cut": [cut, *[0] * (len(rows) - 1)],
        "too_long": [0 if row.blank else row.too_long for row in rows],
        "unpaired": [int(not (row.blank or row.paired)) for row in rows],
    }
    return pa.table(columns | {name: pa.array(counts, pa.int32()) for name, counts in counted.items()})
