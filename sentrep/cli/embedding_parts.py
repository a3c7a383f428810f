"""A folder of embeddings in part files: shared by several processes, killed at any moment, continued."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from fsspec.implementations.local import LocalFileSystem

from sentrep.cli.writers import NpyWriter, open_writer
from sentrep.data.augmentation.record import differences
from sentrep.data.locations import file_system
from sentrep.data.shard import Shard
from sentrep.encoder.stored import FORMAT, MANIFEST, open_array
from sentrep.errors import InputError

_SETTINGS = "settings.json"
_LEVELS = 127


class EmbeddingParts:
    """The part files of a folder.

    ``part-00007.npy`` appears under its name when it is complete, and after it ``part-00007.json``, its record (rows,
    scales). What has a record is done. When all parts have one, ``manifest.json`` puts the records together. While a
    process works on a part it holds ``part-00007.lock`` (`claim`).

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
        self._system, self._root = file_system(self.folder)
        try:
            self._system.makedirs(self._root, exist_ok=True)
            if not self._system.exists(f"{self._root}/{_SETTINGS}"):
                self._refuse_foreign()
                self._write_json(_SETTINGS, self.settings)
            saved = self._read_json(_SETTINGS)
            self._records = {name: self._read_json(name) for name in self._names() if name.startswith("part-")}
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
        if part in self or not self._is_local:
            yield part not in self
            return
        lock = FileLock(Path(self._root) / f"part-{part:05d}.lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            yield False
            return
        except (OSError, NotImplementedError) as error:
            raise InputError(f"{lock.lock_file}: cannot be locked ({error}); name another output folder") from error
        try:
            self._records |= {name: self._read_json(name) for name in self._names() if name == _record(part)}
            yield part not in self
        finally:
            if part in self:
                Path(lock.lock_file).unlink(missing_ok=True)  # whoever has it open finds the part done
            lock.release()

    def add(self, part: int, chunks: Iterator[tuple[list[str], np.ndarray]]) -> int:
        """Write one part and its record; returns its rows, of which there must be some."""
        dtype, name = self.settings["dtype"], f"part-{part:05d}.{self.settings['file_format']}"
        for left in Path(self._root).glob(f".{name}.*.tmp") if self._is_local else ():
            left.unlink()  # of a process that was killed: this one has the claim
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
        self._write_json(_record(part), {**record, "rows": out.rows})
        self._records[_record(part)] = {**record, "rows": out.rows}
        return out.rows

    def finish(self, total: int) -> None:
        """Put the records together, if all parts of ``total`` rows are there."""
        self.total = total
        self._records = {name: self._read_json(name) for name in self._names() if name.startswith("part-")}
        if self.complete:
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

    def _names(self) -> list[str]:
        self._system.invalidate_cache()
        found = [entry.rsplit("/", 1)[-1] for entry in self._system.ls(self._root, detail=False)]
        return sorted(name for name in found if name.endswith(".json"))

    def _read_json(self, name: str) -> dict[str, Any]:
        content = json.loads(self._system.cat_file(f"{self._root}/{name}"))
        if not isinstance(content, dict):
            raise ValueError(f"{name} holds a JSON {type(content).__name__}")
        return content

    def _write_json(self, name: str, content: Mapping[str, Any]) -> None:
        text = json.dumps(content, indent=1).encode()
        if not self._is_local:  # an object appears whole or not at all
            self._system.pipe_file(f"{self._root}/{name}", text)
            return
        temporary = Path(self._root) / f".{name}.{secrets.token_hex(8)}.tmp"
        temporary.write_bytes(text)
        os.replace(temporary, Path(self._root) / name)


def _record(part: int) -> str:
    return f"part-{part:05d}.json"


def encode_parts(
    parts: EmbeddingParts, sentences: Iterable[str], embed: Callable[[list[str]], Any], shard: Shard, chunk: int
) -> Iterator[int]:
    """Encode the parts of a shard that nobody has done or is at; a part depends on its own sentences alone.

    Args:
        parts: where they go.
        sentences: all of them, whatever the shard: those of other parts are read over.
        embed: gives vectors (n, D).
        shard: of this process.
        chunk: sentences to embed at a time.

    Yields:
        How many rows of the input have been read.
    """
    rows, part, total = iter(sentences), 0, 0
    while (first := next(rows, None)) is not None:
        texts = chain([first], islice(rows, parts.rows_per_file - 1))
        if part % shard.count == shard.index:
            with parts.claim(part) as mine:
                if mine:
                    total += parts.add(part, ((lines, embed(lines)) for lines in chunks_of(texts, chunk)))
        total += sum(1 for _ in texts)  # of a part that another process does
        part += 1
        yield total
    parts.finish(total)


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


def chunks_of(sentences: Iterable[str], size: int) -> Iterator[list[str]]:
    """Lists of ``size`` sentences, the last one shorter."""
    rows = iter(sentences)
    while chunk := list(islice(rows, size)):
        yield chunk
