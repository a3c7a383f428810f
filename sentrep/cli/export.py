"""``sentrep export``: from a checkpoint to a model folder."""

from __future__ import annotations

from sentrep.cli.encode import whitening_corpus
from sentrep.cli.functions import run_function
from sentrep.encoder.loading.export import export
from sentrep.io.harmless import printable


def run(command: str, words: list[str]) -> int:
    """Run the command."""
    run_function(export_model, command, words)
    return 0


def export_model(
    checkpoint: str, folder: str, *, overwrite: bool = False, whiten: str | None = None, whiten_dim: int | None = None
) -> None:
    """Write the encoder of a checkpoint as a folder that transformers and sentence-transformers load.

    Args:
        checkpoint: a checkpoint of `sentrep fit`, or any model that sentrep loads.
        folder: where the model goes.
        overwrite: whether the folder may hold files already.
        whiten: file of sentences to fit a whitening on (BERT-whitening), which becomes part of the model.
        whiten_dim: how many dimensions the whitening keeps; by default all that vary.
    """
    corpus = whitening_corpus(whiten, whiten_dim)
    encoder = export(checkpoint, folder, overwrite=overwrite, whiten=corpus, whiten_dim=whiten_dim)
    print(f"{printable(str(folder))}: pooling {encoder.pooling}, {encoder.embedding_dim} dimensions")
