"""``sentrep encode``: lines in, vectors out, block by block into one array that survives whatever ends the work."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from sentrep.errors import InputError
from sentrep.io.paths import check_target, expanded, writing
from sentrep.io.text import printable

BLOCK = 4096
"""Rows of a block. A kill loses at most one block."""


def encode(
    model: str,
    *,
    input: str,
    output: str,
    column: str | None = None,
    batch_size: int = 32,
    prompt_name: str | None = None,
    normalize: bool = False,
    pooling: str | None = None,
    device: str | None = None,
    precision: Literal["fp32", "bf16"] = "fp32",
    backend: Literal["torch", "onnx"] = "torch",
    engine: Literal["local", "ray"] = "local",
    overwrite: bool = False,
    trust_remote_code: bool = False,
) -> None:
    """Embed the sentences of a file, one row of the output for every row of the input.

    For example: sentrep encode best.ckpt --input lines.txt --output vectors.npy

    A blank line is a row as well (the vector of an empty sentence), so that line k of the input is row k of the output.
    After an interruption the same command resumes after the last finished block of rows.

    Args:
        model: a checkpoint, a model folder or a hub id.
        input: .txt (a sentence a line), .csv, .tsv, .jsonl or .parquet, compressed or not, a glob of these, local or an
            address.
        output: .npy, an array N × D of float32; with --engine ray a folder of parquet files, or its address.
        column: name of the column with the sentences.
        batch_size: sentences of average length in one forward pass.
        prompt_name: which of the model's prompts stands before each sentence; by default its default prompt.
        normalize: scale every vector to length 1.
        pooling: replaces the model's own, for a plain transformers folder for example.
        device: cpu, cuda, cuda:1, ...; by default a GPU if the machine has one.
        precision: fp32, or bf16 for mixed precision in bfloat16; faster if the processor supports it.
        backend: torch, or onnx for the graph of sentrep export --format onnx, on the CPU.
        engine: local works here; ray gives the text to the machines of a Ray cluster, with a worker on each GPU, or on
            each CPU of machines without a GPU.
        overwrite: replace an output that is there already, or unfinished work of other settings or another text.
        trust_remote_code: run code that the model names: your own module after the pooling, or a hub model's code.

    Raises:
        InputError: for anything wrong with the files, the model or the device.
    """
    from sentrep.cli.models import check_precision, load_encoder, prompt_of, vectors_of

    how: dict[str, Any] = {"batch_size": batch_size, "precision": precision, "normalize": normalize}
    if engine == "ray":
        from sentrep.cli.encode_on_ray import encode_on_ray

        encode_on_ray(
            model, input, column, output, overwrite, device, how, pooling, backend, prompt_name, trust_remote_code
        )
        return
    if not output.endswith(".npy"):
        raise InputError(f"cannot write {output}: it must end in .npy, or take --engine ray and a folder")
    if "RANK" in os.environ or int(os.environ.get("SLURM_NTASKS", 1)) > 1:
        raise InputError("encode writes one file from one process: start it without a launcher, or take --engine ray")

    from sentrep.data.files import sentences_of
    from sentrep.data.text import open_text
    from sentrep.encoder.fingerprint import fingerprint

    text = open_text(input, None if column is None else [column])
    check_target(output, [model, *text.files], overwrite=overwrite)
    encoder = load_encoder(model, pooling, device, trust_remote_code, backend)
    check_precision(precision, encoder)
    rows = sum(1 for _ in text.rows)  # an unreadable line is found here, before hours of work
    if not rows:
        raise InputError("no sentences in the input; nothing was written")
    prompt = prompt_of(encoder, prompt_name)
    settings = {"model": fingerprint(encoder), "text": text.fingerprint, "prompt": prompt, **how}
    with Unfinished(output, (rows, encoder.truncate_dim or encoder.embedding_dim), settings, overwrite) as array:
        for block in array.blocks(sentences_of(row)[0] for row in text.rows):
            array.add(vectors_of(encoder, block, prompt=prompt, **how))
    print(printable(f"{rows} sentences: {output}"), file=sys.stderr)


class Unfinished:
    """A memory-mapped array under a hidden name, and a file that records how many of its rows are written.

    Args:
        output: the file.
        shape: (N, D).
        settings: plain values that determine the vectors.
        overwrite: start again if the record has other settings.

    Raises:
        InputError: there is unfinished work of other settings, or no room for the array.
    """

    def __init__(self, output: str, shape: tuple[int, int], settings: dict[str, Any], overwrite: bool) -> None:
        import numpy as np

        self._place = expanded(output)
        self._file, self._record = (self._place.with_name(f".{self._place.name}.{end}") for end in ("part", "json"))
        self._settings, self.done = settings, 0
        saved = json.loads(self._record.read_text()) if self._record.exists() and self._file.exists() else {}
        found = saved.pop("done", 0)
        if found and saved != settings and not overwrite:
            other = ", ".join(key for key in settings if saved.get(key) != settings[key])
            raise InputError(
                f"{output}: unfinished vectors of other settings ({other}) lie beside it; finish them by the command "
                "that began them, or add --overwrite true"
            )
        with writing(output):
            self._place.parent.mkdir(parents=True, exist_ok=True)
            if found and saved == settings:
                self.done = found
            else:
                self._record.unlink(missing_ok=True)
            self._array = np.lib.format.open_memmap(self._file, "r+" if self.done else "w+", "float32", shape=shape)
            with self._file.open("r+b") as file:  # a full disk would end the process later, in the middle of a write
                os.posix_fallocate(file.fileno(), 0, self._file.stat().st_size)

    def __enter__(self) -> Unfinished:
        return self

    def blocks(self, sentences: Iterable[str]) -> Iterator[list[str]]:
        """Yield the remaining sentences, `BLOCK` at a time, and move a progress bar."""
        from itertools import islice

        from rich.console import Console

        from sentrep.io.bars import progress_bar
        from sentrep.io.chunks import chunks_of

        with progress_bar(Console(stderr=True)) as bar:
            task = bar.add_task("Encoding", total=len(self._array), completed=self.done, note="")
            for block in chunks_of(islice(sentences, self.done, None), BLOCK):
                yield block
                bar.advance(task, len(block))

    def add(self, vectors: Any) -> None:
        """Write the vectors of the next block, then record the new number of rows."""
        from sentrep.io.files import write_text

        self._array[self.done : self.done + len(vectors)] = vectors
        self._array.flush()
        self.done += len(vectors)
        write_text(self._record, json.dumps({**self._settings, "done": self.done}))

    def __exit__(self, *error: Any) -> None:
        """Give the finished array its name. If no block was written, delete the files."""
        if error[0] is None:
            os.replace(self._file, self._place)
        if error[0] is None or not self.done:
            self._record.unlink(missing_ok=True)
            self._file.unlink(missing_ok=True)
