"""The folder of a run: its name, its version, and where ``--ckpt_path last`` leads."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from jsonargparse import Namespace
from lightning.pytorch.utilities.rank_zero import rank_zero_info

from sentrep.cli.errors import UsageError
from sentrep.cli.recipe import Tree
from sentrep.io.files import remove_leftovers
from sentrep.io.paths import MODEL, expanded, writing

_NUMBERED = ("TensorBoardLogger", "CSVLogger")
"""Lightning's loggers that give a run the next free ``version_<n>``."""


def run_name(names: Sequence[str]) -> str:
    """The name of a run: of its first file, with its folder or those below ``configs``, and of its row of a table.

    The names of later files follow: runs with different overrides are different runs.

    Examples:
        >>> run_name(["configs/dclr/bert-base.yaml", "mine.yaml"])
        'dclr-bert-base-mine'
    """
    if not names:
        return "default"
    file, _, row = names[0].partition(", row ")
    folders = Path(file).absolute().parent.parts
    below = folders[max((place + 1 for place, part in enumerate(folders) if part == "configs"), default=len(folders)) :]
    own = [Path(file).stem] if below or not row else []
    if not below and not row and "configs" not in folders:  # two files of one name are two runs
        own.insert(0, Path(file).parent.name)
    overrides = [Path(name).stem for name in names[1:]]
    return "-".join(filter(None, [*(part for part in below if part != "tables"), *own, row, *overrides]))


def settle_last(tree: Tree, resumes: bool) -> str | None:
    """Return the newest checkpoint of the newest run of this name; a run that resumes writes into its folder.

    Raises:
        UsageError: there is no checkpoint, for another command than ``fit``, which then starts from the beginning.
    """
    logger = tree["trainer"].get("logger")
    settings = _arguments(logger[0] if isinstance(logger, list) and logger else logger)
    own = _arguments(tree["checkpoint"]).get("dirpath")
    run = expanded(own or tree["trainer"].get("default_root_dir") or ".")
    is_numbered = own is None and "save_dir" in settings
    if is_numbered:
        parent = expanded(Path(settings["save_dir"], settings.get("name") or "lightning_logs"))
        version = settings.get("version")
        if version is None:
            version = max((_number(place.parent) for place in parent.glob("version_*/checkpoints")), default=0)
        run = parent / (version if isinstance(version, str) else f"version_{version}")  # as Lightning names it
    folder = run if own else run / "checkpoints"
    if resumes and is_first():
        for place in (folder, run, run / MODEL):
            remove_leftovers(place)
    newest = max(folder.glob("*.ckpt"), key=lambda path: path.stat().st_mtime_ns, default=None)
    if newest is None and not resumes:
        raise UsageError(f"--ckpt_path last: no checkpoint in {folder}; name a file")
    if resumes and is_numbered and folder.is_dir() and not isinstance(logger, list):
        settings["version"] = run.name
    where = f"is {newest}" if newest else f": no checkpoint in {folder} yet, so this starts from the beginning"
    rank_zero_info(f"--ckpt_path last {where}")
    return str(newest) if newest else None


def _number(folder: Path) -> int:
    """The n of ``version_<n>``; -1 for a folder of another name."""
    number = folder.name.removeprefix("version_")
    return int(number) if number.isdecimal() else -1


def _arguments(node: Any) -> Tree:
    return (node.get("init_args") or {}) if isinstance(node, dict) else {}


def claim_version(logger: Any) -> Path | None:
    """Make the next ``version_<n>`` for a logger without one: the process that makes the folder owns it.

    Args:
        logger: of the trainer's configuration; its arguments get the version.

    Returns:
        The folder, if it was made.
    """
    settings = logger.get("init_args") if isinstance(logger, Namespace) else None
    if settings is None or logger.class_path.rpartition(".")[2] not in _NUMBERED or settings.version is not None:
        return None
    if "://" in settings.save_dir or not is_first():
        return None
    parent = expanded(Path(settings.save_dir, settings.name or "lightning_logs"))
    settings.version = max(map(_number, parent.glob("version_*")), default=-1)
    while True:
        settings.version += 1
        folder = parent / f"version_{settings.version}"
        with writing(parent), suppress(FileExistsError):
            folder.mkdir(parents=True)
            return folder


def is_first() -> bool:
    """Whether this process is the one of its run that writes; the others take its folder."""
    return all(os.environ.get(name, "0") == "0" for name in ("RANK", "SLURM_PROCID", "LOCAL_RANK", "NODE_RANK"))
