"""Odd text is read as it is, and fuzzing of every reader."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sentrep import InputError, SentenceEncoder
from sentrep.data.sets.beir import load_reranking, load_retrieval
from sentrep.data.sets.labelled import load_labelled_file
from sentrep.data.sets.sts import load_sts
from sentrep.data.text.corpus import open_corpus
from support import tiny_encoder

READ = {
    "bom": ("a.txt", b"\xef\xbb\xbfone\ntwo\n", ["one", "two"]),
    "mixed line ends": ("a.txt", b"one\r\ntwo\rthree\nfour", ["one", "two", "three", "four"]),
    "no other line ends": ("a.txt", "a\x0bb\x0cc\x85d\u2028e\n".encode(), ["a\x0bb\x0cc\x85d\u2028e"]),
    "control characters": ("a.txt", b"a\x01\x1b[2Jb\x7f\n", ["a\x01\x1b[2Jb\x7f"]),
    "zero width": ("a.txt", "a\u200bb\ufeffc\n".encode(), ["a\u200bb\ufeffc"]),
    "emoji": ("a.txt", "👩‍👩‍👧 ok 🏳️‍🌈\n".encode(), ["👩‍👩‍👧 ok 🏳️‍🌈"]),
    "right to left": ("a.txt", "\u202eשלום \u2067عالم\n".encode(), ["\u202eשלום \u2067عالم"]),
    "blank lines": ("a.txt", b"\n \nx\n\n", ["", " ", "x", ""]),
    "nothing": ("a.txt", b"", []),
    "line break in a cell": ("a.csv", b'text\n"a\nb"\n', ["a\nb"]),
    "csv with a bom": ("a.csv", b"\xef\xbb\xbftext\nx\n", ["x"]),
    "doubled quotes": ("a.csv", b'text\n"a ""b"""\n', ['a "b"']),
    "quotes in a tsv": ("a.tsv", b'text\t2\n"a\t1\n', ['"a']),
    "escapes": ("a.jsonl", rb'{"text": "\u00e9\ud83d\ude00"}' + b"\n", ["é😀"]),
    "null": ("a.jsonl", b'{"text": null}\n', [""]),
    "only a header": ("a.csv", b"text\n", []),
    "a long line": ("a.txt", b"x" * 10**6, ["x" * 10**6]),
}


@pytest.mark.parametrize("case", READ)
def test_odd_text_is_read_as_it_is(case: str, tmp_path: Path) -> None:
    name, content, expected = READ[case]
    (tmp_path / name).write_bytes(content)
    assert [row.sentences[0] for row in open_corpus(tmp_path / name).rows()] == expected


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    return tiny_encoder().eval()


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "\n", "\0", "a\0b", "\x1b[2J", "\u200b\u200d\ufeff", "👩‍👩‍👧", "\u202eשלום", "a\r\nb\rc", "\ufffd",
        "x" * 10**6, "word " * 200_000, "\U0010ffff", "[CLS] [MASK] [PAD]", "é" * 1000,
    ],
    ids=lambda text: repr(text[:12]),
)  # fmt: skip
def test_any_text_has_a_vector(text: str, encoder: SentenceEncoder) -> None:
    vectors = encoder.encode([text, "a dog"], show_progress_bar=False)
    assert vectors.shape == (2, 32)
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(vectors[1], encoder.encode("a dog", show_progress_bar=False), atol=1e-6)


@pytest.mark.parametrize("nothing", [[], (), iter([]), np.array([], dtype=str)], ids=lambda kind: type(kind).__name__)
def test_no_sentences_have_no_vectors(nothing: Any, encoder: SentenceEncoder) -> None:
    assert encoder.encode(nothing, show_progress_bar=False).shape == (0, 32)


# --- fuzzing ----------------------------------------------------------------------------------------------------------

fuzz = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)
CELLS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.lists(st.text(max_size=2))
)
PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            [b"\n", b"\r", b",", b"\t", b'"', b"text", b"label", b"score", b"{", b"}", b"\xff", b"\x00", b"1"]
        ),
        st.binary(max_size=6),
    ),
    max_size=30,
).map(b"".join)


def read_or_refuse(read: Callable[[], Any]) -> None:
    """Nothing but an `InputError` may come of any bytes."""
    with contextlib.suppress(InputError):
        read()


@pytest.mark.parametrize("ending", [".txt", ".csv", ".tsv", ".jsonl", ".parquet", ".txt.gz", ".csv.zip"])
@fuzz
@given(content=PIECES, header=st.sampled_from([b"", b"text\n", b"sent0,sent1\n", b'{"text": "a"}\n']))
def test_no_bytes_break_the_corpus(ending: str, content: bytes, header: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"a{ending}"
    path.write_bytes(header + content)
    read_or_refuse(lambda: list(open_corpus(path).rows()))
    if ending in (".csv", ".tsv"):
        read_or_refuse(lambda: list(open_corpus(path, [0]).rows()))


@fuzz
@given(content=PIECES, rows=st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=4))
def test_no_bytes_break_a_set_of_pairs(content: bytes, rows: list[Any], tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"sentence1,sentence2,score\n" + content)
    read_or_refuse(lambda: load_sts(str(tmp_path / "a.csv")))
    records = [dict(zip(("sentence1", "sentence2", "score"), row, strict=True)) for row in rows]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    read_or_refuse(lambda: load_sts(str(tmp_path / "a.jsonl")))


@fuzz
@given(content=PIECES, rows=st.lists(st.tuples(CELLS, CELLS), max_size=4))
def test_no_bytes_break_a_labelled_table(content: bytes, rows: list[Any], tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"text,label\n" + content)
    read_or_refuse(lambda: load_labelled_file(tmp_path / "a.csv"))
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": t, "label": label}) + "\n" for t, label in rows))
    read_or_refuse(lambda: load_labelled_file(tmp_path / "a.jsonl"))


@fuzz
@given(
    documents=st.lists(st.tuples(CELLS, CELLS), max_size=3),
    queries=st.lists(st.tuples(CELLS, CELLS), max_size=3),
    grades=PIECES,
    ranked=st.lists(st.tuples(CELLS, CELLS), max_size=3),
)
def test_nothing_breaks_a_folder_of_beir(
    documents: list[Any], queries: list[Any], grades: bytes, ranked: list[Any], tmp_path: Path
) -> None:
    def write(name: str, keys: tuple[str, str], rows: list[Any], first: dict[str, Any]) -> None:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        records = [first, *(dict(zip(keys, row, strict=True)) for row in rows)]
        (tmp_path / name).write_text("".join(json.dumps(record) + "\n" for record in records))

    write("corpus.jsonl", ("_id", "text"), documents, {"_id": "d1", "text": "a"})
    write("queries.jsonl", ("_id", "text"), queries, {"_id": "q1", "text": "a"})
    write("top_ranked/test.jsonl", ("query-id", "corpus-ids"), ranked, {"query-id": "q1", "corpus-ids": ["d1"]})
    (tmp_path / "qrels").mkdir(exist_ok=True)
    (tmp_path / "qrels" / "test.tsv").write_bytes(b"query-id\tcorpus-id\tscore\nq1\td1\t1\n" + grades)
    read_or_refuse(lambda: list(load_retrieval(tmp_path).documents()))
    read_or_refuse(lambda: load_reranking(tmp_path))
