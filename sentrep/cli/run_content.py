"""Hashes of what makes a run, so that a finished one is never taken for another: its words alone do not tell."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sentrep.cli.recipe import Tree
from sentrep.config import walk
from sentrep.data import SentRepDataModule
from sentrep.data.fingerprints import hash_columns, hash_of
from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.io.paths import expanded

_LIBRARIES = ("sentrep.", "torch.", "lightning.", "torchmetrics.")
"""Packages whose classes change with their versions alone."""
_READ_OTHERWISE = ("data.train", "data.pairs", "data.test", "data.sts_folder")
"""Keys whose files are told apart by the rows in them."""


def content_of(tree: Tree, data: SentRepDataModule, trains: bool) -> str:
    """Hash of the training text, of every file and folder that a configuration names, and of the user's classes.

    Args:
        tree: the whole configuration.
        data: its data module.
        trains: whether the text is read at all.
    """
    sections = {"model": tree.get("model"), "data": tree.get("data"), "callbacks": tree["trainer"].get("callbacks")}
    names = set[str]()
    for key, value in walk(sections):
        if key not in _READ_OTHERWISE:
            found = value["class_path"] if isinstance(value, dict) else value
            names.update(text for text in (found if isinstance(found, list) else [found]) if isinstance(text, str))
    text = data.text().fingerprint if trains else ""
    return hash_of(text, [(Path(name).name, _digest(files)) for name in sorted(names) if (files := _files(name))])


def pairs_of(sets: Sequence[Any]) -> str:
    """Hash of the pairs and the gold scores of similarity sets."""
    return hash_of([hash_columns(one.first, one.second, one.scores) for one in sets if isinstance(one, ScoredPairs)])


def _files(text: str) -> list[Path]:
    """The files behind a text: itself, those below a folder, or the source of a class of the user's."""
    if not text or len(text) > 1000 or "://" in text:
        return []
    place = expanded(text)
    if os.path.isdir(place):
        return sorted(path for path in place.rglob("*") if path.is_file())
    if os.path.isfile(place):
        return [place]
    module = text.rpartition(".")[0]
    if not module or text.startswith(_LIBRARIES) or not module.replace(".", "").isidentifier():
        return []
    try:
        found = importlib.util.find_spec(module)
    except (ImportError, ValueError):  # no module: another text with a dot
        return []
    return [Path(found.origin)] if found and found.origin and os.path.isfile(found.origin) else []


def _digest(files: Iterable[Path]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for path in files:
        digest.update(path.name.encode())
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()
