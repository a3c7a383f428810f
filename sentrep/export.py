"""From a checkpoint to a model folder that transformers and sentence-transformers load."""

from __future__ import annotations

from pathlib import Path

from sentrep.encoder import SentenceEncoder
from sentrep.errors import InputError


def export(source: str | Path, folder: str | Path, *, overwrite: bool = False) -> SentenceEncoder:
    """Write the encoder of a checkpoint (or of another model folder) as a model folder.

    Objectives and a projection head that is for training only stay behind; pooling and prompt travel along.

    Args:
        source: anything that `SentenceEncoder.from_pretrained` loads.
        folder: where the model goes.
        overwrite: whether the folder may hold files already.

    Returns:
        The encoder that was written.

    Raises:
        InputError: when the folder is not empty and must not be overwritten, or the source cannot be loaded.
    """
    target = Path(folder)
    if not overwrite and target.is_dir() and any(target.iterdir()):
        raise InputError(f"{folder}: the folder is not empty; choose another one, or allow it to be overwritten")
    encoder = SentenceEncoder.from_pretrained(source)
    encoder.save_pretrained(target)
    return encoder
