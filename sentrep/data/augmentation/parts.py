"""Results of hours of work, kept part by part: killed at any moment, the work goes on where it stopped."""

from __future__ import annotations

import json
import logging
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sentrep.data.augmentation.record import METADATA_KEY, differences, fingerprint, read_record
from sentrep.errors import InputError
from sentrep.io.files import atomic_write, hold, remove_leftovers
from sentrep.io.paths import check_target

logger = logging.getLogger("sentrep")

ROW = "row"
"""A column of every part: number of the row in the input, from 0."""

_FORMAT = 1
_MERGE_ROWS = 16384
_END = np.iinfo(np.int64).max


def check_output(output: str | Path, inputs: Iterable[str] = ()) -> None:
    """Refuse an output that `PartStore` could not write at the end, see `check_target`."""
    check_target(output, inputs)
    if Path(output).suffix != ".parquet":
        raise InputError(f"cannot write {output}: the output file must end in .parquet")


class PartStore:
    """The finished rows of a job whose result is one parquet file.

    Until the end they lie in the folder ``<output>.parts``: one Arrow file a part, and a manifest with the settings. A
    part appears under its name only when it is complete and on the disk (written beside it, flushed, renamed); what is
    there is what is done, and there is no list that could disagree with the files. `publish` puts the rows together
    under the output's own name, again with one rename, and removes the folder.

    Args:
        output: the parquet file.
        settings: everything that the result depends on, as plain data; other settings over the same parts are refused.
        notes: what else shall be on record (names, versions); may change between two starts.

    Raises:
        InputError: the parts or the output are there already and come from other settings, or nothing can be written.
    """

    def __init__(self, output: str | Path, settings: Mapping[str, Any], notes: Mapping[str, Any] | None = None) -> None:
        check_output(output)
        self.output = Path(output).expanduser()
        self.folder = self.output.with_name(f"{self.output.name}.parts")
        self.settings: dict[str, Any] = json.loads(json.dumps(dict(settings)))  # as they will be read back
        self.notes = dict(notes or {})
        self.record: dict[str, Any] | None = None
        """What the output says of itself (see `read_record`), once it is there."""
        self._spans: dict[str, tuple[int, int]] = {}
        self._done: NDArray[np.bool_] = np.zeros(0, bool)
        if self.output.exists():
            self._take_output()
            shutil.rmtree(self.folder, ignore_errors=True)  # left by a kill between the last two steps of `publish`
        else:
            self._check_manifest()
            self.refresh()

    def __len__(self) -> int:
        """Number of finished rows."""
        return int(self._done.sum())

    def __contains__(self, row: int) -> bool:
        return row < len(self._done) and bool(self._done[row])

    @contextmanager
    def claim(self, share: str) -> Iterator[None]:
        """Keep a second process from the same share of the work; the claim ends with the process, however it ends.

        Raises:
            InputError: another process holds it.
        """
        with hold(self.folder / f"{share.replace(' ', '-')}.lock", f"{share} of {self.output}"):
            yield

    def add(self, columns: Mapping[str, Sequence[Any]], schema: pa.Schema) -> None:
        """Keep finished rows, all of them or none.

        Args:
            columns: of one length, at least one row, `ROW` among them.
            schema: their types, the same for all parts.

        Raises:
            InputError: the disk is full or cannot be written to; what was added before is kept.
        """
        table = pa.table(dict(columns), schema=schema).sort_by(ROW)
        rows = table[ROW].to_numpy()
        # the same rows have the same name, so that two processes cannot keep them twice; other rows have another one
        name = f"part-{rows[0]:012d}-{zlib.crc32(rows.tobytes()):08x}.arrow"
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        self._write(self.folder / name, sink.getvalue())
        self._note(name, rows)

    def refresh(self) -> None:
        """Take notice of the parts that other processes have added; a damaged part is removed and done again."""
        for path in sorted(self.folder.glob("part-*.arrow")):
            if path.name in self._spans:
                continue
            try:
                self._note(path.name, _read(path)[ROW].to_numpy())
            except FileNotFoundError:
                pass  # another process has just published
            except (pa.ArrowInvalid, KeyError, IndexError) as problem:
                logger.warning("%s is damaged (%s); its rows are done again", path, problem)
                path.unlink(missing_ok=True)

    def tables(self) -> Iterator[pa.Table]:
        """All finished rows in the order of the input, each once, a few at a time."""
        starts = sorted((first, name) for name, (first, _) in self._spans.items())
        waiting: list[pa.Table] = []
        for (_, name), (following, _) in zip(starts, [*starts[1:], (_END, "")], strict=True):
            waiting.append(_read(self.folder / name))
            if following == _END or sum(map(len, waiting)) >= _MERGE_ROWS:
                table = pa.concat_tables(waiting).combine_chunks().sort_by(ROW)
                rows = table[ROW].to_numpy()
                # rows before the next part's first are complete; the others wait for the parts that interleave
                ready = int(np.searchsorted(rows, following))
                waiting = [table.slice(ready)]
                if ready:
                    # two processes with different batch sizes may both have done a row
                    yield table.slice(0, ready).filter(pa.array(np.diff(rows[:ready], prepend=-1) > 0))

    def publish(
        self,
        schema: pa.Schema,
        select: Callable[[pa.Table], pa.Table],
        summarize: Callable[[Iterator[pa.Table]], Mapping[str, Any]],
    ) -> None:
        """Write the output and remove the parts. Of several processes the first one does it.

        Args:
            schema: of the output.
            select: the rows and columns of a part that go into the output.
            summarize: what became of all the rows, from `tables`; goes into `record`.

        Raises:
            InputError: the disk is full or cannot be written to; the parts are kept.
        """
        try:
            with hold(self.folder / "publish.lock", f"{self.output}", wait=True):
                if not self.output.exists():
                    about = {"settings": self.settings, "fingerprint": fingerprint(self.settings), "notes": self.notes}
                    about |= summarize(self.tables())
                    self._write_output(schema.with_metadata({METADATA_KEY: json.dumps(about)}), select)
        except OSError as error:
            raise self._unwritable(error) from error
        self._take_output()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _write_output(self, schema: pa.Schema, select: Callable[[pa.Table], pa.Table]) -> None:
        remove_leftovers(self.output.parent, self.output.name)
        with atomic_write(self.output) as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
            for table in self.tables():
                writer.write_table(select(table).cast(schema))

    def _note(self, name: str, rows: NDArray[np.int64]) -> None:
        if rows[-1] >= len(self._done):
            self._done = np.concatenate([self._done, np.zeros(int(rows[-1]) + 1, bool)])
        self._done[rows] = True
        self._spans[name] = (int(rows[0]), int(rows[-1]))

    def _take_output(self) -> None:
        """Read the record of the output, which must be of this work."""
        record = read_record(self.output)
        if changed := differences(record["settings"], self.settings):
            raise InputError(
                f"{self.output} exists and was made with other settings ({changed}); move it away or name another "
                "output"
            )
        self.record = record

    def _check_manifest(self) -> None:
        path = self.folder / "manifest.json"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with hold(self.folder / "manifest.lock", f"{self.output}", wait=True):
                if not path.exists():
                    manifest = {"format": _FORMAT, "settings": self.settings, "notes": self.notes}
                    self._write(path, json.dumps(manifest, indent=2).encode())
                saved = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(saved, dict) or not isinstance(saved.get("settings"), dict):
                raise ValueError("no settings in it")
        except OSError as error:
            raise self._unwritable(error) from error
        except ValueError as error:
            raise InputError(f"{path} is damaged ({error}); delete {self.folder} to start anew") from error
        if saved.get("format") != _FORMAT:
            raise InputError(f"{self.folder} was begun by another version of sentrep; go on with that, or delete it")
        if changed := differences(saved["settings"], self.settings):
            raise InputError(
                f"{self.folder} holds the beginning of this work with other settings ({changed}); go on with the same "
                "settings, or delete the folder or name another output to start anew"
            )

    def _write(self, path: Path, content: Any) -> None:
        try:
            with atomic_write(path) as file:
                file.write(content)
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> InputError:
        return InputError(
            f"cannot write {self.output}: {error.strerror or error}; what is finished is kept in {self.folder}: mend "
            "this and run the same command again"
        )


def _read(path: Path) -> pa.Table:
    with pa.ipc.open_file(path) as reader:
        return reader.read_all()
