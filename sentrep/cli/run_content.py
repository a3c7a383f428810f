"""What made a run, as hashes: a finished run is never taken for another, whatever its words and names are."""

from __future__ import annotations

import importlib.util
import json
import os
from copy import deepcopy
from importlib import metadata
from pathlib import Path

import pandas as pd
from jsonargparse import ArgumentParser

from sentrep.cli.errors import UsageError, explained
from sentrep.cli.layers import whole_tree
from sentrep.cli.recipe import Tree
from sentrep.cli.words import Pairs, sort_words
from sentrep.config import walk
from sentrep.data import SentRepDataModule
from sentrep.data.files import hash_files, hash_of
from sentrep.data.sets.sts import load_sts
from sentrep.evaluation.run_scores import RECORD, SCORES, pairs_frame
from sentrep.io.files import write_text
from sentrep.io.paths import expanded, writing
from sentrep.training.model_card import text_name
from sentrep.version import __version__

_LIBRARIES = ("sentrep.", "torch.", "lightning.")
"""Packages whose classes change with their versions alone."""
_VERSIONS = ("torch", "lightning", "transformers", "tokenizers")
_WITHOUT_EFFECT = (
    *("seed_everything", "data.seed", "trainer.logger", "trainer.default_root_dir", "trainer.enable_progress_bar"),
    *("data.num_workers", "report", "ckpt_path", "weights_only", "verbose"),
)
"""Keys that tell runs of one recipe apart, or change no number."""
_BY_CONTENT = ("data.train", "data.pairs", "data.test", "data.sts_folder")
"""Keys whose files are told apart by the rows that are read from them."""


def content_of(tree: Tree, data: SentRepDataModule, trains: bool = True) -> Tree:
    """The settings, and hashes of the text and of every file and class of the user's that the settings name.

    Args:
        tree: the whole configuration.
        data: its data module.
        trains: whether the text is read at all.

    Returns:
        ``data``, the name of the text, and ``text``, its hash; ``settings``, values by key; ``files``, hashes by name;
        ``versions``; and ``content``, a hash of all these but ``data``.
    """
    settings: Tree = {}
    files: dict[str, str] = {}
    for key, value in walk(tree):
        if any(key == one or key.startswith(f"{one}.") for one in _WITHOUT_EFFECT):
            continue
        if key.startswith(_BY_CONTENT):
            continue
        parts = []
        for part in value if isinstance(value, list) else [value]:
            part = part["class_path"] if isinstance(part, dict) else part  # its arguments follow
            found = _files(part) if isinstance(part, str) else []
            if found:
                files[Path(part).name] = hash_files(found)
            parts.append(Path(part).name if found else part)
        settings[key] = parts if isinstance(value, list) else parts[0]
    text = (data.fingerprint or data.text().fingerprint) if trains else ""
    versions = {"sentrep": __version__, **{name: metadata.version(name) for name in _VERSIONS}}
    in_order = {"settings": dict(sorted(settings.items())), "files": dict(sorted(files.items()))}
    hashed = {"text": text, **in_order, "versions": versions}
    return {**hashed, "data": text_name(data), "content": hash_of(hashed)}


def content_and_pairs(options: Pairs, trains: bool) -> tuple[str, pd.DataFrame]:
    """The ``content`` that a run has, and its test pairs (`pairs_frame`).

    Args:
        options: of ``sentrep fit``, or of ``sentrep test`` without a checkpoint.
        trains: which of the two.

    Raises:
        InputError: the options, the text or the sets are wrong, or the run could not be compared with another.
    """
    layers, flags, own = sort_words(options)
    if any(key in ("seed_everything", "data.seed") or key.startswith("trainer.logger") for key, _ in flags):
        raise UsageError("--seeds sets the seeds and the folder of every run; leave both out")
    tree = whole_tree("fit" if trains else "test", layers, flags, {**own, "ckpt_path": None})
    if str(dict(walk(tree)).get("model.encoder.compute.compile")).lower() in ("true", "reduce-overhead"):
        raise UsageError("compiled runs do not share their noise; leave model.encoder.compute.compile out")
    data = _data_module(tree)
    if not data.test:
        raise UsageError("it has no data.test, whose scores are compared: --data.test '[sts12, stsb]'")
    pairs = pairs_frame([load_sts(spec, data.sts_folder) for spec in data.test])
    return content_of(tree, data, trains)["content"], pairs


def _data_module(tree: Tree) -> SentRepDataModule:
    """The data module of a configuration."""
    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(SentRepDataModule, "data", fail_untyped=False)
    settings = {"data": deepcopy(tree.get("data", {}))}  # jsonargparse changes nested dicts in place
    with explained(settings, parser.get_defaults(skip_validation=True).keys()):
        built: SentRepDataModule = parser.instantiate_classes(parser.parse_object(settings)).data
    return built


def write_record(folder: Path, tree: Tree, data: SentRepDataModule, trains: bool) -> None:
    """Write ``run.json``: the content of the run, and its seed. Scores of an earlier training in the folder go.

    Raises:
        InputError: for a place that cannot be written.
    """
    record = {"seed": tree.get("seed_everything", 42) if trains else 0, **content_of(tree, data, trains)}
    with writing(folder / RECORD):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / SCORES).unlink(missing_ok=True)
        write_text(folder / RECORD, json.dumps(record, indent=1) + "\n")


def _files(text: str) -> list[str]:
    """The files that a text names: a file, all files below a folder, or the source of a user's class."""
    if not text or len(text) > 1000 or "://" in text:
        return []
    place = expanded(text)
    if os.path.isdir(place):
        return sorted(str(path) for path in place.rglob("*") if path.is_file())
    if os.path.isfile(place):
        return [str(place)]
    module = text.rpartition(".")[0]
    if not module or text.startswith(_LIBRARIES) or not module.replace(".", "").isidentifier():
        return []
    try:
        found = importlib.util.find_spec(module)
    except (ImportError, ValueError):  # no module: another text with a dot
        return []
    return [found.origin] if found and found.origin and os.path.isfile(found.origin) else []
