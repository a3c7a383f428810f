from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import tempfile
from pathlib import Path
from typing import Any

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


QUOTED = [("first", "second"), ('"a"\tb', "c"), ("two\nlines", 'd "e"')]
PLAIN = [("one", '" Queen " was a band'), ('"open', 'a "b" c'), ("two", '"whole"')]


@pytest.mark.parametrize(
    ("rows", "quoting", "how"),
    [
        (QUOTED, csv.QUOTE_MINIMAL, "as csv writes them"),
        (PLAIN, csv.QUOTE_NONE, "as text, for csv would not write them so"),  # as csv, rows would be joined
    ],
)
def test_quotation_marks_of_a_tsv_file_are_those_of_csv_or_text_and_the_log_says_so(
    rows: list[tuple[str, str]], quoting: Any, how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = io.StringIO(newline="")
    csv.writer(text, "excel-tab", quoting=quoting, quotechar=None if quoting else '"').writerows(rows)
    path = write(tmp_path / "pairs.tsv", text.getvalue())
    assert read(path, [1, 0]) == [(second, first) for first, second in rows]
    caplog.set_level("INFO", "sentrep")
    load(str(path), [0], streaming=True)
    assert caplog.messages == [f"{path}: quotation marks are read {how}"]


def test_usual_columns(tmp_path: Path) -> None:
    assert read(write(tmp_path / "a.csv", "id,sent1,sent0,hard_neg\n1,p,a,n\n")) == [("a", "p", "n")]
    assert read(write(tmp_path / "b.csv", "id,sent1,sent0\n1,p,a\n")) == [("a", "p")]
    assert read(write(tmp_path / "c.csv", "id,text\n1,a\n")) == [("a",)]
    assert read(write(tmp_path / "d.csv", "whatever\na\n")) == [("a",)]


def test_fingerprint_follows_the_content_only(tmp_path: Path) -> None:
    first = open_text(write(tmp_path / "a.txt", "one\n")).fingerprint
    assert open_text(write(tmp_path / "b.txt", "one\n")).fingerprint == first
    assert open_text(write(tmp_path / "a.txt", "two\n")).fingerprint != first
    assert open_text(write(tmp_path / "a.csv", "one\n")).fingerprint != first
