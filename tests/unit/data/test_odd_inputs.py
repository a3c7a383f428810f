"""Odd inputs: each has its rows, as pandas or pyarrow reads them, or one sentence that names the file.

`test_files` has line ends, quotation marks, types of cells and compression.
"""

from __future__ import annotations

import codecs
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from words import WordTokenize

from sentrep.data import RowTokenizer, StreamedBatches, load, tokenize_text
from sentrep.data.files import is_blank, sentences_of
from sentrep.data.text import open_text
from sentrep.errors import InputError


def parquet(**columns: object) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


LONG = "word " * 2_000_000
READ: dict[str, tuple[str, bytes, list[str] | None, list[str]]] = {
    "byte order mark in csv": ("a.csv", codecs.BOM_UTF8 + b"text\none\n", None, ["one"]),
    "CR LF in csv": ("a.csv", b"text,n\r\none,1\r\ntwo,2\r\n", None, ["one", "two"]),
    "U+2028 and NEL within a line": ("a.txt", "a\u2028b\x85c\x0cd\n".encode(), None, ["a\u2028b\x85c\x0cd"]),
    "U+2028 within a JSON string": ("a.jsonl", '{"text": "a\u2028b"}\n'.encode(), None, ["a\u2028b"]),
    "blank lines": ("a.txt", b"one\n\n  \ntwo", None, ["one", "", "  ", "two"]),
    "blank lines of a table": ("a.csv", b"text,n\none,1\n\ntwo,2\n", None, ["one", "two"]),
    "dates": ("a.csv", b"text,n\n2020-01-01,1\n", None, ["2020-01-01"]),
    "dates in JSON": ("a.jsonl", b'{"text": "2020-01-01T00:00:00"}\n', None, ["2020-01-01T00:00:00"]),
    "numbers": ("a.csv", b"text\n007\n1.0\n1e5\n", None, ["007", "1.0", "1e5"]),
    "words that pandas takes for missing": ("a.csv", b"text\nNA\nnull\nnan\n", None, ["NA", "null", "nan"]),
    "words that pandas takes for truth values": ("a.csv", b"text\ntrue\nFalse\n", None, ["true", "False"]),
    "a quotation mark within a cell": ("a.csv", b'text,n\na 5" pipe,1\n', None, ['a 5" pipe']),
    "a missing last cell": ("a.csv", b"n,text\n1,one\n2\n", None, ["one", ""]),
    "an empty cell": ("a.csv", b"text,n\none,1\n,2\n", None, ["one", ""]),
    "no header": ("a.csv", b"one,1\ntwo,2\n", ["0"], ["one", "two"]),
    "a header of numbers": ("a.csv", b"0,1\none,1\n", ["0"], ["one"]),
    "null in JSON": ("a.jsonl", b'{"text": null}\n{"text": "one"}\n', None, ["", "one"]),
    "nested JSON beside the text": ("a.jsonl", b'{"text": "one", "meta": {"deep": [{"x": 2}]}}\n', ["text"], ["one"]),
    "a missing key in JSON": ("a.jsonl", b'{"text": "one", "n": 1}\n{"n": 2}\n', ["text"], ["one", ""]),
    "several types beside the text": ("a.jsonl", b'{"text": "a", "n": 1}\n{"text": "b", "n": "x"}\n', None, ["a", "b"]),
    "a line of 10 MB": ("a.txt", f"one\n{LONG}\n".encode(), None, ["one", LONG]),
    "a cell of 10 MB": ("a.csv", f"text,n\n{LONG},1\n".encode(), None, [LONG]),
    "emoji and escapes in JSON": ("a.jsonl", b'{"text": "\\ud83d\\ude00 \\u00e9"}\n', None, ["\U0001f600 é"]),
    "dictionaries in parquet": ("a.parquet", parquet(text=pa.array(["a", None]).dictionary_encode()), None, ["a", ""]),
    "large strings in parquet": ("a.parquet", parquet(text=pa.array(["a"], pa.large_string()), n=[1]), None, ["a"]),
}  # fmt: skip
REFUSED: dict[str, tuple[str, bytes, list[str] | None, str]] = {
    "Latin-1": ("a.txt", "café".encode("latin-1"), None, "not valid UTF-8"),
    "UTF-16": ("a.txt", "one\ntwo\n".encode("utf-16"), None, "not valid UTF-8"),
    "UTF-16 without a mark": ("a.txt", "one\ntwo\n".encode("utf-16-le"), None, "row 1: a NUL character"),
    "NUL": ("a.csv", b"text\none\na\0b\n", None, "row 2: a NUL character"),
    "half a surrogate pair": ("a.jsonl", b'{"text": "\\ud800"}\n', None, "row 1: half a surrogate pair"),
    "an empty csv file": ("a.csv", b"", None, "an empty file"),
    "an empty JSON file": ("a.jsonl", b"\n", None, "an empty file"),
    "an empty parquet file": ("a.parquet", b"", None, "cannot be read"),
    "a missing column": (
        "a.jsonl", b'{"text": "a", "id": 1}\n', ["texd"], r"no column 'texd'; found 'text', 'id'; did you mean 'text'"
    ),
    "a column that occurs twice": ("a.csv", b"text,text\na,b\n", ["text"], "occurs twice"),
    "columns of no usual name": ("a.csv", b"id,n\n1,2\n", None, "which columns hold the sentences"),
    "too many cells, which pandas would shift": ("a.csv", b"text,n\na dog, and a cat,x\n", None, "line 2: 3 cells"),
    "an open quotation mark, where pandas would join rows": (
        "a.csv", b'text,n\n"a dog,x\na cat,y\n"a man",z\n', None, "line 2: .*close the quotation mark"
    ),
    "an open quotation mark at the end": ("a.csv", b'text,n\n"a",x\n\n"b,y\n', None, "line 4: .*; close the quotation"),
    "text behind a quotation mark": ("a.csv", b'text,n\na,x\n"b" c,y\n', None, "line 3: .*; close the quotation"),
    "Latin-1 in parquet": (
        "a.parquet", parquet(text=pa.Array.from_buffers(pa.string(), 1, pa.array([b"caf\xe9"]).buffers())), None,
        "not valid UTF-8",
    ),
    "a number where text belongs": ("a.jsonl", b'{"text": "a"}\n{"text": 5}\n', None, "row 2: found 5"),
    "numbers in parquet": ("a.parquet", parquet(text=[1, 2]), None, "row 1: found 1"),
    "no JSON": ("a.jsonl", b'{"text": "a"}\n{"text": \n', None, "line 2: no JSON object"),
    "JSON of another kind": ("a.jsonl", b"[1]\n", None, r"line 1: no JSON object \(found \[1\]\)"),
    "parquet, cut off": ("a.parquet", parquet(text=["a"] * 99)[:-20], None, "cannot be read"),
    "another kind of file": ("a.docx", b"one\n", None, "the name must end in"),
}  # fmt: skip


@pytest.mark.parametrize("what", READ)
def test_nothing_is_lost_and_the_counts_add_up(what: str, tmp_path: Path) -> None:
    name, content, columns, expected = READ[what]
    path = tmp_path / name
    path.write_bytes(content)
    for streaming in (True, False):
        assert [sentences_of(row)[0] for row in load(str(path), columns, streaming=streaming)] == expected
    tokens = tokenize_text(open_text(path, columns), RowTokenizer(WordTokenize(), None))
    blank = sum(is_blank([sentence]) for sentence in expected)
    assert (tokens.counts.rows, tokens.counts.blank, len(tokens)) == (len(expected), blank, len(expected) - blank)
    kept = [sentence for sentence in expected if sentence.strip()]
    assert [ids.tolist() for ids in tokens[range(len(tokens))].columns[0]] == WordTokenize()(kept, None)[0]


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_read_is_one_sentence_with_the_name(what: str, tmp_path: Path) -> None:
    name, content, columns, says = REFUSED[what]
    path = tmp_path / name
    path.write_bytes(content)
    for read in (
        lambda: list(load(str(path), columns, streaming=True)),
        lambda: load(str(path), columns),
        lambda: list(StreamedBatches(load(str(path), columns, streaming=True), 1)),
        lambda: tokenize_text(open_text(path, columns), RowTokenizer(WordTokenize(), None)),
    ):
        with pytest.raises(InputError, match=says) as refused:
            read()
        message = str(refused.value)
        assert message.startswith(str(path))
        assert len(message) < 400
        assert "\n" not in message
