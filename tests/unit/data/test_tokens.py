from __future__ import annotations

import logging
import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
from words import WordTokenize

from sentrep.data import RowTokenizer, TextCounts, TokenizedText, tokenize_text, tokens
from sentrep.data.text import open_text
from sentrep.errors import InputError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    lines = [f"anchor {n},positive number {n}" if n % 5 else f"anchor {n}," for n in range(100)]
    path = tmp_path / "pairs.csv"
    path.write_text("sent0,sent1\n" + "\n".join(lines) + "\n")
    return path


def build(text: object, tokenize: Any = None, max_length: int = 8, **options) -> TokenizedText:
    return tokenize_text(open_text(text), RowTokenizer(tokenize or WordTokenize(), max_length), **options)


def lists(column: list[np.ndarray]) -> list[list[int]]:
    return [ids.tolist() for ids in column]


def test_rows_are_the_tokenised_sentences(pairs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_TOKENISED_AT_ONCE", 7)
    monkeypatch.setattr(tokens, "_WRITTEN_AT_ONCE", 14)  # several record batches
    ids = build(pairs)
    tokenize = WordTokenize()
    kept = [n for n in range(100) if n % 5]
    assert len(ids) == len(kept) == 80
    wanted = [79, 0, 6, 1, 40, 5]
    found = ids[wanted]
    assert found.rows.tolist() == [kept[index] for index in wanted]
    for column, text in zip(found.columns, ("anchor {}", "positive number {}"), strict=True):
        assert lists(column) == tokenize([text.format(kept[index]) for index in wanted], 8)[0]
    with pytest.raises(IndexError):
        ids[[0, 80]]


def test_parts_without_rows_count_nothing(tmp_path: Path) -> None:
    for name, text in (("a.csv", "text\n"), ("b.csv", "text\none\n\ntwo\n"), ("c.txt", "")):
        (tmp_path / name).write_text(text)
    assert build(str(tmp_path / "[abc].*")).counts == TextCounts(2, 0, 0, 0)
    with pytest.raises(InputError, match="no sentences"):
        build(str(tmp_path / "[ac].*"))


def test_counts_are_logged_in_one_line(pairs: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "sentrep")
    first, second = build(pairs, max_length=4), build(pairs, max_length=4)
    assert first.counts == second.counts == TextCounts(rows=100, blank=20, cut=80, unpaired=0)
    second.log("pairs.csv")
    assert caplog.messages == ["pairs.csv: 80 rows (100 read, 20 blank and skipped, 80 sentences cut to 4 tokens)"]


def test_tokenised_once(pairs: Path) -> None:
    class Refuse(WordTokenize):
        def __call__(self, sentences, max_length):
            raise AssertionError("tokenised again")

    build(pairs)
    moved = pairs.rename(pairs.with_name("moved.csv"))
    build(moved, Refuse())
    for change in ({"max_length": 9}, {"tokenize": Refuse("another")}):
        with pytest.raises(AssertionError, match="tokenised again"):
            build(moved, **{"tokenize": Refuse(), **change})
    moved.write_text("sent0,sent1\nother,text\n")
    with pytest.raises(AssertionError, match="tokenised again"):
        build(moved, Refuse())


def test_a_file_that_is_damaged_stops_with_its_name_and_leaves_no_ids(pairs: Path, cache: Path) -> None:
    pairs.write_text(pairs.read_text() + '"open,x\n')
    for _ in range(2):
        with pytest.raises(InputError, match=r"pairs.csv, line 102: .*close the quotation mark"):
            build(pairs)
    assert not list(cache.rglob("*.arrow"))


def test_a_pickled_text_is_small_and_maps_the_file(pairs: Path) -> None:
    text = build(pairs)
    packed = pickle.dumps(text)
    assert len(packed) < 20_000  # names, types, and 80 numbers of rows
    assert lists(pickle.loads(packed)[[7]].columns[0]) == lists(text[[7]].columns[0])


def build_in_process(path: Path) -> int:
    return len(build(path))


def test_processes_may_build_at_the_same_time(pairs: Path) -> None:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(build_in_process, [pairs] * 6) == [80] * 6
        pool.close()  # leaving the block would kill them, and an inherited handler of SIGTERM may not let them die
        pool.join()
    assert len(list(pairs.parent.glob("cache/**/*.arrow"))) == 1


def test_processes_that_tokenise_several_files_change_nothing(
    pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = [str(pairs)] * 3
    one = build(text)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "other"))
    two = build(text, num_workers=2)
    assert (two.counts, two[range(240)].rows.tolist()) == (one.counts, one[range(240)].rows.tolist())
    assert [*map(lists, two[range(240)].columns)] == [*map(lists, one[range(240)].columns)]
    assert len(list(tmp_path.glob("other/**/*.arrow"))) == 2
