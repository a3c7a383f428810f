from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import tempfile
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentrep.data.text.tables import TableFile
from sentrep.errors import InputError
from support import shared_path

CELL = st.text(st.characters(codec="utf-8"), max_size=12)
LINE = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=12)


def read(path: Path, columns: list[str] | list[int] | None = None) -> list[tuple]:
    return [row.cells for row in TableFile(path).rows(columns)]


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


@pytest.mark.parametrize(("suffix", "compress"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)])
def test_compressed(tmp_path: Path, suffix: str, compress) -> None:
    content = b"".join(b"line %d\n" % number for number in range(1000))
    path = write(tmp_path / f"corpus.txt.{suffix}", compress(content))
    assert read(path) == [(f"line {number}",) for number in range(1000)]
    write(path, compress(content)[:-20])
    with pytest.raises(InputError, match=r"corpus\.txt\.\w+: cannot be read .*cut off"):
        read(path)
    write(path, b"not compressed at all")
    with pytest.raises(InputError, match=r"corpus\.txt\.\w+: cannot be read"):
        read(path)


def test_a_zip_file(tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("corpus.txt", "one\ntwo\n")
    assert read(path) == [("one",), ("two",)]


def test_tsv_has_no_quoting_and_positions_mean_no_header(tmp_path: Path) -> None:
    path = write(tmp_path / "pairs.tsv", 'first "a\tsecond\n"b\tc\n')
    assert read(path, [1, 0]) == [("second", 'first "a'), ("c", '"b')]
    assert read(path, ["second"]) == [("c",)]


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


def test_fingerprint_follows_the_content_only(tmp_path: Path) -> None:
    first = TableFile(write(tmp_path / "a.txt", "one\n")).fingerprint()
    assert TableFile(write(tmp_path / "b.txt", "one\n")).fingerprint() == first
    assert TableFile(write(tmp_path / "a.txt", "two\n")).fingerprint() != first
    assert TableFile(write(tmp_path / "a.csv", "one\n")).fingerprint() != first


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "columns", "rows"),
    [
        ("wiki_rewrites.tsv", [0, 1], 50_907),
        ("backtranslated_tweets.tsv", [0, 1], 3_201),
        ("tatoeba_paraphrases.tsv", [0, 1], 8_518),
        ("nli_triplets.csv", None, 5_706),
    ],
)
def test_real_pairs(name: str, columns: list[int] | None, rows: int) -> None:
    assert len(read(shared_path(f"data/pairs/{name}"), columns)) == rows
