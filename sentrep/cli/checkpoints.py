"""Checkpoints on the command line: which one is meant, whether it is whole, and what it says about its own model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.utilities.rank_zero import rank_zero_only

from sentrep.checkpointing import temporary_name, verify
from sentrep.cli.configuration import Request, Tree, is_node
from sentrep.cli.errors import UsageError
from sentrep.encoder import sources
from sentrep.errors import InputError
from sentrep.trust import recorded_arguments

NAMES = ("best", "last", "hpc", "registry")
"""Words that Lightning takes in place of a path (``registry:name`` included)."""


def checkpoint_content(ckpt_path: str | None) -> dict[str, Any] | None:
    """The content of the checkpoint that ``--ckpt_path`` names, its checksums compared.

    Args:
        ckpt_path: a file, an address or a word such as ``best`` that only the trainer understands, or None.

    Returns:
        The content, or None where there is no file to look into.

    Raises:
        UsageError: for a file that is missing, damaged, or not one of ours; names the newest intact one beside it.
    """
    if ckpt_path is not None and not (isinstance(ckpt_path, str) and ckpt_path.strip()):
        raise UsageError(f"ckpt_path is {ckpt_path!r}; expected the name of a file, or last")
    if ckpt_path is None or "://" in ckpt_path or ckpt_path.split(":")[0] in NAMES:
        return None
    path = Path(ckpt_path).expanduser()
    try:
        verify(path)
        return sources.read_checkpoint(path)
    except InputError as error:
        other = newest_intact(path.parent, without=path)
        hint = f"; the newest intact checkpoint there is {other}" if other else ""
        raise UsageError(f"{error}{hint}") from None


def checkpoint_model(checkpoint: dict[str, Any], path: str) -> Tree:
    """The model section that rebuilds a checkpoint's model, even where the folder it once came from is gone."""
    return recorded_arguments(checkpoint, Path(path).expanduser())


def settle_last(request: Request, tree: Tree, fit: bool) -> None:
    """Replace ``--ckpt_path last`` by the newest intact checkpoint of the newest run of this name.

    A resumed ``fit`` writes into the folder of the run that it continues. Where that has no checkpoint yet, training
    starts from the beginning.

    Args:
        request: what the user asked for; changed in place.
        tree: the settings, to find the run by.
        fit: whether this is for training; other commands cannot do without a checkpoint.

    Raises:
        UsageError: there are checkpoints and none is intact, or there is none for another command than ``fit``.
    """
    if request.get("ckpt_path") != "last":
        return
    folder, version = _run_folder(tree)
    any_there = any(folder.glob("*.ckpt*"))  # damaged ones included
    path = newest_intact(folder, report=True, tidy=fit)
    if path is None and (not fit or any_there):
        what = "no intact checkpoint" if any_there else "no checkpoint"
        raise UsageError(f"--ckpt_path last: {what} in {folder}; name a file")
    if fit and version is not None:
        request.flags.setdefault("trainer.logger.version", version)
    if path is None:
        _say(f"--ckpt_path last: no checkpoint in {folder} yet, so this starts from the beginning")
        request.flags.pop("ckpt_path", None)
        request.tree.pop("ckpt_path", None)
        return
    _say(f"--ckpt_path last is {path}")
    request.flags["ckpt_path"] = str(path)


def newest_intact(folder: Path, without: Path | None = None, report: bool = False, tidy: bool = False) -> Path | None:
    """The checkpoint of a folder with the most optimiser steps, then the youngest, among those that pass `verify`.

    Args:
        folder: its ``*.ckpt`` files.
        without: a file to leave aside.
        report: name each damaged file on standard error.
        tidy: append ``.damaged`` to the names of damaged files, so that the run can write under their names again, and
            remove what a killed process has half written. Only for a folder that no other process writes to.
    """
    steps: dict[Path, int] = {}
    for path in folder.glob("*.ckpt"):
        if path == without:
            continue
        try:
            # mapped, not read: only the number is wanted
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
            if {sources.PAYLOAD_KEY, "state_dict", "loops", "optimizer_states"} <= content.keys():
                steps[path] = content["global_step"]
        except Exception:  # torch raises half a dozen types for damaged files
            _pass_over(path, report, tidy)
    if tidy:
        for path in folder.glob(temporary_name(Path("*.ckpt")).name):
            path.unlink(missing_ok=True)
    for path in sorted(steps, key=lambda path: (steps[path], path.stat().st_mtime), reverse=True):
        try:
            verify(path)
            return path
        except InputError:
            _pass_over(path, report, tidy)
    return None


def _pass_over(path: Path, report: bool, tidy: bool) -> None:
    if report:
        renamed = f"; it is now called {path.name}.damaged" if tidy else ""
        _say(f"{path} is damaged or incomplete, and is passed over{renamed}")
    if tidy:
        path.replace(path.with_name(f"{path.name}.damaged"))


def _run_folder(tree: Tree) -> tuple[Path, str | None]:
    """Where a run of these settings keeps its checkpoints, and the version to go on with (None: none to set)."""
    arguments = _arguments(tree.get("checkpoint"))
    if arguments.get("dirpath"):
        return Path(arguments["dirpath"]).expanduser(), None
    logger = tree["trainer"].get("logger")
    several = isinstance(logger, list)
    settings = _arguments(logger[0] if several and logger else logger)
    if "save_dir" not in settings:
        return Path(tree["trainer"].get("default_root_dir") or ".") / "checkpoints", None
    folder = Path(settings["save_dir"]) / str(settings.get("name") or "")
    version = settings.get("version")
    if version is None:
        numbers = [int(path.name[8:]) for path in folder.glob("version_*") if path.name[8:].isdecimal()]
        version = max(numbers, default=0)
    name = version if isinstance(version, str) and not version.isdecimal() else f"version_{version}"
    return folder / name / "checkpoints", None if several else str(version)


def _arguments(node: Any) -> Tree:
    return (node.get("init_args") or {}) if is_node(node) else {}


@rank_zero_only
def _say(message: str) -> None:
    print(f"sentrep: {message}", file=sys.stderr)
