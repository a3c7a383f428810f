"""``sentrep encode``: lines in, vectors out, block by block into one array that survives whatever ends the work."""

from __future__ import annotations

import glob
import io
import math
import os
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from sentrep.errors import InputError
from sentrep.io.files import hold
from sentrep.io.paths import check_target, expanded, writing
from sentrep.io.text import printable

BLOCK = 4096
"""Rows of a block. A kill loses at most two blocks."""


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

    A blank line is a row as well (the vector of an empty sentence), so that line k of the input is row k of the output.
    After an interruption the same command resumes after the finished blocks of 4,096 rows.

    For example: sentrep encode best.ckpt --input lines.txt --output vectors.npy

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
        overwrite: replace an output that is there already.
        trust_remote_code: run code that the model names: your own module after the pooling, or a hub model's code.

    Raises:
        InputError: for anything wrong with the files, the model or the device.
    """
    from sentrep.cli.models import load_encoder, vectors_of

    loaded = (model, pooling, device, trust_remote_code, backend)
    how: dict[str, Any] = {"batch_size": batch_size, "precision": precision, "normalize": normalize}
    how |= {"prompt_name": prompt_name}
    if engine == "ray":
        from sentrep.cli.encode_on_ray import encode_on_ray

        encode_on_ray(input, column, output, overwrite, loaded, how)
        return
    if backend == "onnx" and precision == "bf16":
        raise InputError("precision bf16 is for the backend torch; a graph computes in its exported precision")
    if not output.endswith(".npy"):
        raise InputError(f"cannot write {output}: it must end in .npy, or take --engine ray and a folder")

    from sentrep.data.files import hash_of, sentences_of
    from sentrep.data.text import open_text
    from sentrep.encoder.fingerprint import fingerprint

    text = open_text(input, None if column is None else [column])
    check_target(output, [model, *text.files], overwrite=overwrite)
    encoder = load_encoder(*loaded)
    rows = sum(1 for _ in text.rows)  # an unreadable line is found here, before hours of work
    if not rows:
        raise InputError("no sentences in the input; nothing was written")
    settings = {"model": fingerprint(encoder), "text": text.fingerprint, "prompts": encoder.prompts, **how}
    place, shape = expanded(output), (rows, encoder.truncate_dim or encoder.embedding_dim)
    part = place.with_name(f".{place.name}.{hash_of(settings)}.part")
    sentences = (sentences_of(row)[0] for row in text.rows)
    with hold(place.with_name(f".{place.name}.lock"), f"encode into {output}"):
        _write_blocks(lambda block: vectors_of(encoder, block, **how), sentences, shape, place, part)
        for other in place.parent.glob(f".{glob.escape(place.name)}.*.part"):  # unfinished, of other settings
            other.unlink()
    print(printable(f"{rows} sentences: {output}"), file=sys.stderr)


def _write_blocks(
    encode: Callable[[list[str]], Any], sentences: Iterator[str], shape: tuple[int, int], place: Path, part: Path
) -> None:
    """Append the vectors of `BLOCK` sentences after another to a hidden file; give the whole array its name.

    A killed process leaves the hidden file, in which the blocks but the last are certainly on the disk. If no block
    was written, it is deleted.
    """
    import numpy as np
    from rich.console import Console
    from rich.progress import track

    from sentrep.io.chunks import chunks_of

    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": shape})
    width = 4 * shape[1] * BLOCK
    with writing(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        with part.open("ab") as file:
            blocks = max((file.tell() - header.tell()) // width - 1, 0)
            file.truncate(header.tell() + blocks * width if blocks else 0)
            file.write(b"" if blocks else header.getvalue())
            rest = chunks_of(islice(sentences, blocks * BLOCK, None), BLOCK)
            try:
                for block in track(rest, "Encoding", math.ceil(shape[0] / BLOCK), blocks, console=Console(stderr=True)):
                    file.write(np.asarray(encode(block), "<f4").tobytes())
                    file.flush()
                    os.fsync(file.fileno())
            except BaseException:
                if file.tell() <= header.tell():
                    part.unlink()
                raise
        os.replace(part, place)
