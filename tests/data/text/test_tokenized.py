from __future__ import annotations

import json
import logging
import multiprocessing
import os
import pickle
import re
from pathlib import Path

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from words import WordTokenize

from sentrep.data import TokenizedRows, open_corpus, tokenize_corpus
from sentrep.data.text import formats
from sentrep.data.text.tokenized import CorpusCounts, TokenizedCorpus
from sentrep.errors import InputError
from sentrep.io.paths import default_cache_dir


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    lines = [f"anchor {n},positive number {n}" if n % 5 else f"anchor {n}," for n in range(100)]
    path = tmp_path / "pairs.csv"
    path.write_text("sent0,sent1\n" + "\n".join(lines) + "\n")
    return path


def build(path: Path, **options) -> TokenizedCorpus:
    given = {"tokenize": WordTokenize(), "max_length": 8, "cache_dir": path.parent / "cache", **options}
    rows = TokenizedRows(given.pop("tokenize"), given.pop("max_length"))
    return tokenize_corpus(open_corpus(path), rows, **given)


def lists(column: list[np.ndarray]) -> list[list[int]]:
    return [ids.tolist() for ids in column]


def test_rows_are_the_tokenised_sentences(pairs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "_ROWS_AT_ONCE", 7)  # several record batches
    tokens = build(pairs)
    tokenize = WordTokenize()
    kept = [n for n in range(100) if n % 5]
    assert len(tokens) == len(kept) == 80
    wanted = [79, 0, 6, 1, 40, 5]
    found = tokens[wanted]
    assert found.rows.tolist() == [kept[index] for index in wanted]
    for column, text in zip(found.columns, ("anchor {}", "positive number {}"), strict=True):
        assert lists(column) == tokenize([text.format(kept[index]) for index in wanted], 8)[0]
    with pytest.raises(IndexError):
        tokens[[0, 80]]


def test_parts_without_rows_count_nothing(tmp_path: Path) -> None:
    for name, text in (("a.csv", "text\n"), ("b.csv", "text\none\n\ntwo\n"), ("c.txt", "")):
        (tmp_path / name).write_text(text)
    assert build(tmp_path / "[abc].*").counts == CorpusCounts(rows=2)
    with pytest.raises(InputError, match="no sentences"):
        build(tmp_path / "[ac].*")


def test_counts_are_logged_at_the_first_build_and_on_reuse(pairs: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "sentrep")
    first, second = build(pairs, max_length=4), build(pairs, max_length=4)
    assert first.counts == second.counts == CorpusCounts(rows=100, blank=20, cut=80)
    assert "80 rows tokenised (100 read, 20 blank and skipped, 80 sentences cut to 4 tokens)" in caplog.messages[0]
    assert "50 % of the sentences are cut" in caplog.messages[1]
    assert "model.encoder.max_length: 8 in the configuration keeps more" in caplog.messages[1]
    assert re.search(r"the token ids are kept for the next start: .*\.arrow", caplog.messages[2])
    assert "80 rows from the cache (100 read, 20 blank and skipped, 80 sentences cut" in caplog.messages[3]


def test_tokenised_once(pairs: Path) -> None:
    class Refuse(WordTokenize):
        def __call__(self, sentences, max_length):
            raise AssertionError("tokenised again")

    build(pairs)
    moved = pairs.rename(pairs.with_name("moved.csv"))
    build(moved, tokenize=Refuse())
    for change in ({"max_length": 9}, {"tokenize": Refuse("another")}):
        with pytest.raises(AssertionError, match="tokenised again"):
            build(moved, **{"tokenize": Refuse(), **change})
    moved.write_text("sent0,sent1\nother,text\n")
    with pytest.raises(AssertionError, match="tokenised again"):
        build(moved, tokenize=Refuse())
    assert not list(moved.parent.glob("cache/.*"))


def test_a_flipped_bit_of_an_id_is_found(pairs: Path, caplog: pytest.LogCaptureFixture) -> None:
    tokens = build(pairs)
    expected = list(map(lists, tokens[range(80)].columns))
    (file,) = pairs.parent.glob("cache/*.arrow")
    content = bytearray(file.read_bytes())
    content[content.index(tokens[[0]].columns[0][0].tobytes())] ^= 1
    file.write_bytes(content)
    assert list(map(lists, TokenizedCorpus(file)[range(80)].columns)) != expected  # Arrow does not notice
    assert list(map(lists, build(pairs)[range(80)].columns)) == expected
    assert any("its content has changed) and is built again" in message for message in caplog.messages)


@pytest.mark.parametrize(
    "content", [lambda content: content[: len(content) // 2], lambda content: b"garbage" * 99, lambda content: b""]
)
def test_a_cache_that_cannot_be_opened_is_built_again(pairs: Path, content, caplog: pytest.LogCaptureFixture) -> None:
    expected = list(map(lists, build(pairs)[range(80)].columns))
    (file,) = pairs.parent.glob("cache/*.arrow")
    file.write_bytes(content(file.read_bytes()))
    assert list(map(lists, build(pairs)[range(80)].columns)) == expected
    assert any("cannot be used" in message and "is built again" in message for message in caplog.messages)


@pytest.mark.parametrize("held", ["a.txt", "a.jsonl", "a.parquet", "memory"])
def test_long_sentences_are_cut_before_they_are_tokenised_and_counted(
    held: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    texts = ["one " * 50, "two", "", "four five"]
    if held == "a.parquet":
        pq.write_table(pa.table({"text": texts}), tmp_path / held)
    else:
        rows = texts if held == "a.txt" else [json.dumps({"text": text}) for text in texts]
        (tmp_path / held).write_text("\n".join(rows))
    caplog.set_level(logging.INFO, "sentrep")
    corpus = open_corpus(texts if held == "memory" else tmp_path / held)
    rows = TokenizedRows(WordTokenize(), 8, longest_line=8)
    tokens = tokenize_corpus(corpus, rows, tmp_path / "cache")
    assert tokens.counts == CorpusCounts(rows=4, blank=1, too_long=2)
    assert [len(ids) for ids in tokens[range(3)].columns[0]] == [4, 3, 4]  # with [CLS] and [SEP]
    assert "2 sentences cut in reading (data.reading.longest_line)" in caplog.text
    streamed = rows[[row for row in corpus.rows() if not row.blank]]
    assert lists(streamed.columns[0]) == lists(tokens[range(3)].columns[0])
    longer = tokenize_corpus(corpus, TokenizedRows(WordTokenize(), 8, longest_line=9), tmp_path / "cache")
    assert longer.counts.too_long == 1  # another file, so that no ids of other sentences are taken from the cache


def test_memory_map_is_shared_not_copied(pairs: Path) -> None:
    tokens = build(pairs)
    assert not tokens[[0]].columns[0][0].flags.owndata
    assert len(pickle.dumps(tokens)) < 1200  # the name and 80 numbers of rows
    assert pickle.loads(pickle.dumps(tokens))[[7]].rows == tokens[[7]].rows


def test_blank_tail_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "_CHARACTERS_AT_ONCE", 5)
    (tmp_path / "a.txt").write_text("one\ntwo\n\n\n\n")
    assert build(tmp_path / "a.txt").counts == CorpusCounts(rows=5, blank=3)


def test_a_pipe_in_the_cache_is_replaced(pairs: Path) -> None:
    before = len(build(pairs))
    (cached,) = pairs.parent.glob("cache/*.arrow")
    cached.unlink()
    os.mkfifo(cached)
    assert len(build(pairs)) == before
    assert cached.is_file()


def build_in_process(path: Path) -> int:
    return len(build(path))


def test_processes_may_build_at_the_same_time(pairs: Path) -> None:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(build_in_process, [pairs] * 6) == [80] * 6
        pool.close()  # leaving the block would kill them, and an inherited handler of SIGTERM may not let them die
        pool.join()
    assert len(list(pairs.parent.glob("cache/*"))) == 1


def test_default_folder(pairs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SENTREP_CACHE", str(tmp_path / "elsewhere"))
    build(pairs, cache_dir=None)
    assert len(list((tmp_path / "elsewhere").glob("*.arrow"))) == 1
    monkeypatch.delenv("SENTREP_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_cache_dir() == tmp_path / ".cache" / "sentrep"


def test_processes_that_tokenise_change_nothing(pairs: Path, tmp_path: Path) -> None:
    one = build(pairs)
    two = build(pairs, num_workers=2, cache_dir=tmp_path / "other")
    assert (two.counts, two[range(80)].rows.tolist()) == (one.counts, one[range(80)].rows.tolist())
    assert [lists(column) for column in two[range(80)].columns] == [lists(column) for column in one[range(80)].columns]


def test_datasets_reads_the_cache(pairs: Path) -> None:
    tokens = build(pairs)
    opened = datasets.Dataset.from_file(tokens.path)
    assert opened.column_names == ["anchor", "positive", "cut", "too_long", "unpaired"]
    assert opened[0]["anchor"] is None  # a blank row
    assert opened[4]["anchor"] == tokens[[3]].columns[0][0].tolist()
