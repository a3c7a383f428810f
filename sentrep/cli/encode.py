"""``sentrep encode``: lines in, vectors out, in parts that survive whatever ends the work."""

from __future__ import annotations

import functools
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sentrep import checks
from sentrep.errors import InputError
from sentrep.io.paths import check_target
from sentrep.io.text import printable


@dataclass(frozen=True)
class Stored:
    """How vectors are stored."""

    dtype: Literal["float32", "float16"] = "float32"
    """of the numbers."""
    truncate_dim: int | None = None
    """keep the first so many dimensions."""
    normalize: bool = False
    """scale every vector to length 1, after truncate_dim."""
    file_format: Literal["npy", "parquet"] = "npy"
    """of the parts in a folder."""
    rows_per_file: int = 16384
    """of a part; memory holds one."""


STORED = Stored()


def encode(
    model: str,
    *,
    output: str,
    input: str = "-",
    column: str | None = None,
    batch_size: int = 32,
    pooling: str | None = None,
    device: str | None = None,
    precision: Literal["fp32", "bf16"] = "fp32",
    backend: Literal["torch", "onnx"] = "torch",
    shard: str | None = None,
    engine: Literal["local", "ray"] = "local",
    overwrite: bool = False,
    trust_remote_code: bool = False,
    stored: Stored = STORED,
) -> None:
    """Embed the sentences of a file, one row of the output for every row of the input.

    For example: sentrep encode best.ckpt --input lines.txt --output vectors.npy

    A blank line is a row as well (the vector of an empty sentence), so that line k of the input is row k of the output.
    The work is done in parts. After an interruption the same command resumes after the last finished part. An output
    without an ending is the folder of these parts, which several processes share by --shard or under torchrun or srun;
    a file is put together from the parts at the end.

    Args:
        model: a checkpoint, a model folder or a hub id.
        output: .npy (an array N × D), .parquet (columns sentence and embedding), or a folder of parts; local or an
            address such as s3://bucket/folder.
        input: .txt (a sentence a line), .csv, .tsv, .jsonl or .parquet, compressed or not, a glob of these, local or an
            address; - is standard input.
        column: name of the column with the sentences.
        batch_size: sentences of average length in one forward pass.
        pooling: replaces the model's own, for a plain transformers folder for example.
        device: cpu, cuda, cuda:1, ...; by default a GPU if the machine has one, under torchrun or srun the GPU of the
            process.
        precision: fp32, or bf16 for mixed precision in bfloat16; faster if the processor supports it.
        backend: torch, or onnx for the graph of sentrep export --format onnx, on the CPU.
        shard: I/N, this process's share of N, I from 0; by default torchrun's or srun's, or everything.
        engine: local does this process's share here; ray gives all parts to the machines of a Ray cluster, with a
            worker on each GPU, or on each CPU of machines without a GPU.
        overwrite: replace an output that is there already, or parts of other settings or another text.
        trust_remote_code: run code that the model names: a module of yours behind the pooling, or a hub model's own.
        stored: how the vectors are stored.

    Raises:
        InputError: for anything wrong with the files, the model or the device.
    """
    from sentrep.cli.maps import map_parts, map_parts_on_ray
    from sentrep.cli.models import check_precision, embed, load_encoder, sentences_of
    from sentrep.data.parts import Parts, Text, parts_of
    from sentrep.data.shard import Shard
    from sentrep.data.stored_embeddings import SAVE, join
    from sentrep.data.text.corpus import open_corpus
    from sentrep.data.text.locations import is_address
    from sentrep.encoder.fingerprint import fingerprint
    from sentrep.extras import require

    process, ending = Shard.of(shard), Path(output).suffix
    if engine == "ray":
        require("--engine ray", "ray", "ray")
        if process.count > 1:  # each of them would encode the whole text
            raise InputError(f"--engine ray gives all parts to the cluster; leave out the shards ({process.origin})")
    if ending and process.count > 1:
        raise InputError(
            f"{output}: {process.count} processes ({process.origin}) write a folder of parts; give an output without "
            "an ending"
        )
    if ending and ending not in SAVE:
        raise InputError(f"cannot write {output}: it must end in {' or '.join(SAVE)}, or be a folder of parts")
    with tempfile.TemporaryDirectory(prefix="sentrep-") as kept:
        if input == "-":
            input = f"{kept}/standard input.txt"
            with open(input, "wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
        corpus = open_corpus(input, None if column is None else [column])
        if not is_address(output):
            check_target(output, [model, *(source.name for source in corpus.sources)], folder=not ending)
        folder = parts_of(output, overwrite) if ending else output
        text = Text.of(sentences_of(corpus), corpus.name)
        load = functools.partial(load_encoder, model, pooling, trust_remote_code=trust_remote_code, backend=backend)
        encoder = load("cpu" if engine == "ray" else device)
        ending = ending or f".{stored.file_format}"
        how = {name: getattr(stored, name) for name in ("dtype", "truncate_dim", "normalize")}
        settings = {"command": "encode", "model": fingerprint(encoder), "precision": precision, "ending": ending}
        checks.within("the model", 1, encoder.embedding_dim, **checks.given(truncate_dim=stored.truncate_dim))
        check_precision(precision, encoder)
        parts = Parts(folder, text, stored.rows_per_file, ending, SAVE[ending], settings | how, overwrite)
        mapped = functools.partial(embed, batch_size=batch_size, precision=precision, **how)
        if engine == "ray":
            map_parts_on_ray(parts, sentences_of(corpus), functools.partial(load, device), mapped, device)
        elif not map_parts("Encoding", parts, sentences_of(corpus), functools.partial(mapped, encoder), process):
            return
    if folder != output:
        join(parts, output)
    blank = f" ({text.blank} of them blank)" if text.blank else ""
    print(printable(f"{text.rows} sentences{blank}: {output}"), file=sys.stderr)
