"""A folder of embeddings in part files: shared by several processes, killed at any moment, continued."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from fsspec.implementations.local import LocalFileSystem

from sentrep.cli.writers import NpyWriter, open_writer
from sentrep.data.augmentation.record import differences
from sentrep.data.stored_embeddings import FORMAT, MANIFEST, open_array
from sentrep.data.text.fingerprints import TextHash
from sentrep.data.text.locations import file_system
from sentrep.data.text.shard import Shard
from sentrep.errors import InputError
from sentrep.io.files import BusyError, hold, remove_leftovers, write_text

_SETTINGS = "settings.json"
_LEVELS = 127


class EmbeddingParts:
    """The part files of a folder.

    ``part-00007.npy`` appears under its name when it is complete, and after it ``part-00007.json``, its record (rows,
    bytes, a hash of its text, scales). A part with a record and so many bytes is done. When all parts are,
    ``manifest.json`` puts the records together. While a process works on a part it holds ``part-00007.lock`` (`claim`).

    Whatever the input is called, its text is what the parts are made from: every process hashes all of it while it
    reads, part by part, and refuses a folder with a part of another text.

    Args:
        folder: a path or an address that fsspec writes to.
        settings: everything that the result depends on, as plain data; other settings in the same folder are refused.

    Raises:
        InputError: the settings are others than the folder's or do not fit together, or nothing can be written there.
    """

    def __init__(self, folder: str, settings: Mapping[str, Any]) -> None:
        self.folder = folder.rstrip("/")
        self.settings = dict(settings)
        self.rows_per_file = int(settings["rows_per_file"])
        if self.rows_per_file < 1:
            raise InputError(f"rows_per_file {self.rows_per_file}: expected at least 1")
        if settings["dtype"] == "int8" and settings["file_format"] != "npy":
            raise InputError("dtype int8 is stored in npy files alone; leave --file_format parquet out")
        self.total = 0
        """Rows of the input, once it has been read to its end."""
        self._texts: dict[str, str] = {}
        """Of every part that was read: the hash of its text, by the name of its record."""
        self._system, self._root = file_system(self.folder)
        try:
            self._system.makedirs(self._root, exist_ok=True)
            if not self._system.exists(f"{self._root}/{_SETTINGS}"):
                self._refuse_foreign()
                self._write_json(_SETTINGS, self.settings)
            saved = self._read_json(_SETTINGS)
            self._records = self._read_records()
        except (OSError, ValueError) as error:
            raise InputError(f"{folder}: cannot be used for the parts ({error}); name another output folder") from error
        if changed := differences(saved, self.settings):
            raise InputError(
                f"{folder} holds parts with other settings ({changed}); go on with the same settings, or name another "
                "folder"
            )

    def __contains__(self, part: int) -> bool:
        return _record(part) in self._records

    @contextmanager
    def claim(self, part: int) -> Iterator[bool]:
        """Whether a part is this process's to do: it is not done, and no other process is at it.

        The claim is a lock of the operating system (flock), so that it ends with the process, however that ends. It
        holds on one machine, and between machines where the file system passes locks on (NFS, Lustre with ``flock``).
        An address has no locks; there a part that is done twice is written twice, whole each time.

        Raises:
            InputError: the folder's file system refuses locks.
        """
        if not self._is_local:
            yield part not in self
            return
        lock = Path(self._root) / f"part-{part:05d}.lock"
        if part in self:
            lock.unlink(missing_ok=True)  # of a process that was killed behind the record
            yield False
            return
        with ExitStack() as held:
            try:
                held.enter_context(hold(lock, f"part {part} of {self.folder}"))
            except BusyError:
                yield False
                return
            try:
                if (record := self._read_record(_record(part))) is not None:
                    self._records[_record(part)] = record
                yield part not in self
            finally:
                if part in self:
                    lock.unlink(missing_ok=True)  # whoever has it open finds the part done

    def add(self, part: int, chunks: Iterator[tuple[list[str], np.ndarray]], text: TextHash) -> int:
        """Write one part and its record; returns its rows, of which there must be some.

        Args:
            part: its number.
            chunks: its sentences and their vectors.
            text: has hashed the sentences when ``chunks`` has ended.
        """
        dtype, name = self.settings["dtype"], f"part-{part:05d}.{self.settings['file_format']}"
        if self._is_local:
            remove_leftovers(self._root, name)
        record: dict[str, Any] = {"file": name, "first_row": part * self.rows_per_file, "blank": 0}
        with tempfile.TemporaryDirectory(prefix="sentrep-") as folder:
            wide = f"{folder}/float32.npy"
            # the scales of int8 are known at the end only: the numbers wait in a file of their own
            target = (wide, "float32") if dtype == "int8" else (f"{self.folder}/{name}", dtype)
            with open_writer(*target) as out:
                for sentences, vectors in chunks:
                    out.write(sentences, vectors)
                    record["blank"] += sum(not sentence.strip() for sentence in sentences)
                    record["dimension"] = vectors.shape[1]
            if dtype == "int8":
                record["scale"] = quantize(wide, f"{self.folder}/{name}")
        self._system.invalidate_cache()
        record |= {"rows": out.rows, "bytes": self._system.size(f"{self._root}/{name}"), "text": text.hexdigest()}
        self._write_json(_record(part), record)
        self._records[_record(part)] = record
        return out.rows

    def check(self, part: int, text: str) -> None:
        """Note what a part's text is, and refuse the folder where it holds this part of another text.

        Raises:
            InputError: the input has changed since the part was made.
        """
        self._texts[_record(part)] = text
        if part in self and self._records[_record(part)]["text"] != text:
            raise InputError(
                f"{self.folder}: part {part} was made from another text than the input has now; name another folder, "
                "or delete this one"
            )

    def finish(self, total: int) -> None:
        """Put the records together, if all parts of ``total`` rows are there, and of the same text.

        Raises:
            InputError: another process has made a part from another text.
        """
        self.total = total
        self._records = self._read_records()
        for part in range(len(self._texts)):
            self.check(part, self._texts[_record(part)])
        if beyond := self._records.keys() - self._texts.keys():
            raise InputError(
                f"{self.folder}: holds {min(beyond)} beyond the end of the input; name another folder, "
                "or delete this one"
            )
        if self.complete:
            if self._is_local:
                remove_leftovers(self._root)
            parts = sorted(self._records.values(), key=lambda record: record["first_row"])
            about = {"format": FORMAT, "rows": total, "dimension": parts[0]["dimension"], "settings": self.settings}
            self._write_json(MANIFEST, {**about, "parts": parts})

    @property
    def rows(self) -> int:
        """Rows that are done, by all processes."""
        return sum(record["rows"] for record in self._records.values())

    @property
    def complete(self) -> bool:
        """Whether all parts are there."""
        return 0 < self.rows == self.total

    def summary(self, shard: Shard) -> str:
        """What is there, in a line."""
        blank = sum(record["blank"] for record in self._records.values())
        note = f" ({blank} of them blank)" if blank else ""
        if self.complete:
            return f"{self.rows} sentences{note} in {len(self._records)} parts: {self.folder}"
        return f"{shard} is done; {self.total - self.rows} of {self.total} sentences are left to other processes"

    @property
    def _is_local(self) -> bool:
        return isinstance(self._system, LocalFileSystem)

    def _refuse_foreign(self) -> None:
        found = [entry.rsplit("/", 1)[-1] for entry in self._system.ls(self._root, detail=False)]
        if foreign := sorted(name for name in found if not name.startswith((".", "part-", _SETTINGS))):
            raise InputError(f"{self.folder}: holds {foreign[0][:80]}, which is no part; name a new or empty folder")

    def _read_records(self) -> dict[str, dict[str, Any]]:
        """Of all parts that are there, and as long as their records say."""
        self._system.invalidate_cache()
        found = (entry.rsplit("/", 1)[-1] for entry in self._system.ls(self._root, detail=False))
        names = sorted(name for name in found if name.startswith("part-") and name.endswith(".json"))
        return {name: record for name in names if (record := self._read_record(name)) is not None}

    def _read_record(self, name: str) -> dict[str, Any] | None:
        try:
            record = self._read_json(name)
            size = self._system.size(f"{self._root}/{record['file']}")
        except FileNotFoundError:
            return None
        return record if size == record.get("bytes") else None

    def _read_json(self, name: str) -> dict[str, Any]:
        content = json.loads(self._system.cat_file(f"{self._root}/{name}"))
        if not isinstance(content, dict):
            raise ValueError(f"{name} holds a JSON {type(content).__name__}")
        return content

    def _write_json(self, name: str, content: Mapping[str, Any]) -> None:
        text = json.dumps(content, indent=1)
        if not self._is_local:  # an object appears whole or not at all
            self._system.pipe_file(f"{self._root}/{name}", text.encode())
        else:
            write_text(Path(self._root) / name, text)


def _record(part: int) -> str:
    return f"part-{part:05d}.json"


def quantize(source: str, target: str, rows: int = 8192) -> list[float]:
    """float32 .npy → int8 .npy: x ≈ scale · q with one scale for each dimension, max |x| / 127 over the file.

    No value is clipped, so that the error of a number is at most half its scale.

    Args:
        source: array (n, D).
        target: file or address to write.
        rows: held in memory at a time.

    Returns:
        The scales (D,).
    """
    vectors = open_array(source)
    starts = range(0, len(vectors), rows)
    largest = np.max([np.abs(vectors[start : start + rows]).max(axis=0) for start in starts], axis=0)
    scale = np.where(largest > 0, largest / _LEVELS, 1).astype(np.float32)
    with NpyWriter(target, "int8") as out:
        for start in starts:
            out.write([], np.rint(vectors[start : start + rows] / scale))
    return [float(value) for value in scale]
