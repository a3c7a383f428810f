"""Checkpoints on the command line: find the file, check that it is whole, and read its model's settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from sentrep.checkpoint.rebuild import recorded_arguments
from sentrep.cli.config.configuration import Request, Tree, is_node
from sentrep.cli.errors import UsageError
from sentrep.cli.runs.logs import say
from sentrep.cli.runs.run_folders import RunFolders, is_leader, newest_training
from sentrep.errors import InputError
from sentrep.evaluation.training_report import MODEL
from sentrep.io.checkpoint_file import PAYLOAD_KEY, DamagedError, read_checkpoint, verify
from sentrep.io.files import remove_leftovers
from sentrep.io.paths import expanded

NAMES = ("best", "last", "hpc", "registry")
"""Words that Lightning takes in place of a path (``registry:name`` included)."""
_TO_GO_ON = {PAYLOAD_KEY, "state_dict", "loops", "optimizer_states"}
"""Keys of a checkpoint that a training run can resume from."""


def checkpoint_content(ckpt_path: str | None) -> dict[str, Any] | None:
    """The content of the checkpoint that ``--ckpt_path`` names, its checksums compared.

    None without a file to read: an address, or a word such as ``best`` that only the trainer understands.

    Raises:
        UsageError: for a file that is missing, damaged, or not one of ours; names the newest intact one beside it.
    """
    if ckpt_path is None or "://" in ckpt_path or ckpt_path.split(":")[0] in NAMES:
        return None
    path = expanded(ckpt_path)
    try:
        return read_checkpoint(path)
    except InputError as error:
        other = newest_intact(path.parent, without=path)
        hint = f"; the newest intact checkpoint there is {other}" if other else ""
        raise UsageError(f"{error}{hint}") from None


def checkpoint_model(checkpoint: dict[str, Any], path: str) -> Tree:
    """The model section that rebuilds a checkpoint's model, even where the folder it once came from is gone."""
    return recorded_arguments(checkpoint, expanded(path))


def settle_last(request: Request, tree: Tree, folders: RunFolders | None) -> None:
    """Replace ``--ckpt_path last`` by the newest intact checkpoint of the newest run of this name.

    A resumed ``fit``, which comes with ``folders`` to lock, writes into the folder of the run that it continues. Where
    that has no checkpoint yet, training starts from the beginning; other commands cannot do without one.

    Raises:
        UsageError: there are checkpoints and none is of use, or there is none for another command than ``fit``.
        BusyError: the run is being trained.
    """
    run, folder, version = _run_folder(tree)
    fit = folders is not None
    if folders is not None:
        folders.hold(run)
    any_there = any(folder.glob("[!.]*.ckpt*"))  # damaged ones included, half-written ones not
    path = newest_intact(folder, tidy=fit and is_leader())
    if fit and is_leader():
        remove_leftovers(run, below=False)
        remove_leftovers(run / MODEL)
    if path is None and (not fit or any_there):
        what = "no intact checkpoint to go on from" if any_there else "no checkpoint"
        raise UsageError(f"--ckpt_path last: {what} in {folder}; name a file")
    if fit and version is not None:
        request.flags.setdefault("trainer.logger.version", version)
    if path is None:
        say(f"--ckpt_path last: no checkpoint in {folder} yet, so this starts from the beginning")
        request.flags.pop("ckpt_path", None)
        request.tree.pop("ckpt_path", None)
        return
    say(f"--ckpt_path last is {path}")
    request.flags["ckpt_path"] = str(path)


def newest_intact(folder: Path, without: Path | None = None, tidy: bool = False) -> Path | None:
    """The checkpoint of a folder with the most optimiser steps among those that pass `verify`.

    Of several of the same step ``last.ckpt`` comes first: it is written after the best one. Standard error names each
    skipped file.

    Args:
        folder: its ``*.ckpt`` files.
        without: a file to leave aside.
        tidy: append ``.damaged`` to the names of damaged files, so that the run can write under their names again, and
            remove half-written files of a killed process. Only for a folder that no other process writes to.

    Raises:
        InputError: a file cannot be read.
    """
    steps: dict[Path, int] = {}
    for path in set(folder.glob("*.ckpt")) - {without}:
        renamed = ""
        try:
            verify(path)
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)  # only a number is read
            step = content["global_step"] if content.keys() >= _TO_GO_ON else None
            if isinstance(step, int):
                steps[path] = step
                continue
            why = "has no state to go on from"
        except DamagedError:
            why = "is damaged or incomplete"
            if tidy:
                renamed = f"; it is now called {path.name}.damaged"
                path.replace(path.with_name(f"{path.name}.damaged"))
        except InputError:
            if path.exists():
                raise
            continue  # renamed by the process that tidies
        except Exception as error:  # what torch does not load is of many types
            why = f"is intact but cannot be loaded here ({type(error).__name__})"
        say(f"{path} {why}, and is passed over{renamed}")
    if tidy:
        remove_leftovers(folder)
    return max(steps, key=lambda path: (steps[path], path.stem.startswith("last"), path.name), default=None)


def _run_folder(tree: Tree) -> tuple[Path, Path, str | None]:
    """The folder that a run locks, the folder of its checkpoints, and its version (None if there is none to set)."""
    arguments = _arguments(tree.get("checkpoint"))
    if arguments.get("dirpath"):
        own = expanded(arguments["dirpath"])
        return own, own, None
    logger = tree["trainer"].get("logger")
    several = isinstance(logger, list)
    settings = _arguments(logger[0] if several and logger else logger)
    if "save_dir" not in settings:
        root = Path(tree["trainer"].get("default_root_dir") or ".")
        return root, root / "checkpoints", None
    name = settings.get("name")
    folder = Path(settings["save_dir"], "lightning_logs" if name is None else str(name))  # Lightning's default
    version = settings.get("version")
    if version is None:
        version = max(0, newest_training(folder))
    own = folder / (version if isinstance(version, str) and not version.isdecimal() else f"version_{version}")
    return own, own / "checkpoints", None if several else str(version)


def _arguments(node: Any) -> Tree:
    return (node.get("init_args") or {}) if is_node(node) else {}
