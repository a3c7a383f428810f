"""A corpus and a file of pairs, joined by sentence."""

from __future__ import annotations

import functools
import hashlib
import mmap
import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import BinaryIO

import numpy as np

from sentrep.data.text.corpus import Corpus, CorpusRow, TrainingText, open_corpus
from sentrep.data.text.fingerprints import hash_of
from sentrep.data.text.lines import LONGEST_LINE
from sentrep.errors import InputError

_CHUNK_ROWS = 8192
_KEY_BYTES = 16


class PairedCorpus:
    """Every row of a corpus with its positive from a table of pairs; a row without one is its own positive.

    Two sentences are the same when they differ in white space only. Where a sentence has several pairs, the first one
    counts; pairs with a blank cell are left out. In memory there are 32 bytes a pair; the positives wait in a temporary
    file.

    Args:
        corpus: the sentences, one column.
        pairs: sentence and positive; a third column is not used, because a row without a pair has no hard negative.
    """

    def __init__(self, corpus: Corpus, pairs: Corpus) -> None:
        self.corpus, self.pairs = corpus, pairs

    @property
    def name(self) -> str:
        """Both in words."""
        return f"{self.corpus.name} with the pairs of {self.pairs.name}"

    @property
    def fraction_read(self) -> float:
        """How far the reading of the corpus is, in [0, 1]."""
        return self.corpus.fraction_read

    @property
    def too_long(self) -> int:
        """Sentences of both that were cut in reading so far."""
        return self.corpus.too_long + self.pairs.too_long

    @functools.cached_property
    def fingerprint(self) -> str:
        """Hash of both texts and their columns."""
        return hash_of("joined by sentence", self.corpus.fingerprint, self.pairs.fingerprint)

    def rows(self) -> Iterator[CorpusRow]:
        """All rows of the corpus, each with two sentences; `CorpusRow.paired` says where the second comes from.

        Raises:
            InputError: see `Corpus.rows`; or the corpus has positives already, the pairs have none, or no sentence of
                the corpus has a pair.
        """
        found = 0
        rows = self.corpus.rows()
        with tempfile.TemporaryFile() as file:
            positives = _Positives(self.pairs, file)
            while chunk := list(islice(rows, _CHUNK_ROWS)):
                if len(chunk[0].sentences) != 1:
                    raise InputError(
                        f"{self.corpus.name}: {len(chunk[0].sentences)} columns of sentences, but `pairs` gives the "
                        "positives; name the one column of the sentences (`columns`), or leave `pairs` out"
                    )
                for row, positive in zip(chunk, positives.look_up([row.sentences[0] for row in chunk]), strict=True):
                    found += positive is not None
                    sentence = row.sentences[0]
                    yield CorpusRow(row.number, (sentence, positive or sentence), paired=positive is not None)
        if not found:
            raise InputError(
                f"no sentence of {self.corpus.name} has a pair in {self.pairs.name}; are they the same sentences, and "
                "does the first of `reading.pair_columns` name them?"
            )


def open_training_text(
    train: TrainingText,
    columns: Sequence[str | int] | None = None,
    pairs: TrainingText | None = None,
    pair_columns: Sequence[str | int] | None = None,
    split: str = "train",
    streaming: bool = False,
    longest: int = LONGEST_LINE,
) -> Corpus | PairedCorpus:
    """The corpus, joined with pairs where there are any; the arguments are those of `SentRepDataModule`.

    Raises:
        InputError: a file is missing.
    """
    corpus = open_corpus(train, columns, split, streaming, longest)
    return corpus if pairs is None else PairedCorpus(corpus, open_corpus(pairs, pair_columns, split, longest=longest))


class _Positives:
    """From a sentence to its positive: sorted hashes in memory, the text in a file.

    Args:
        pairs: sentence and positive.
        file: empty and writable.
    """

    def __init__(self, pairs: Corpus, file: BinaryIO) -> None:
        keys, sizes = bytearray(), [np.zeros(1, np.int64)]
        rows = pairs.rows()
        while chunk := list(islice(rows, _CHUNK_ROWS)):
            if len(chunk[0].sentences) < 2:
                raise InputError(
                    f"{pairs.name}: one column of sentences; expected a sentence and its positive "
                    "(`reading.pair_columns`)"
                )
            texts = []
            for row in chunk:
                if row.sentences[0].strip() and row.sentences[1].strip():
                    keys += _key(row.sentences[0])
                    texts.append(row.sentences[1].encode())
            _append(file, b"".join(texts))
            sizes.append(np.array([len(text) for text in texts], np.int64))
        self._ends = np.cumsum(np.concatenate(sizes))
        if not keys:
            raise InputError(f"{pairs.name}: no pairs in it; give a file of sentences and their positives")
        # fixed-width bytes: numpy ignores trailing zeros in them, which tells digests of one length apart all the same
        unsorted = np.frombuffer(bytes(keys), f"S{_KEY_BYTES}")
        self._order = np.argsort(unsorted, kind="stable")  # stable: of equal keys the first in the file stays first
        self._keys = unsorted[self._order]
        self._text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def look_up(self, sentences: list[str]) -> list[str | None]:
        """The positive of each sentence, or None."""
        wanted = np.frombuffer(b"".join(map(_key, sentences)), f"S{_KEY_BYTES}")
        places = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        found = self._keys[places] == wanted
        return [
            self._text[self._ends[row] : self._ends[row + 1]].decode() if hit else None
            for row, hit in zip(self._order[places].tolist(), found.tolist(), strict=True)
        ]


def _key(sentence: str) -> bytes:
    # 128 bits: that two of a billion sentences share a key has a probability below 1e-20
    return hashlib.blake2b(" ".join(sentence.split()).encode(), digest_size=_KEY_BYTES).digest()


def _append(file: BinaryIO, text: bytes) -> None:
    try:
        file.write(text)
        file.flush()
    except OSError as error:
        raise InputError(
            f"cannot keep the pairs in {tempfile.gettempdir()}: {error.strerror}; make room there, or name another "
            "folder in the environment variable TMPDIR"
        ) from error
