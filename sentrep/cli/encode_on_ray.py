"""``sentrep encode --engine ray``: Ray Data reads the text, gives it to a worker on each device, and writes parquet."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import Any

import pyarrow as pa
from pyarrow import csv, json

from sentrep.cli.models import load_encoder, vectors_of
from sentrep.errors import InputError
from sentrep.extras import require
from sentrep.io.paths import check_target

_READERS = {".txt": "read_text", ".csv": "read_csv", ".jsonl": "read_json", ".parquet": "read_parquet"}
"""Ray Data's reader of each ending."""


class Worker:
    """Holds the model on one device of the cluster.

    Args:
        loaded: arguments of `load_encoder`.
        how: options of `vectors_of`.
    """

    def __init__(self, loaded: tuple[Any, ...], how: dict[str, Any]) -> None:
        self._encoder, self._how = load_encoder(*loaded), how

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return some sentences with their vectors."""
        sentences = ["" if sentence is None else sentence for sentence in batch["sentence"]]
        return {**batch, "embedding": vectors_of(self._encoder, sentences, **self._how)}


def encode_on_ray(
    input: str,
    column: str | None,
    output: str,
    overwrite: bool,
    loaded: tuple[Any, ...],
    how: dict[str, Any],
) -> None:
    """Encode on the cluster of ``RAY_ADDRESS``, or on this machine; see `sentrep encode` for the arguments.

    Args:
        input: the text.
        column: of the text.
        output: a folder, or its address.
        overwrite: whether files in it are replaced.
        loaded: arguments of `load_encoder`.
        how: options of `vectors_of`.

    Raises:
        InputError: for an input of another kind, or an output that is there.
    """
    require("--engine ray", "ray", "ray")
    ending = PurePath(input).suffix
    if ending not in _READERS:
        raise InputError(f"--engine ray reads {', '.join(_READERS)}, not {input}")
    if column is None and ending != ".txt":
        raise InputError(f"{input}: name the column of the sentences: --column NAME")
    if "://" not in output:
        check_target(output, [loaded[0], input], folder=True)

    import ray

    ray.init(ignore_reinit_error=True, log_to_driver=False)
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    name = column or "text"
    path = input if "://" in input else os.path.abspath(os.path.expanduser(input))
    text = getattr(ray.data, _READERS[ending])(path, **_options(ending, name)).select_columns([name])
    gpus = 0 if loaded[2] == "cpu" else int(ray.cluster_resources().get("GPU", 0))
    encoded = text.rename_columns({name: "sentence"}).map_batches(
        Worker,
        fn_constructor_args=(loaded, how),
        batch_size=4096,
        batch_format="numpy",
        concurrency=gpus or max(1, int(ray.cluster_resources()["CPU"]) - 1),
        num_gpus=min(gpus, 1),
    )
    place = output if "://" in output else os.path.abspath(os.path.expanduser(output))
    encoded.write_parquet(place, mode="overwrite" if overwrite else "error")


def _options(ending: str, column: str) -> dict[str, Any]:
    """Options of the reader: blank lines stay, and the column is text, where Arrow would read 007 as a number."""
    if ending == ".txt":
        return {"drop_empty_lines": False}
    if ending == ".csv":
        return {"convert_options": csv.ConvertOptions(column_types={column: pa.string()}, include_columns=[column])}
    if ending == ".jsonl":
        schema = pa.schema([(column, pa.string())])
        return {"parse_options": json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")}
    return {"columns": [column]}
