"""``sentrep encode``: lines in, vectors out, in bounded memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, cast

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from sentrep import checks
from sentrep.cli.embedding_parts import Embed, EmbeddingParts, Stored, chunks_of
from sentrep.cli.errors import UsageError
from sentrep.cli.functions import run_function, search_current_folder
from sentrep.cli.writers import EmbeddingWriter, open_writer
from sentrep.data.text.cells import text_cell
from sentrep.data.text.corpus import open_corpus
from sentrep.data.text.locations import is_address
from sentrep.data.text.shard import Shard, local_rank
from sentrep.encoder import GraphEncoder, SentenceEncoder
from sentrep.encoder.fingerprint import fingerprint
from sentrep.errors import InputError
from sentrep.io.paths import check_target
from sentrep.reports.text import printable

Precision = Literal["fp32", "bf16"]
Backend = Literal["torch", "onnx", "openvino"]

STORED = Stored()
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
    backend: Backend = "torch",
    compile: bool = False,
    shard: str | None = None,
    trust_remote_code: bool = False,
    stored: Stored = STORED,
) -> None:
    """Embed the sentences of a file, one row of the output for every row of the input.

    A blank line is a row as well (the vector of an empty sentence), so that line k of the input is row k of the output.
    An output without an ending is a folder of part files, for work that takes hours: several processes share it by
    --shard or under torchrun or srun, and the same command goes on behind the finished parts after any interruption.

    Args:
        model: a checkpoint, a model folder or a hub id.
        output: .npy (an array N × D), .parquet (columns sentence and embedding), or a folder of parts; local or an
            address such as s3://bucket/folder.
        input: .txt (a sentence a line), .csv, .tsv, .jsonl or .parquet, compressed or not, a glob of these, local or an
            address; - is standard input.
        column: name of the column with the sentences.
        batch_size: sentences of average length in one forward pass.
        normalize: scale every vector to length 1.
        pooling: replaces the model's own, for a plain transformers folder for example.
        device: cpu, cuda, cuda:1, ...; by default a GPU where there is one, under torchrun or srun the process's.
        precision: fp32, or bf16 to compute in bfloat16 where that is safe; faster where the machine has it.
        backend: what computes: torch, or onnx or openvino on the CPU for a folder of sentrep export --format.
        compile: run the model through torch.compile, which takes a minute or two at the start; for long texts on a GPU.
        shard: I/N, this process's share of N, I from 0; by default torchrun's or srun's, or everything.
        trust_remote_code: run code that the model names: a module of yours behind the pooling, or a hub model's own.
        stored: how the vectors are stored.

    Raises:
        InputError: for anything wrong with the files, the model or the device.
    """
    process = Shard.of(shard)
    if batch_size < 1:
        raise InputError(f"batch_size {batch_size}: expected at least 1")
    to_file = bool(Path(output).suffix)
    _check_output(output, to_file, input, stored, process)
    source = StandardInput() if input == "-" else CorpusColumn(input, column)
    if not is_address(output):
        check_target(output, [model, *source.files], folder=not to_file)
    with ExitStack() as stack:
        writer = stack.enter_context(open_writer(output, stored.dtype)) if to_file else None
        encoder = load_encoder(model, pooling, device, trust_remote_code, backend)
        if compile:
            encoder.compile_encoding()
        width = stored.truncate_dim
        if width is not None and not 1 <= width <= encoder.embedding_dim:
            raise InputError(f"truncate_dim {width}: expected 1 to {encoder.embedding_dim}, the model's dimension")

        def embed(chunk: list[str]) -> Any:
            with in_precision(precision, encoder):
                return encoder.encode(chunk, batch_size, False, normalize_embeddings=normalize, truncate_dim=width)

        if writer is not None:
            message = _write_file(source, writer, embed)
        else:
            settings = {"column": column, "model": fingerprint(encoder), "normalize": normalize, "precision": precision}
            message = _write_parts(source, EmbeddingParts(output, stored, settings), embed, process)
    print(printable(message), file=sys.stderr)


def _check_output(output: str, to_file: bool, input: str, stored: Stored, process: Shard) -> None:
    if to_file and process.count > 1:
        raise InputError(
            f"{output}: {process.count} processes ({process.origin}) write a folder of parts; give an output without "
            "an ending"
        )
    if to_file and stored.dtype == "int8":
        raise InputError("dtype int8 needs a place for its scales; give an output without an ending, for a folder")
    if not to_file and input == "-":
        raise InputError(f"{output}: a folder of parts needs an input that can be read again; name a file with --input")


def _write_file(source: Source, writer: EmbeddingWriter, embed: Embed) -> str:
    blank = 0
    with sentence_progress() as progress:
        task = progress.add_task("Encoding", total=None if isinstance(source, StandardInput) else 1.0, rows=0)
        for chunk in chunks_of(source, CHUNK):
            blank += sum(not sentence.strip() for sentence in chunk)
            writer.write(chunk, embed(chunk))
            progress.update(task, completed=source.fraction_read, rows=writer.rows)
        progress.update(task, completed=1.0, total=1.0)
    if writer.rows == 0:
        raise InputError(f"{source.name}: no sentences in it; nothing was written")
    note = f" ({blank} of them blank)" if blank else ""
    return f"{writer.rows} sentences{note}: {writer.path}"


def _write_parts(source: Source, parts: EmbeddingParts, embed: Embed, process: Shard) -> str:
    with sentence_progress() as progress:
        task = progress.add_task("Encoding", total=1.0, rows=0)
        for rows in parts.encode(source, embed, process, CHUNK):
            progress.update(task, completed=source.fraction_read, rows=rows)
    if not parts.total:
        raise InputError(f"{source.name}: no sentences in it; nothing was written")
    return parts.summary(process)


def load_encoder(
    model: str, pooling: str | None, device: str | None, trust_remote_code: bool = False, backend: Backend = "torch"
) -> SentenceEncoder:
    """An encoder on its device; see `encode` for the arguments.

    Raises:
        InputError: for a model that cannot be loaded or a device that is not there.
    """
    if device == "meta":
        raise InputError("device meta cannot be used here: it computes nothing; use cpu, or leave it out")
    if trust_remote_code:
        search_current_folder()
    if backend != "torch":
        if pooling is not None or device not in (None, "cpu"):
            raise InputError(f"a graph has its own pooling and computes on the CPU: with backend {backend} leave out "
                             "pooling and device")  # fmt: skip
        return cast(SentenceEncoder, GraphEncoder(model, backend, trust_remote_code))
    encoder = SentenceEncoder.from_pretrained(
        model, trust_remote_code=trust_remote_code, **checks.given(pooling=pooling)
    )
    try:
        own = f"cuda:{local_rank()}" if torch.cuda.is_available() else "cpu"
        return encoder.to(own if device is None else device)
    except (RuntimeError, AssertionError) as error:  # torch's own message goes on over pages
        raise InputError(f"device {device} cannot be used here: {str(error).splitlines()[0]}") from None


def in_precision(precision: Precision, encoder: SentenceEncoder) -> torch.autocast:
    """The context in which the encoder computes in that precision; its vectors are float32 in either.

    Raises:
        InputError: for bf16 and a graph.
    """
    if precision == "bf16" and not isinstance(encoder, SentenceEncoder):
        raise InputError("precision bf16 is for the backend torch; a graph computes in what it was exported in")
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
        path: what `sentrep.data.text.corpus.open_corpus` opens.
        column: which column; None picks the usual one.
    """

    def __init__(self, path: str, column: str | None) -> None:
        self._corpus = open_corpus(path, None if column is None else [column])
        self.name = self._corpus.name
        self.files = [source.name for source in self._corpus.sources]

    @property
    def fraction_read(self) -> float:
        """In [0, 1]."""
        return self._corpus.fraction_read

    def __iter__(self) -> Iterator[str]:
        return (row.sentences[0] for row in self._corpus.rows())


class StandardInput:
    """The lines of standard input, UTF-8."""

    name = "standard input"
    fraction_read, files = 0.0, ()

    def __iter__(self) -> Iterator[str]:
        for number, line in enumerate(sys.stdin.buffer, start=1):
            text = line.decode("utf-8", "surrogateescape").rstrip("\r\n")
            yield text_cell(text, f"standard input, line {number}")


Source = StandardInput | CorpusColumn


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
