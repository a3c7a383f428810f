"""Pairs that are made from sentences in hours: shards of finished rows, which a kill leaves, and their file."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sentrep.errors import InputError
from sentrep.io.files import atomic_write, remove_leftovers, write_text
from sentrep.io.paths import expanded, writing

VERDICT = "verdict"
"""Column of a row's verdict: `KEPT`, or the reason why it is left out."""
KEPT = "kept"
RECORD = b"sentrep"
"""Key in the schema of the file under which it says how it was made, as JSON."""


class FinishedShards:
    """The finished shards of an output, in the folder ``OUTPUT.parts``: tables of rows, each with its verdict.

    Args:
        output: the parquet file that they become.
        settings: plain values that determine the rows.
        overwrite: remove shards of other settings.

    Raises:
        InputError: there are shards of other settings, or the folder cannot be made.
    """

    def __init__(self, output: str, settings: Mapping[str, Any], overwrite: bool) -> None:
        self._output, self.settings = expanded(output), dict(settings)
        self._folder = self._output.with_name(f"{self._output.name}.parts")
        record = self._folder / "settings.json"
        saved = json.loads(record.read_text()) if record.exists() else self.settings
        if saved != self.settings and not overwrite:
            changed = [key for key in settings if saved.get(key) != settings[key]]
            words = ", ".join(f"{key} was {saved.get(key)} and is {settings[key]}" for key in changed)
            raise InputError(f"{self._folder} holds rows of other settings ({words}); --overwrite true replaces them")
        with writing(output):
            remove_leftovers(self._output)  # of a killed write
            remove_leftovers(self._folder)
            if saved != self.settings:
                shutil.rmtree(self._folder)
            self._folder.mkdir(parents=True, exist_ok=True)
            write_text(record, json.dumps(self.settings))

    def __contains__(self, number: int) -> bool:
        return self._path(number).exists()

    def add(self, number: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write a shard, whole or not at all."""
        with writing(self._output), atomic_write(self._path(number)) as file:
            pq.write_table(pa.Table.from_pylist(list(rows)), file)

    def put_together(self, columns: Sequence[str], notes: Mapping[str, Any]) -> dict[str, int]:
        """Write the rows that are kept, with these columns, and say in the file how it was made; remove the shards.

        Returns:
            The number of rows by verdict.

        Raises:
            InputError: it cannot be written there; the shards stay.
        """
        verdicts = Counter[str]()
        for table in self._tables():
            verdicts.update(table[VERDICT].to_pylist())
        found = dict(verdicts.most_common())
        about = json.dumps({"settings": self.settings, "notes": dict(notes), "verdicts": found})
        schema = pa.schema([(name, pa.string()) for name in columns], {RECORD: about})
        with (
            writing(self._output),
            atomic_write(self._output) as file,
            pq.ParquetWriter(file, schema, compression="zstd") as writer,
        ):
            for table in self._tables():
                kept = table.filter(pc.equal(table[VERDICT], KEPT)).select(list(columns))
                writer.write_table(kept.cast(schema))
        shutil.rmtree(self._folder)
        return found

    def _tables(self) -> Iterator[pa.Table]:
        return map(pq.read_table, sorted(self._folder.glob("part-*.parquet")))

    def _path(self, number: int) -> Path:
        return self._folder / f"part-{number:08d}.parquet"
