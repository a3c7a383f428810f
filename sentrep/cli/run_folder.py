"""The folder of a run: its name, its version, and where ``--ckpt_path last`` leads."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from jsonargparse import Namespace
from lightning.pytorch.utilities.rank_zero import rank_zero_info

from sentrep.cli.errors import UsageError
from sentrep.cli.recipe import Tree
from sentrep.io.files import remove_leftovers
from sentrep.io.paths import expanded, writing
from sentrep.training.run_report import MODEL

_NUMBERED = ("TensorBoardLogger", "CSVLogger")
"""Lightning's loggers that give a run the next free ``version_<n>``."""


def run_name(names: Sequence[str]) -> str:
    """The name of a run: of its first file, with the folders below ``configs``, and of its row of a table.

    Examples:
        >>> run_name(["configs/dclr/bert-base.yaml", "mine.yaml"])
        'dclr-bert-base'
    """
    if not names or names[0].lstrip().startswith("{"):
        return "default"
    file, _, row = names[0].partition(", row ")
    folders = Path(file).absolute().parent.parts
    below = folders[max((place + 1 for place, part in enumerate(folders) if part == "configs"), default=len(folders)) :]
    own = [Path(file).stem] if below or not row else []
    return "-".join([*(part for part in below if part != "tables"), *own, *([row] if row else [])])


def settle_last(tree: Tree, resumes: bool) -> str | None:
    """Return the newest checkpoint of the newest run of this name; a run that resumes writes into its folder.

    Raises:
        UsageError: there is no checkpoint, for another command than ``fit``, which then starts from the beginning.
    """
    run, folder, version = _newest_run(tree)
    if resumes and is_first():
        for place in (folder, run, run / MODEL):
            remove_leftovers(place)
    newest = max(folder.glob("*.ckpt"), key=lambda path: path.stat().st_mtime_ns, default=None)
    if newest is None and not resumes:
        raise UsageError(f"--ckpt_path last: no checkpoint in {folder}; name a file")
    if resumes and version is not None and folder.is_dir():
        tree["trainer"]["logger"]["init_args"]["version"] = version
    if newest is None:
        rank_zero_info(f"--ckpt_path last: no checkpoint in {folder} yet, so this starts from the beginning")
        return None
    rank_zero_info(f"--ckpt_path last is {newest}")
    return str(newest)


def _newest_run(tree: Tree) -> tuple[Path, Path, int | str | None]:
    """The folder of a run, the folder of its checkpoints, and the version for its logger, None where none is set."""
    if (own := _arguments(tree.get("checkpoint")).get("dirpath")) is not None:
        return expanded(own), expanded(own), None
    logger = tree["trainer"].get("logger")
    several = isinstance(logger, list)
    settings = _arguments(logger[0] if several and logger else logger)
    if "save_dir" not in settings:
        root = expanded(tree["trainer"].get("default_root_dir") or ".")
        return root, root / "checkpoints", None
    parent = expanded(Path(settings["save_dir"], str(settings.get("name") or "lightning_logs")))
    version = settings.get("version")
    version = newest_version(parent) if version is None else version
    run = parent / (version if isinstance(version, str) else f"version_{version}")  # as Lightning names it
    return run, run / "checkpoints", None if several else version


def _arguments(node: Any) -> Tree:
    return (node.get("init_args") or {}) if isinstance(node, dict) else {}


def newest_version(parent: Path) -> int:
    """The largest n of the ``version_<n>`` with checkpoints (``test`` makes some without); 0 where there is none."""
    return max((version_of(folder.parent) for folder in parent.glob("version_*/checkpoints")), default=0)


def version_of(folder: Path) -> int:
    """The n of ``version_<n>``; -1 for a folder of another name."""
    number = folder.name.removeprefix("version_")
    return int(number) if number != folder.name and number.isdecimal() else -1


def claim_versions(loggers: Any, folders: ExitStack) -> list[Namespace]:
    """Make the next ``version_<n>`` for each logger without one: whoever makes a folder has it.

    Args:
        loggers: of the trainer's configuration; their arguments get the version.
        folders: removes a folder that stays empty.

    Returns:
        The arguments that were set.
    """
    found = []
    for logger in (loggers if isinstance(loggers, list) else [loggers]) if is_first() else ():
        settings = logger.get("init_args") if isinstance(logger, Namespace) else None
        if settings is None or logger.class_path.rpartition(".")[2] not in _NUMBERED or "://" in settings.save_dir:
            continue
        if settings.get("version") is None:
            parent = expanded(Path(settings.save_dir, settings.get("name") or "lightning_logs"))
            settings.version = _claim(parent, folders)
            found.append(settings)
    return found


def is_first() -> bool:
    """Whether this process is the one of its run that writes; the others take its folder."""
    return all(os.environ.get(name, "0") == "0" for name in ("RANK", "SLURM_PROCID", "LOCAL_RANK", "NODE_RANK"))


def _claim(parent: Path, folders: ExitStack) -> int:
    missing = [place for place in (parent, *parent.parents) if not place.exists()]
    with writing(parent):
        parent.mkdir(parents=True, exist_ok=True)
    for place in reversed(missing):
        folders.callback(_remove_empty, place)
    number = max(map(version_of, parent.glob("version_*")), default=-1)
    while True:
        number += 1
        with suppress(FileExistsError):
            (folder := parent / f"version_{number}").mkdir()
            folders.callback(_remove_empty, folder)
            return number


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):  # in use, or gone
        folder.rmdir()
