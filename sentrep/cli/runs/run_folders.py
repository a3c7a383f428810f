"""The folders that a training run writes to: claimed by one process, and locked until it ends."""

from __future__ import annotations

import os
import re
import warnings
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from jsonargparse import Namespace
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

from sentrep.data.shard import Shard, local_rank
from sentrep.data.text.locations import is_address
from sentrep.io.files import BusyError, hold
from sentrep.io.paths import expanded, writing

LOCK = ".lock"
"""The file in a folder that stands for a process which trains there."""
_NUMBERED = ("TensorBoardLogger", "CSVLogger")
"""Lightning's loggers that give a run the next free ``version_<n>``."""


def is_leader() -> bool:
    """Whether this process is the one of its run that writes; the others take its folder."""
    return Shard.of(None).index == local_rank() == int(os.environ.get("NODE_RANK", "0")) == 0


def version_of(run: Path) -> int:
    """The n of ``version_<n>``; −1 for a folder of another name."""
    number = run.name.removeprefix("version_")
    return int(number) if number != run.name and number.isdecimal() else -1


def newest_training(folder: Path) -> int:
    """The largest n of the ``version_<n>`` in a folder that were trained in (``test`` makes some, too); −1 without."""
    marks = (LOCK, "config.yaml", "checkpoints")
    found = [path for path in folder.glob("version_*") if any((path / mark).exists() for mark in marks)]
    return max(map(version_of, found), default=-1)


class RunFolders(ExitStack):
    """The folders that this process trains in: no other process gets one of them until this one ends.

    Folders that were made for a run which then wrote nothing are removed at its end. In the other processes of a
    distributed run it does nothing: the first one (`is_leader`) holds the folders for all. The folder of a run that
    only scores (``trains=False``) is its own, and is not locked.
    """

    def __init__(self, trains: bool = True) -> None:
        super().__init__()
        self._trains = trains
        self._held: list[Path] = []
        self._leads = is_leader()

    def hold(self, folder: str | Path) -> None:
        """Lock a folder, and create it if it is missing. An address has no locks and is skipped.

        Raises:
            BusyError: another process trains in it.
            InputError: the folder cannot be made or locked.
        """
        if not self._leads or not self._trains or is_address(folder):
            return
        place = expanded(folder)
        if place.resolve() in self._held:
            return
        self._make(place)
        if not any(path.name != LOCK for path in place.iterdir()):  # the lock is no reason for Lightning to warn
            told = "(Checkpoint|Experiment logs) directory"
            warnings.filterwarnings("ignore", message=f"{told} {re.escape(str(place))} exists and is not empty")
        self.enter_context(hold(place / LOCK, f"the run in {place}"))
        self._held.append(place.resolve())

    def claim_version(self, parent: Path) -> int:
        """Make and lock the next ``version_<n>``, which no other process has, and return n."""
        self._make(parent)
        number = max(map(version_of, parent.glob("version_*")), default=-1)
        while True:
            number += 1
            folder = parent / f"version_{number}"
            with suppress(FileExistsError, BusyError):
                folder.mkdir()  # whoever makes it has it
                self.callback(_remove_empty, folder)
                self.hold(folder)
                return number

    def claim_versions(self, loggers: Any) -> list[Namespace]:
        """Give each logger of ``trainer.logger`` that has no version the next one.

        Returns the arguments of those that got one, to take it back from: a saved configuration starts its own run.
        """
        found = []
        for logger in (loggers if isinstance(loggers, list) else [loggers]) if self._leads else ():
            settings = logger.get("init_args") if isinstance(logger, Namespace) else None
            if settings is None or logger.class_path.rsplit(".")[-1] not in _NUMBERED or is_address(settings.save_dir):
                continue
            if settings.get("version") is None:
                name = settings.get("name")
                parent = expanded(Path(settings.save_dir, "lightning_logs" if name is None else name))
                settings.version = self.claim_version(parent)
                found.append(settings)
        return found

    def hold_all(self, trainer: Trainer) -> None:
        """Lock the folders that a trainer writes to: the first logger's and the checkpoints' folder."""
        if not self._leads or trainer.fast_dev_run:  # type: ignore[attr-defined]
            return
        self.hold(trainer.log_dir or trainer.default_root_dir)
        for saver in trainer.checkpoint_callbacks:
            if isinstance(saver, ModelCheckpoint) and saver.dirpath:
                self.hold(saver.dirpath)

    def _make(self, folder: Path) -> None:
        missing = [place for place in (folder, *folder.parents) if not place.exists()]
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        for place in reversed(missing):
            self.callback(_remove_empty, place)


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):  # gone, or in use
        folder.rmdir()
