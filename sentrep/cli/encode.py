"""``sentrep encode``: lines in, vectors out, in bounded memory."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Literal

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from sentrep.cli.errors import UsageError
from sentrep.cli.functions import run_function
from sentrep.cli.writers import open_writer
from sentrep.data.corpus import open_corpus
from sentrep.encoder import SentenceEncoder
from sentrep.errors import InputError

Precision = Literal["fp32", "bf16"]

CHUNK = 8192
"""Sentences in memory at a time; enough that sorting them by length leaves little padding."""


def run(command: str, words: list[str]) -> int:
    """Run the command."""
    run_function(encode, command, words)
    return 0


def encode(
    model: str,
    *,
    output: str,
    input: str = "-",
    column: str | None = None,
    batch_size: int = 32,
    normalize: bool = False,
    pooling: str | None = None,
    device: str | None = None,
    precision: Precision = "fp32",
) -> None:
    """Embed the sentences of a file, one row of the output for every row of the input.

    A blank line is a row as well (the vector of an empty sentence), so that line k of the input is row k of the output.

    Args:
        model: a checkpoint, a model folder or a hub id.
        output: file to write: .npy (an array N × D) or .parquet (columns sentence and embedding).
        input: .txt (a sentence a line), .csv, .tsv, .jsonl or .parquet, compressed or not; - is standard input.
        column: name of the column with the sentences.
        batch_size: sentences of average length in one forward pass.
        normalize: scale every vector to length 1.
        pooling: replaces the model's own, for a plain transformers folder for example.
        device: cpu, cuda, cuda:1, ...; by default a GPU where there is one.
        precision: fp32, or bf16 to compute in bfloat16 where that is safe; faster where the machine has it.

    Raises:
        InputError: for anything wrong with the files, the model or the device.
    """
    source = StandardInput() if input == "-" else CorpusColumn(input, column)
    with open_writer(Path(output)) as writer:
        encoder = load_encoder(model, pooling, device)
        blank = 0
        with sentence_progress() as progress:
            task = progress.add_task("Encoding", total=None if input == "-" else 1.0, rows=0)
            for chunk in _chunks(source):
                blank += sum(not sentence.strip() for sentence in chunk)
                with in_precision(precision, encoder):
                    vectors = encoder.encode(chunk, batch_size, show_progress_bar=False, normalize_embeddings=normalize)
                writer.write(chunk, vectors)  # type: ignore[arg-type]
                progress.update(task, completed=source.fraction_read, rows=writer.rows)
            progress.update(task, completed=1.0, total=1.0)
        if writer.rows == 0:
            raise InputError(f"{source.name}: no sentences in it; nothing was written")
    note = f" ({blank} of them blank)" if blank else ""
    print(f"{writer.rows} sentences{note}: {output}", file=sys.stderr)


def load_encoder(model: str, pooling: str | None, device: str | None) -> SentenceEncoder:
    """An encoder on its device; see `encode` for the arguments.

    Raises:
        InputError: for a model that cannot be loaded or a device that is not there.
    """
    encoder = SentenceEncoder.from_pretrained(model, **({} if pooling is None else {"pooling": pooling}))
    try:
        return encoder.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    except (RuntimeError, AssertionError) as error:  # torch's own message goes on over pages
        raise InputError(f"device {device} cannot be used here: {str(error).splitlines()[0]}") from None


def in_precision(precision: Precision, encoder: SentenceEncoder) -> torch.autocast:
    """The context in which the encoder computes in that precision; its vectors are float32 in either."""
    return torch.autocast(encoder.device.type, torch.bfloat16, enabled=precision == "bf16")


def whitening_corpus(whiten: str | None, whiten_dim: int | None) -> CorpusColumn | None:
    """The sentences of the file ``whiten`` that a whitening is fitted on, or None for no whitening.

    Raises:
        UsageError: for a dimension without a file.
    """
    if whiten is None and whiten_dim is not None:
        raise UsageError("--whiten_dim says how far to cut a whitening: name a file of sentences with --whiten")
    return None if whiten is None else CorpusColumn(whiten, None)


class CorpusColumn:
    """The sentences of a file, streamed.

    Args:
        path: what `sentrep.data.corpus.open_corpus` opens.
        column: which column; None picks the usual one.
    """

    def __init__(self, path: str, column: str | None) -> None:
        self._corpus = open_corpus(path, None if column is None else [column])
        self.name = self._corpus.name

    @property
    def fraction_read(self) -> float:
        """In [0, 1]."""
        return self._corpus.fraction_read

    def __iter__(self) -> Iterator[str]:
        return (row.sentences[0] for row in self._corpus.rows())


class StandardInput:
    """The lines of standard input, UTF-8."""

    name = "standard input"
    fraction_read = 0.0

    def __iter__(self) -> Iterator[str]:
        for number, line in enumerate(sys.stdin.buffer, start=1):
            try:
                yield line.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError:
                raise InputError(f"standard input, line {number}: not UTF-8 text; convert it first") from None


def _chunks(sentences: Iterable[str]) -> Iterator[list[str]]:
    rows = iter(sentences)
    while chunk := list(islice(rows, CHUNK)):
        yield chunk


def sentence_progress() -> Progress:
    """On standard error: the share of a text that is done, ``rows`` (a field of the task), and the time left."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rows]} sentences"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
