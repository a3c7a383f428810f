"""``sentrep export``: from a checkpoint to a model folder."""

from __future__ import annotations

from sentrep.cli.encode import whitening_corpus
from sentrep.cli.functions import run_function, search_current_folder
from sentrep.encoder.loading.export import export
from sentrep.io.harmless import printable


def run(command: str, words: list[str]) -> int:
    """Run the command."""
    run_function(export_model, command, words)
    return 0


def export_model(
    checkpoint: str,
    folder: str,
    *,
    overwrite: bool = False,
    whiten: str | None = None,
    whiten_dim: int | None = None,
    trust_remote_code: bool = False,
) -> None:
    """Write the encoder of a checkpoint as a folder that transformers and sentence-transformers load.

    Args:
        checkpoint: a checkpoint of `sentrep fit`, or any model that sentrep loads.
        folder: where the model goes.
        overwrite: whether the folder may hold files already.
        whiten: file of sentences to fit a whitening on (BERT-whitening), which becomes part of the model.
        whiten_dim: how many dimensions the whitening keeps; by default all that vary.
        trust_remote_code: run code that the model names: a module of yours behind the pooling, or a hub model's own.
    """
    corpus = whitening_corpus(whiten, whiten_dim)
    if trust_remote_code:
        search_current_folder()
    encoder = export(
        checkpoint,
        folder,
        overwrite=overwrite,
        whiten=corpus,
        whiten_dim=whiten_dim,
        trust_remote_code=trust_remote_code,
    )
    print(f"{printable(str(folder))}: pooling {encoder.pooling}, {encoder.embedding_dim} dimensions")
