"""A map over the rows of a corpus that takes hours: killed at any moment, it goes on where it stopped."""

from __future__ import annotations

import json
import logging
import shutil
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sentrep.data.augmentation.filters import KEPT
from sentrep.data.augmentation.record import METADATA_KEY, differences, fingerprint, read_record
from sentrep.data.text.corpus import CorpusRow
from sentrep.errors import InputError
from sentrep.io.files import atomic_write, hold, remove_leftovers, write_text
from sentrep.io.paths import check_target, expanded

logger = logging.getLogger("sentrep")

ROW = "row"
"""Key of a finished row's number in the input, from 0."""
VERDICT = "verdict"
"""Key of a finished row's verdict: `KEPT`, or why it is left out."""
Finished = Mapping[str, Any]
"""A finished row: `ROW`, `VERDICT`, its texts and its counts."""

_FORMAT = 1
_BLOCK = 65536


def check_output(output: str | Path, inputs: Iterable[str] = ()) -> None:
    """Refuse an output that `PartStore` could not write at the end, see `check_target`."""
    check_target(output, inputs)
    if Path(output).suffix != ".parquet":
        raise InputError(f"cannot write {output}: the output file must end in .parquet")


class PartStore:
    """The finished rows of a job whose result is one parquet file.

    Until the end they lie in the folder ``<output>.parts``: one Arrow file a part, and a manifest with the settings. A
    part appears under its name only when it is complete and on the disk (written beside it, flushed, renamed); what is
    there is what is done, and there is no list that could disagree with the files. `publish` puts the kept rows
    together under the output's own name, again with one rename, and removes the folder.

    Args:
        output: the parquet file.
        texts: names of its columns, all of them strings.
        settings: everything that the result depends on, as plain data; other settings over the same parts are refused.
        notes: what else shall be on record (names, versions); may change between two starts.
        counts: names of whole numbers that every finished row has, for the record their sums.

    Raises:
        InputError: the parts or the output are there already and come from other settings, or nothing can be written.
    """

    def __init__(
        self,
        output: str | Path,
        texts: Sequence[str],
        settings: Mapping[str, Any],
        notes: Mapping[str, Any] | None = None,
        counts: Sequence[str] = (),
    ) -> None:
        check_output(output)
        self.output = expanded(output)
        self.folder = self.output.with_name(f"{self.output.name}.parts")
        check_target(self.folder, folder=True)
        self.settings: dict[str, Any] = json.loads(json.dumps(dict(settings)))  # as they will be read back
        self.notes = dict(notes or {})
        self.record: dict[str, Any] | None = None
        """What the output says of itself (see `read_record`), once it is there."""
        self._texts, self._counts = list(texts), list(counts)
        strings, numbers = [(name, pa.string()) for name in (*texts, VERDICT)], [(name, pa.int64()) for name in counts]
        self._schema = pa.schema([(ROW, pa.int64()), *strings, *numbers])
        self._spans: dict[str, tuple[int, int]] = {}
        self._done: NDArray[np.bool_] = np.zeros(0, bool)
        if self.output.exists():
            self._take_output()
        else:
            self._begin()
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

    def map(
        self,
        batches: Iterable[Sequence[CorpusRow]],
        finish: Callable[[Sequence[CorpusRow]], Sequence[Finished]],
        advance: Callable[[int], None] = lambda rows: None,
    ) -> None:
        """Finish the rows that are not finished yet, one part a batch.

        Args:
            batches: of rows; a batch that was begun with other batches goes on with what is left of it.
            finish: rows to finished rows.
            advance: is told how many rows are done.
        """
        for batch in batches:
            if left := [row for row in batch if row.number not in self]:
                self.add(finish(left))
            advance(len(batch))

    def add(self, finished: Sequence[Finished]) -> None:
        """Keep finished rows, at least one; all of them or none.

        Raises:
            InputError: the disk is full or cannot be written to; what was added before is kept.
        """
        table = pa.Table.from_pylist(list(finished), self._schema).sort_by(ROW)
        rows = table[ROW].to_numpy()
        # the same rows have the same name, so that two processes cannot keep them twice; other rows have another one
        name = f"part-{rows[0]:012d}-{zlib.crc32(rows.tobytes()):08x}.arrow"
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        with self._writing(), atomic_write(self.folder / name) as file:
            file.write(sink.getvalue())
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
        for start in range(0, len(self._done), _BLOCK):
            end = start + _BLOCK
            names = [name for name, (first, last) in self._spans.items() if first < end and last >= start]
            if names:
                table = pa.concat_tables(_read(self.folder / name) for name in names).sort_by(ROW)
                rows = table[ROW].to_numpy()
                # two processes with different batch sizes may both have done a row
                once = np.diff(rows, prepend=-1) > 0
                yield table.filter(pa.array(once & (rows >= start) & (rows < end)))

    def publish(self) -> None:
        """Write the output, the rows that are kept, and remove the parts. Of several processes the first one does it.

        Raises:
            InputError: the disk is full or cannot be written to; the parts are kept.
        """
        with self._writing(), hold(self.folder / "publish.lock", f"{self.output}", wait=True):
            if not self.output.exists():
                schema = pa.schema([self._schema.field(name) for name in self._texts])
                schema = schema.with_metadata({METADATA_KEY: json.dumps(self._summary())})
                remove_leftovers(self.output.parent, self.output.name)
                with atomic_write(self.output) as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
                    for table in self.tables():
                        writer.write_table(
                            table.filter(pc.equal(table[VERDICT], KEPT)).select(self._texts).cast(schema)
                        )
        self._take_output()

    def _summary(self) -> dict[str, Any]:
        verdicts: Counter[str] = Counter()
        totals = dict.fromkeys(self._counts, 0)
        for table in self.tables():
            verdicts.update(table[VERDICT].to_pylist())
            totals = {name: total + pc.sum(table[name]).as_py() for name, total in totals.items()}
        about = {"settings": self.settings, "fingerprint": fingerprint(self.settings), "notes": self.notes}
        return {**about, "rows": verdicts.total(), "verdicts": dict(verdicts.most_common()), **totals}

    def _note(self, name: str, rows: NDArray[np.int64]) -> None:
        if rows[-1] >= len(self._done):
            self._done = np.concatenate([self._done, np.zeros(int(rows[-1]) + 1, bool)])
        self._done[rows] = True
        self._spans[name] = (int(rows[0]), int(rows[-1]))

    def _take_output(self) -> None:
        """Read the record of the output, which must be of this work, and remove the parts."""
        record = read_record(self.output)
        if changed := differences(record["settings"], self.settings):
            raise InputError(
                f"{self.output} exists and was made with other settings ({changed}); move it away or name another "
                "output"
            )
        self.record = record
        shutil.rmtree(self.folder, ignore_errors=True)  # which a kill behind the output leaves as well

    def _begin(self) -> None:
        """Write the settings, or compare them with those that the parts were made with."""
        path = self.folder / "manifest.json"
        with self._writing():
            self.folder.mkdir(parents=True, exist_ok=True)
            with hold(self.folder / "manifest.lock", f"{self.output}", wait=True):
                if not path.exists():
                    manifest = {"format": _FORMAT, "settings": self.settings, "notes": self.notes}
                    write_text(path, json.dumps(manifest, indent=2))
                text = path.read_text(encoding="utf-8", errors="replace")
        try:
            saved = json.loads(text)
            changed = differences(saved["settings"], self.settings)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(f"{path} is damaged ({error}); delete {self.folder} to start anew") from error
        if saved.get("format") != _FORMAT:
            raise InputError(f"{self.folder} was begun by another version of sentrep; go on with that, or delete it")
        if changed:
            raise InputError(
                f"{self.folder} holds the beginning of this work with other settings ({changed}); go on with the same "
                "settings, or delete the folder or name another output to start anew"
            )

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InputError(
                f"cannot write {self.output}: {error.strerror or error}; what is finished is kept in {self.folder}: "
                "mend this and run the same command again"
            ) from error


def _read(path: Path) -> pa.Table:
    with pa.ipc.open_file(path) as reader:
        return reader.read_all()
