"""A folder of embeddings in part files: shared by several processes, killed at any moment, continued."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain, count, islice
from pathlib import Path
from typing import Any, Literal

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

Embed = Callable[[list[str]], Any]
"""Sentences (n) to vectors (n, D)."""


@dataclass(frozen=True)
class Stored:
    """How vectors are stored.

    Raises:
        InputError: the settings do not fit together.
    """

    dtype: Literal["float32", "float16", "int8"] = "float32"
    """of the numbers; int8 (parts in npy only) has a scale for each dimension of a part in the manifest."""
    truncate_dim: int | None = None
    """keep the first so many dimensions, before scaling."""
    file_format: Literal["npy", "parquet"] = "npy"
    """of the parts in a folder."""
    rows_per_file: int = 100_000
    """of the parts in a folder."""

    def __post_init__(self) -> None:
        if self.rows_per_file < 1:
            raise InputError(f"rows_per_file {self.rows_per_file}: expected at least 1")
        if self.dtype == "int8" and self.file_format != "npy":
            raise InputError("dtype int8 is stored in npy files alone; leave --stored.file_format parquet out")


class EmbeddingParts:
    """The part files of a folder.

    ``part-00007.npy`` appears under its name when it is complete, and after it ``part-00007.json``, its record (rows,
    bytes, a hash of its text, scales). A part with a record and so many bytes is done. When all parts are,
    ``manifest.json`` puts the records together. While a process works on a part it holds ``part-00007.lock`` (`claim`).

    Whatever the input is called, its text is what the parts are made from: every process hashes all of it while it
    reads, part by part, and refuses a folder with a part of another text.

    Args:
        folder: a path or an address that fsspec writes to.
        stored: how the vectors are stored.
        settings: everything else that the result depends on, as plain data; a folder with others is refused.

    Raises:
        InputError: the settings are others than the folder's, or nothing can be written there.
    """

    def __init__(self, folder: str, stored: Stored, settings: Mapping[str, Any]) -> None:
        self.folder = folder.rstrip("/")
        self.stored, self.settings = stored, {**settings, **vars(stored)}
        self.total = 0
        """Rows of the input, once it has been read to its end."""
        self._system, self._root = file_system(self.folder)
        self._is_local = isinstance(self._system, LocalFileSystem)
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

    def encode(self, sentences: Iterable[str], embed: Embed, shard: Shard, chunk: int) -> Iterator[int]:
        """Do the parts of a shard that nobody has done or is at; a part depends on its own sentences alone.

        Args:
            sentences: all of them, whatever the shard: those of other parts are read over.
            embed: gives the vectors.
            shard: of this process.
            chunk: sentences to embed at a time.

        Yields:
            How many rows of the input have been read.

        Raises:
            InputError: a part of the folder is of another text.
        """
        rows, texts = iter(sentences), dict[str, str]()
        for part in count():
            if (first := next(rows, None)) is None:
                break
            text = TextHash()
            lines = text.over(chain([first], islice(rows, self.stored.rows_per_file - 1)))
            if part % shard.count == shard.index:
                with self.claim(part) as mine:
                    if mine:
                        self.total += self._add(part, ((some, embed(some)) for some in chunks_of(lines, chunk)), text)
            self.total += sum(1 for _ in lines)  # of a part that another process does
            texts[_record(part)] = text.hexdigest()
            self._check({_record(part): text.hexdigest()})
            yield self.total
        self._finish(texts)

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
        with ExitStack() as held:
            try:
                if part not in self:
                    held.enter_context(hold(lock, f"part {part} of {self.folder}"))
                    self._records |= self._read_records([_record(part)])
                yield part not in self
            except BusyError:
                yield False
            finally:
                if part in self:  # whoever has it open finds the part done; a kill behind the record leaves it
                    lock.unlink(missing_ok=True)

    def _add(self, part: int, chunks: Iterator[tuple[list[str], np.ndarray]], text: TextHash) -> int:
        """Write one part and its record; ``text`` has hashed the sentences when ``chunks`` ends. Returns its rows."""
        dtype, name = self.stored.dtype, f"part-{part:05d}.{self.stored.file_format}"
        if self._is_local:
            remove_leftovers(self._root, name)
        record: dict[str, Any] = {"file": name, "first_row": part * self.stored.rows_per_file, "blank": 0}
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

    def _check(self, texts: Mapping[str, str]) -> None:
        """Refuse a part of another text than the input's; ``texts`` are the hashes by record."""
        for name, text in texts.items():
            if self._records.get(name, {}).get("text", text) != text:
                raise InputError(
                    f"{self.folder}: part {int(name[5:-5])} was made from another text than the input has now; name "
                    "another folder, or delete this one"
                )

    def _finish(self, texts: Mapping[str, str]) -> None:
        """Put the records together, if all parts are there, and of the same text."""
        self._records = self._read_records()
        self._check(texts)
        if beyond := self._records.keys() - texts.keys():
            raise InputError(
                f"{self.folder}: holds {min(beyond)} beyond the end of the input; name another folder, "
                "or delete this one"
            )
        if self._records and not self._missing:
            if self._is_local:
                remove_leftovers(self._root)
            parts = sorted(self._records.values(), key=lambda record: record["first_row"])
            about = {"format": FORMAT, "rows": self.total, "dimension": parts[0]["dimension"]}
            self._write_json(MANIFEST, {**about, "settings": self.settings, "parts": parts})

    @property
    def _missing(self) -> int:
        """Rows that no process has done."""
        return self.total - sum(record["rows"] for record in self._records.values())

    def summary(self, shard: Shard) -> str:
        """What is there, in a line."""
        if self._missing:
            return f"{shard} is done; {self._missing} of {self.total} sentences are left to other processes"
        blank = sum(record["blank"] for record in self._records.values())
        note = f" ({blank} of them blank)" if blank else ""
        return f"{self.total} sentences{note} in {len(self._records)} parts: {self.folder}"

    def _refuse_foreign(self) -> None:
        if foreign := [name for name in self._names() if not name.startswith((".", "part-", _SETTINGS))]:
            raise InputError(f"{self.folder}: holds {foreign[0][:80]}, which is no part; name a new or empty folder")

    def _names(self) -> list[str]:
        self._system.invalidate_cache()
        return sorted(entry.rsplit("/", 1)[-1] for entry in self._system.ls(self._root, detail=False))

    def _read_records(self, names: Iterable[str] | None = None) -> dict[str, dict[str, Any]]:
        """The records of those of these parts, or of all, that are there and as long as their records say."""
        found = {}
        for name in self._names() if names is None else names:
            if name.startswith("part-") and name.endswith(".json"):
                try:
                    record = self._read_json(name)
                    if self._system.size(f"{self._root}/{record.get('file')}") == record.get("bytes"):
                        found[name] = record
                except FileNotFoundError:
                    pass
        return found

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


def chunks_of(sentences: Iterable[str], size: int) -> Iterator[list[str]]:
    """Lists of ``size`` sentences, the last one shorter."""
    rows = iter(sentences)
    while chunk := list(islice(rows, size)):
        yield chunk


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
