"""``sentrep export``: from a checkpoint to a model folder."""

from __future__ import annotations

from typing import Literal

from sentrep.cli.errors import UsageError
from sentrep.io.files import atomic_folder, hold, remove_leftovers
from sentrep.io.paths import check_target, expanded, is_there, writing
from sentrep.io.text import printable


def export(
    checkpoint: str,
    *,
    output: str,
    overwrite: bool = False,
    whiten: str | None = None,
    whiten_dim: int | None = None,
    trust_remote_code: bool = False,
    format: Literal["onnx"] | None = None,
) -> None:
    """Write the encoder of a checkpoint as a folder that transformers and sentence-transformers load.

    With --format onnx the folder also holds the whole model as one graph, which is compared with torch on one batch.

    For example: sentrep export best.ckpt --output model

    Args:
        checkpoint: a checkpoint of `sentrep fit`, or any model that sentrep loads.
        output: the folder where the model goes.
        overwrite: replace the model files of a folder that is there already.
        whiten: file of sentences to fit a whitening on (BERT-whitening), which becomes part of the model.
        whiten_dim: how many dimensions the whitening keeps; by default all that vary.
        trust_remote_code: run code that the model names: your own module after the pooling, or a hub model's code.
        format: also write a graph for onnxruntime (the extra onnx).
    """
    import torch

    from sentrep.cli.options import search_current_folder
    from sentrep.data.files import sentences_of
    from sentrep.data.text import load
    from sentrep.encoder import SentenceEncoder, fit_whitening, write_graph
    from sentrep.encoder.graph import require_export
    from sentrep.encoder.loading.folders import remove_graph

    if format is not None:
        require_export()
    if whiten is None and whiten_dim is not None:
        raise UsageError("--whiten_dim says how far to cut a whitening: name a file of sentences with --whiten")
    rows = None if whiten is None else load(whiten, streaming=True)
    if trust_remote_code:
        search_current_folder()
    check_target(output, [checkpoint], folder=True)
    place = expanded(output).resolve()
    with hold(place.with_name(f".{place.name}.lock"), f"the folder {output}"):
        remove_leftovers(place)
        if not overwrite and place.is_dir() and any(place.iterdir()):
            raise is_there(output)
        encoder = SentenceEncoder.from_pretrained(checkpoint, trust_remote_code=trust_remote_code)
        if rows is not None:
            encoder.to("cuda" if torch.cuda.is_available() else "cpu")
            fit_whitening(encoder, (sentences_of(row)[0] for row in rows), whiten_dim)
        with writing(output), atomic_folder(place) as whole:
            if format is None:
                encoder.save_pretrained(whole)
            else:
                write_graph(encoder, whole)
            remove_graph(place)
        print(f"{printable(output)}: pooling {encoder.pooling}, {encoder.embedding_dim} dimensions")
