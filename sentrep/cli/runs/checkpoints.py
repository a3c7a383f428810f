"""Checkpoints on the command line: which one is meant, whether it is whole, and what it says about its own model."""

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
"""What a checkpoint has that training can go on from."""


def checkpoint_content(ckpt_path: str | None) -> dict[str, Any] | None:
    """The content of the checkpoint that ``--ckpt_path`` names, its checksums compared.

    None where there is no file to look into: an address, or a word such as ``best`` that only the trainer understands.

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
    path = newest_intact(folder, report=True, tidy=fit and is_leader())
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


def newest_intact(folder: Path, without: Path | None = None, report: bool = False, tidy: bool = False) -> Path | None:
    """The checkpoint of a folder with the most optimiser steps among those that pass `verify`.

    Of several of the same step ``last.ckpt`` comes first: it is written behind the best one.

    Args:
        folder: its ``*.ckpt`` files.
        without: a file to leave aside.
        report: name each file that is passed over on standard error.
        tidy: append ``.damaged`` to the names of damaged files, so that the run can write under their names again, and
            remove what a killed process has half written. Only for a folder that no other process writes to.

    Raises:
        InputError: a file cannot be opened or read, so that nobody knows what it holds.
    """
    steps: dict[Path, int] = {}
    for path in set(folder.glob("*.ckpt")) - {without}:
        try:
            path.open("rb").close()
            # mapped, not read: only the number is wanted
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        except FileNotFoundError:  # renamed by the process that tidies
            continue
        except OSError as error:
            raise InputError(f"{path}: cannot be opened ({error.strerror}); mend that, or name a file") from error
        except Exception as error:  # torch raises half a dozen types for damaged files, and for what it does not load
            if not _pass_over_damaged(path, report, tidy) and report:
                say(f"{path} is intact but cannot be loaded here ({type(error).__name__}), and is passed over")
            continue
        step = content.get("global_step") if isinstance(content, dict) and content.keys() >= _TO_GO_ON else None
        if isinstance(step, int):
            steps[path] = step
        elif report:
            say(f"{path} has no state to go on from, and is passed over")
    if tidy:
        remove_leftovers(folder)
    for path in sorted(steps, key=lambda path: (steps[path], path.stem.startswith("last"), path.name), reverse=True):
        if not _pass_over_damaged(path, report, tidy):
            return path
    return None


def _pass_over_damaged(path: Path, report: bool, tidy: bool) -> bool:
    """Whether a file is damaged, after reading it; it is then named and set aside."""
    try:
        verify(path)
        return False
    except DamagedError:
        if report:
            renamed = f"; it is now called {path.name}.damaged" if tidy else ""
            say(f"{path} is damaged or incomplete, and is passed over{renamed}")
        if tidy:
            path.replace(path.with_name(f"{path.name}.damaged"))
        return True


def _run_folder(tree: Tree) -> tuple[Path, Path, str | None]:
    """What a run of these settings locks, where its checkpoints are, and its version (None: none to set)."""
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
    folder = Path(settings["save_dir"]) / str(settings.get("name") or "")
    version = settings.get("version")
    if version is None:
        version = max(0, newest_training(folder))
    name = version if isinstance(version, str) and not version.isdecimal() else f"version_{version}"
    return folder / name, folder / name / "checkpoints", None if several else str(version)


def _arguments(node: Any) -> Tree:
    return (node.get("init_args") or {}) if is_node(node) else {}
