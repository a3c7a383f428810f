"""Writing a checkpoint as a model folder that transformers and sentence-transformers load."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch

from sentrep.encoder.encoder import SentenceEncoder
from sentrep.encoder.whitening import fit_whitening
from sentrep.errors import InputError
from sentrep.io.paths import check_target


def export(
    source: str | Path,
    folder: str | Path,
    *,
    overwrite: bool = False,
    whiten: Iterable[str] | None = None,
    whiten_dim: int | None = None,
    trust_remote_code: bool = False,
) -> SentenceEncoder:
    """Write the encoder of a checkpoint (or of another model folder) as a model folder.

    Objectives and a projection head that is for training only stay behind; pooling and prompt travel along.

    Args:
        source: anything that `SentenceEncoder.from_pretrained` loads.
        folder: where the model goes.
        overwrite: whether the folder may hold files already.
        whiten: sentences to fit a whitening on, which becomes part of the model (`sentrep.encoder.fit_whitening`); on a
            GPU where there is one.
        whiten_dim: how many dimensions the whitening keeps; None for all that vary.
        trust_remote_code: whether code that the source names may run.

    Returns:
        The encoder that was written.

    Raises:
        InputError: when the folder is not empty and must not be overwritten, the source cannot be loaded, or the
            sentences are too few to whiten on.
    """
    check_target(folder, [source], folder=True)
    target = Path(folder)
    if not overwrite and target.is_dir() and any(target.iterdir()):
        raise InputError(f"{folder}: the folder is not empty; choose another one, or allow it to be overwritten")
    encoder = SentenceEncoder.from_pretrained(source, trust_remote_code=trust_remote_code)
    if whiten is not None:
        fit_whitening(encoder.to("cuda" if torch.cuda.is_available() else "cpu"), whiten, whiten_dim)
    encoder.save_pretrained(target)
    return encoder
