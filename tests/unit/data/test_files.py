from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import re
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentrep.data import load
from sentrep.data.files import cells_of
from sentrep.data.text import open_text
from sentrep.errors import InputError

CELL = st.text(st.characters(codec="utf-8"), max_size=12)
LINE = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=12)


def read(path: Path, columns: list[str] | list[int] | None = None) -> list[tuple]:
    return list(cells_of(str(path), list(map(str, columns or ()))))[1:]


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@settings(deadline=None, max_examples=20)
@given(st.lists(LINE, min_size=1), st.sampled_from(["\n", "\r\n", "\r"]), st.booleans())
def test_text_lines_round_trip(lines: list[str], end: str, last_end: bool) -> None:
    content = end.join(lines) + (end if last_end or not lines[-1] else "")
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "corpus.txt", b"\xef\xbb\xbf" + content.encode())
        assert read(path) == [(line,) for line in lines]


@settings(deadline=None, max_examples=20)
@given(st.lists(st.tuples(CELL, CELL), min_size=1))
def test_csv_round_trips_with_line_breaks_quotes_and_control_characters(rows: list[tuple[str, str]]) -> None:
    rows = [tuple(cell.replace("\0", "") for cell in row) for row in rows]  # Python 3.10's csv refuses NUL
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([("sent0", "sent1"), *rows])
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "pairs.csv", text.getvalue())
        assert read(path) == rows
        assert read(path, ["sent1"]) == [(second,) for _, second in rows]


@settings(deadline=None, max_examples=20)
@given(st.lists(CELL, min_size=1))
def test_jsonl_and_parquet_round_trip(cells: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lines = "".join(json.dumps({"text": cell, "id": 1}, ensure_ascii=False) + "\n" for cell in cells)
        assert read(write(Path(folder) / "a.jsonl", lines)) == [(cell,) for cell in cells]
        pq.write_table(pa.table({"text": cells, "id": [1] * len(cells)}), Path(folder) / "a.parquet")
        assert read(Path(folder) / "a.parquet") == [(cell,) for cell in cells]


def zstandard(content: bytes) -> bytes:
    return pa.compress(content, "zstd", asbytes=True)


PACKERS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstandard}


@pytest.mark.parametrize("suffix", PACKERS)
def test_compressed(tmp_path: Path, suffix: str) -> None:
    lines, pack = [f"line {number}" for number in range(50_000)], PACKERS[suffix]
    content = pack("\n".join([*lines[:10], ""]).encode()) + pack("\n".join(lines[10:]).encode())  # two streams
    path = write(tmp_path / f"corpus.txt.{suffix}", content)
    assert read(path) == [(line,) for line in lines]
    for damaged in (content[: int(len(content) * 0.7)], content[:-4]):
        write(path, damaged)
        with pytest.raises(InputError, match=r"corpus\.txt\.\w+: cannot be read .*cut off"):
            read(path)
    write(path, b"not compressed at all")
    with pytest.raises(InputError, match=r"corpus\.txt\.\w+: cannot be read"):
        read(path)


def test_a_tsv_file_is_read_as_csv_writes_it_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = io.StringIO(newline="")
    csv.writer(text, "excel-tab").writerows([("first", "second"), ('"a"\tb', "c"), ("two\nlines", 'd "e"')])
    path = write(tmp_path / "pairs.tsv", text.getvalue())
    assert read(path, ["second", "first"]) == [("c", '"a"\tb'), ('d "e"', "two\nlines")]
    assert read(path, [1, 0])[0] == ("second", "first")
    caplog.set_level("INFO", "sentrep")
    load(str(path), [0], streaming=True)
    assert caplog.messages == [f"{path}: quotation marks are read as csv writes them"]


def test_quotation_marks_of_a_tsv_file_that_csv_would_not_write_are_text(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Published pairs are so: as csv, rows would be joined."""
    rows = [("one", '" Queen " was a band'), ('"open', 'a "b" c'), ("two", '"whole"')]
    path = write(tmp_path / "pairs.tsv", "".join("\t".join(row) + "\n" for row in rows))
    assert read(path, [0, 1]) == rows
    caplog.set_level("INFO", "sentrep")
    load(str(path), [0], streaming=True)
    assert caplog.messages == [f"{path}: quotation marks are read as text, for csv would not write them so"]


def test_usual_columns(tmp_path: Path) -> None:
    assert read(write(tmp_path / "a.csv", "id,sent1,sent0,hard_neg\n1,p,a,n\n")) == [("a", "p", "n")]
    assert read(write(tmp_path / "b.csv", "id,sent1,sent0\n1,p,a\n")) == [("a", "p")]
    assert read(write(tmp_path / "c.csv", "id,text\n1,a\n")) == [("a",)]
    assert read(write(tmp_path / "d.csv", "whatever\na\n")) == [("a",)]


LATE = json.dumps({"text": "x" * 999_000}) + "\n"
"""Eleven of these rows are what readers that guess types look at once, and one more."""


@pytest.mark.parametrize("cell", [5, True, ["a"], {"a": "b"}, 1.5])
def test_a_late_cell_that_is_no_text_is_refused(tmp_path: Path, cell: object) -> None:
    path = write(tmp_path / "a.jsonl", LATE * 11 + json.dumps({"text": cell, "id": 1}) + "\n")
    refused = re.escape(f"a.jsonl, row 12: found {cell!r} where a sentence was expected")
    for streaming in (True, False):
        with pytest.raises(InputError, match=refused):
            list(load(str(path), ["text"], streaming=streaming))


def test_only_the_wanted_keys_are_read_and_a_later_row_may_lack_one(tmp_path: Path) -> None:
    rows = [{"text": "2020-01-01", "id": "2020-01-01T00:00:00"}, {"text": "1", "note": {"deep": [1]}, "id": 2}]
    first, last = (json.dumps(row) + "\n" for row in rows)
    path = write(tmp_path / "a.jsonl", first + LATE * 11 + last)
    texts = ["2020-01-01", *["x" * 999_000] * 11, "1"]
    assert [cell for (cell,) in read(path, ["text"])] == texts
    assert [row["anchor"] for row in load(str(path), ["text"])] == texts
    assert read(path, ["id"]) == [("2020-01-01T00:00:00",), *[(None,)] * 11, (2,)]
    with pytest.raises(InputError, match=r"no column 'texd'; found 'text', 'id'; did you mean 'text'"):
        read(path, ["texd"])


def test_fingerprint_follows_the_content_only(tmp_path: Path) -> None:
    first = open_text(write(tmp_path / "a.txt", "one\n")).fingerprint
    assert open_text(write(tmp_path / "b.txt", "one\n")).fingerprint == first
    assert open_text(write(tmp_path / "a.txt", "two\n")).fingerprint != first
    assert open_text(write(tmp_path / "a.csv", "one\n")).fingerprint != first
