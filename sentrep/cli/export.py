"""``sentrep export``: from a checkpoint to a model folder."""

from __future__ import annotations

from sentrep.cli.functions import run_function
from sentrep.export import export


def run(command: str, words: list[str]) -> int:
    """Run the command."""
    run_function(export_model, command, words)
    return 0


def export_model(checkpoint: str, folder: str, *, overwrite: bool = False) -> None:
    """Write the encoder of a checkpoint as a folder that transformers and sentence-transformers load.

    Args:
        checkpoint: a checkpoint of `sentrep fit`, or any model that sentrep loads.
        folder: where the model goes.
        overwrite: whether the folder may hold files already.
    """
    encoder = export(checkpoint, folder, overwrite=overwrite)
    print(f"{folder}: pooling {encoder.pooling}, {encoder.hidden_size} dimensions")
