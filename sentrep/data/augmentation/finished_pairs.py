"""Pairs that are made from sentences: tables in the parts of a map, each row with its verdict, and their file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sentrep.data.parts import Parts

VERDICT = "verdict"
"""Column of a row's verdict: `KEPT`, or the reason why it is left out."""
KEPT = "kept"
RECORD = b"sentrep"
"""Key in the schema of the file under which it says how it was made, as JSON."""


def save_rows(file: IO[bytes], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write finished rows, all with the same columns, as a part."""
    pq.write_table(pa.Table.from_pylist(list(rows)), file)


def tables(parts: Parts) -> Iterator[pa.Table]:
    """The parts in the order of the rows."""
    return map(pq.read_table, parts.paths())


def record(parts: Parts, notes: Mapping[str, Any]) -> dict[str, Any]:
    """How finished parts were made: settings, notes, and rows by verdict."""
    verdicts = Counter[str]()
    for table in tables(parts):
        verdicts.update(table[VERDICT].to_pylist())
    return {"settings": parts.settings, "notes": dict(notes), "verdicts": dict(verdicts.most_common())}


def write_pairs(parts: Parts, output: str, columns: Sequence[str], about: Mapping[str, Any]) -> None:
    """Put the rows together that are kept, with these columns, as a parquet file that says how it was made.

    Raises:
        InputError: it cannot be written there; the parts stay.
    """
    schema = pa.schema([(name, pa.string()) for name in columns], {RECORD: json.dumps(about)})

    def write(file: IO[bytes]) -> None:
        with pq.ParquetWriter(file, schema, compression="zstd") as writer:
            for table in tables(parts):
                kept = table.filter(pc.equal(table[VERDICT], KEPT)).select(list(columns))
                writer.write_table(kept.cast(schema))

    parts.put_together(output, write)
