"""A map that takes hours, in parts of so many rows: killed at any moment, the same command goes on.

A part appears under its name when it is complete (written beside it, flushed, renamed), and a part that is there is not
done again. Nothing is locked: a part that two processes do is written twice, whole, and is the same. The name of a part
ends in a hash of the settings that made it, and the manifest says whose the folder is. Of two commands with different
settings the later one takes the folder over if its user allows that or there is no part yet, and the earlier one stops
before its next write.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from sentrep.data.shard import EVERYTHING, Shard
from sentrep.data.text.fingerprints import hash_of
from sentrep.data.text.locations import file_system, is_address, open_binary
from sentrep.errors import InputError
from sentrep.io.chunks import chunks_of
from sentrep.io.files import atomic_write, remove_leftovers
from sentrep.io.paths import expanded, is_there, writing

MANIFEST = "manifest.json"


class Text(NamedTuple):
    """The identity of a text, independent of its file name."""

    rows: int
    blank: int
    digest: str

    @staticmethod
    def of(sentences: Iterable[str], name: str) -> Text:
        """Read a text once to its end, so that bad input shows before hours of work and not after them.

        Raises:
            InputError: there is no sentence in it; ``name`` says in what.
        """
        digest, rows, blank = hashlib.blake2b(digest_size=16), 0, 0
        for sentence in sentences:
            words = sentence.encode("utf-8", "surrogatepass")
            digest.update(len(words).to_bytes(8, "little") + words)
            rows += 1
            blank += not sentence.strip()
        if not rows:
            raise InputError(f"{name}: no sentences in it; nothing was written")
        return Text(rows, blank, digest.hexdigest())


class Parts:
    """The parts of a map over the rows of a text, in a folder: part 7 is the map of rows 7·size to 8·size − 1.

    Args:
        folder: a path or an address that fsspec writes to.
        text: whose rows are mapped.
        size: rows of a part, at least 1.
        ending: of the parts' names.
        save: writes the map's result for the rows of a part into an open file.
        settings: everything else that the result depends on, as plain data.
        overwrite: replace parts of other settings instead of refusing them.

    Raises:
        InputError: the folder holds something else, or nothing can be written there.
    """

    def __init__(
        self,
        folder: str,
        text: Text,
        size: int,
        ending: str,
        save: Callable[[IO[bytes], Any], object],
        settings: Mapping[str, Any],
        overwrite: bool = False,
    ) -> None:
        self.folder = folder if is_address(folder) else str(expanded(folder))
        self.rows, self.size, self._save = text.rows, size, save
        self.settings: dict[str, Any] = {**settings, "text": text.digest, "rows_per_part": size}
        self._hash = hash_of(json.dumps(self.settings, sort_keys=True))[:8]
        self.names = [f"part-{number:05d}-{self._hash}{ending}" for number in range(-(-text.rows // size))]
        self._system, self._root = file_system(self.folder)
        with writing(self.folder):
            self._system.makedirs(self._root, exist_ok=True)
        there = [name for name in names_in(self.folder) if not name.startswith(".")]
        if there and MANIFEST not in there:
            raise InputError(f"{self.folder}: holds {there[0][:80]}, which is no part; name a new or empty folder")
        changes = self._changes() if there else []
        if changes and not overwrite and any(name.startswith("part-") for name in there):
            raise InputError(
                f"{self.folder} holds parts that were made otherwise ({', '.join(changes)}); go on with the same "
                "settings and text, name another output, or replace them: --overwrite true"
            )
        if changes or not there:
            with whole_file(f"{self.folder}/{MANIFEST}") as file:
                about = {"rows": self.rows, "parts": self.names, "settings": self.settings}
                file.write(json.dumps(about, indent=1).encode())
        self._remove_other_parts()

    def missing(self) -> int:
        """How many parts are not there yet; when none is missing, what killed processes have half written goes.

        Raises:
            InputError: another command has taken the folder over.
        """
        missing = len(set(self.names).difference(names_in(self.folder)))
        if missing and self._is_there(MANIFEST):
            self._check_owner()
        if not missing:
            self._remove_other_parts()
            if not is_address(self.folder):
                remove_leftovers(self.folder)
        return missing

    def paths(self) -> list[str]:
        """The parts as paths or addresses, in the order of the rows."""
        return [f"{self.folder}/{name}" for name in self.names]

    def left(self, rows: Iterable[Any], shard: Shard = EVERYTHING) -> Iterator[tuple[int, list[Any]]]:
        """Number and rows of each missing part of a shard.

        Args:
            rows: of the whole text; rows of other parts are skipped.
            shard: of this process.
        """
        for number, some in enumerate(chunks_of(rows, self.size)):
            if number % shard.count == shard.index and not self._is_there(self.names[number]):
                yield number, some

    def add(self, number: int, result: Any) -> None:
        """Write one part; where another process has written it meanwhile, that one is as good.

        Raises:
            InputError: it cannot be written, and those that were written before stay; or the folder has gone, or
                another command has taken it over.
        """
        self._check_owner()
        try:
            with whole_file(self.paths()[number]) as file:
                self._save(file, result)
        except InputError:
            if not self._is_there(self.names[number]):
                raise

    def put_together(self, output: str, write: Callable[[IO[bytes]], object]) -> None:
        """Write a file from all parts, which go; of several processes that finish together one does it.

        Args:
            output: path or address of the file.
            write: writes it, open.

        Raises:
            InputError: it cannot be written, and the parts stay; or another command has taken the folder over.
        """
        try:
            if self._is_there(MANIFEST):
                self._check_owner()
                with whole_file(output) as file:
                    write(file)
                for name in self.names:  # before the manifest, so that a killed process leaves resumable work
                    self._system.rm(f"{self._root}/{name}")
                self._system.rm(self._root, recursive=True)
        except (InputError, FileNotFoundError) as error:
            if not isinstance(error.__cause__ or error, FileNotFoundError):  # which another process has put together
                raise
            if self._is_there(MANIFEST):
                self._check_owner()

    def _is_there(self, name: str) -> bool:
        self._system.invalidate_cache()
        return bool(self._system.exists(f"{self._root}/{name}"))

    def _check_owner(self) -> None:
        """Refuse to go on in a folder that is no longer of this work."""
        if not self._is_there(MANIFEST):
            raise InputError(f"{self.folder}: has gone; another process has finished this work or removed it")
        if self._changes():
            raise InputError(
                f"{self.folder}: another command with other settings has taken it over, and this one stops; let one "
                "command write an output, or name another one"
            )

    def _changes(self) -> list[str]:
        """The settings in which the folder's manifest differs from this work."""
        saved = read_manifest(self.folder)["settings"]
        return [
            f"{key} was {saved.get(key)} and is {self.settings.get(key)}"
            for key in {**saved, **self.settings}
            if saved.get(key) != self.settings.get(key)
        ]

    def _remove_other_parts(self) -> None:
        for name in set(names_in(self.folder)).difference(self.names):
            if name.startswith("part-"):
                with suppress(FileNotFoundError):  # another process of this work removes them, too
                    self._system.rm(f"{self._root}/{name}")


def names_in(folder: str) -> list[str]:
    """The names of the files in a folder, sorted; empty if the folder is missing."""
    system, root = file_system(folder)
    system.invalidate_cache()
    return sorted(Path(entry).name for entry in system.ls(root, detail=False)) if system.exists(root) else []


def parts_of(output: str, overwrite: bool) -> str:
    """The folder for the parts of a file that is put together at the end.

    Raises:
        InputError: the file is there already, and no parts of it, whose end alone might be missing.
    """
    system, place = file_system(output if is_address(output) else str(expanded(output)))
    if system.exists(place) and not overwrite and not system.exists(f"{place}.parts/{MANIFEST}"):
        raise is_there(output)
    return f"{output}.parts"


@contextmanager
def whole_file(path: str) -> Iterator[IO[bytes]]:
    """A file that appears under its path or address when the block ends, and not when it raises.

    Raises:
        InputError: it cannot be written there.
    """
    with writing(path):
        if not is_address(path):
            with atomic_write(expanded(path)) as file:
                yield file
        else:
            system, place = file_system(path)
            with tempfile.NamedTemporaryFile(prefix="sentrep-") as copy:
                yield copy
                copy.flush()
                system.put_file(copy.name, place)


def read_manifest(folder: str) -> dict[str, Any]:
    """The record of a folder's parts: ``rows``, ``parts`` (names in the order of the rows) and ``settings``.

    Raises:
        InputError: it is no folder of parts.
    """
    try:
        with open_binary(f"{folder}/{MANIFEST}") as file:
            found = json.load(file)
        return {"rows": found["rows"], "parts": found["parts"], "settings": dict(found["settings"])}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"{folder}: {MANIFEST} is none of this version of sentrep ({error}); name another folder"
        ) from error
