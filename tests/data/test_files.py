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
from words import WordTokenize

from sentrep.data import RowTokenizer, StreamedBatches, load, tokenize_text
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


def test_only_line_feed_and_carriage_return_end_a_line(tmp_path: Path) -> None:
    odd = "a\u2028b\x0cc\x0bd\x85e\x1cf\x00g"
    assert read(write(tmp_path / "a.txt", f"{odd}\nnext")) == [(odd,), ("next",)]


def zstandard(content: bytes) -> bytes:
    return pa.compress(content, "zstd", asbytes=True)


PACKERS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstandard}


@pytest.mark.parametrize("suffix", PACKERS)
def test_compressed(tmp_path: Path, suffix: str) -> None:
    lines, pack = [f"line {number}" for number in range(50_000)], PACKERS[suffix]
    content = pack("\n".join(lines).encode())
    path = write(tmp_path / f"corpus.txt.{suffix}", content)
    assert read(path) == [(line,) for line in lines]
    for damaged in (content[: int(len(content) * 0.7)], content[:-4], pack(b"one\n") + content[:-4]):
        write(path, damaged)
        with pytest.raises(InputError, match=r"corpus\.txt\.\w+: cannot be read .*cut off"):
            read(path)
    write(path, b"not compressed at all")
    with pytest.raises(InputError, match=r"corpus\.txt\.\w+: cannot be read"):
        read(path)


@pytest.mark.parametrize("suffix", PACKERS)
def test_compressed_streams_one_behind_the_other(tmp_path: Path, suffix: str) -> None:
    one, two = PACKERS[suffix](b"one\n"), PACKERS[suffix](b"two\n")
    assert read(write(tmp_path / f"a.txt.{suffix}", one + two)) == [("one",), ("two",)]


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


def test_cells_of_a_table_are_text_and_missing_ones_are_empty(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "sent0,sent1\n007,NA\n1.0,true\nnull\n")
    assert read(path) == [("007", "NA"), ("1.0", "true"), ("null", "")]


def test_usual_columns(tmp_path: Path) -> None:
    assert read(write(tmp_path / "a.csv", "id,sent1,sent0,hard_neg\n1,p,a,n\n")) == [("a", "p", "n")]
    assert read(write(tmp_path / "b.csv", "id,sent1,sent0\n1,p,a\n")) == [("a", "p")]
    assert read(write(tmp_path / "c.csv", "id,text\n1,a\n")) == [("a",)]
    assert read(write(tmp_path / "d.csv", "whatever\na\n")) == [("a",)]


def test_empty_cells_are_rows_and_blank_lines_of_a_table_are_not(tmp_path: Path) -> None:
    assert read(write(tmp_path / "a.csv", "sent0,sent1\na,\n\nb,c\n")) == [("a", ""), ("b", "c")]
    assert read(write(tmp_path / "a.jsonl", '{"text": null}\n\n{"text": "b"}\n')) == [(None,), ("b",)]


LATE = json.dumps({"text": "x" * 999_000}) + "\n"
"""Eleven of these rows are what readers that guess types look at once, and one more."""


def check_refused(path: Path, message: str, columns: list[str]) -> None:
    """The cell is refused whether the rows are read one by one, as a stream, or into the cache of token ids."""
    ways = [
        lambda: list(load(str(path), columns, streaming=True)),
        lambda: load(str(path), columns),
        lambda: list(StreamedBatches(load(str(path), columns, streaming=True), 1)),
        lambda: tokenize_text(open_text(str(path), columns), RowTokenizer(WordTokenize(), 8)),
    ]
    for read_it in ways:
        with pytest.raises(InputError, match=message):
            read_it()


@pytest.mark.parametrize("cell", [5, True, ["a"], {"a": "b"}, 1.5])
@pytest.mark.parametrize("before", [0, 11])
def test_a_cell_that_is_no_text_is_refused_wherever_it_is(tmp_path: Path, cell: object, before: int) -> None:
    path = write(tmp_path / "a.jsonl", LATE * before + json.dumps({"text": cell, "id": 1}) + "\n")
    found = re.escape(f"row {before + 1}: found {cell!r} where a sentence was expected")
    check_refused(path, rf"a.jsonl, {found}", ["text"])


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


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('text,label\n"a dog,x\nb,y\n"c",z\nd,w\n"e",v\nf,u\ng,t\n', 2),
        ('text,label\na,x\n"b" c,y\n', 3),
        ('text,label\n"a",x\n\n"b,y\n', 4),
    ],
)
def test_a_quotation_mark_that_is_not_closed_is_refused(tmp_path: Path, text: str, line: int) -> None:
    path = write(tmp_path / "a.csv", text)
    check_refused(path, rf"a.csv, line {line}: .*; close the quotation mark", ["text"])
    assert read(write(tmp_path / "b.csv", 'text,label\na 5" pipe,x\n"say ""hi""",y\n'), ["text"]) == [
        ('a 5" pipe',),
        ('say "hi"',),
    ]


def test_text_that_is_not_utf_8_is_refused_however_it_is_read(tmp_path: Path) -> None:
    check_refused(
        write(tmp_path / "a.jsonl", '{"text": "café"}\n'.encode("latin-1")), "a.jsonl: not valid UTF-8", ["text"]
    )
    cells = pa.Array.from_buffers(pa.string(), 1, pa.array([b"caf\xe9"]).buffers())
    pq.write_table(pa.table({"text": cells}), tmp_path / "a.parquet")
    check_refused(tmp_path / "a.parquet", "a.parquet: not valid UTF-8", ["text"])


def test_fingerprint_follows_the_content_only(tmp_path: Path) -> None:
    first = open_text(write(tmp_path / "a.txt", "one\n")).fingerprint
    assert open_text(write(tmp_path / "b.txt", "one\n")).fingerprint == first
    assert open_text(write(tmp_path / "a.txt", "two\n")).fingerprint != first
    assert open_text(write(tmp_path / "a.csv", "one\n")).fingerprint != first


def test_a_header_of_the_numbers_asked_for_is_a_header(tmp_path: Path) -> None:
    """As pandas writes it for a table without names."""
    (tmp_path / "a.csv").write_text("0,1\nx,y\n")
    assert read(tmp_path / "a.csv", [0, 1]) == [("x", "y")]
    assert read(tmp_path / "a.csv", [1]) == [("y",)]
    (tmp_path / "b.csv").write_text("0,z\nx,y\n")
    assert read(tmp_path / "b.csv", [0, 1]) == [("0", "z"), ("x", "y")]
