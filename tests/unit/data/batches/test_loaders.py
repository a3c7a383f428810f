from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from words import WordTokenize

from sentrep.data import (
    Collate,
    GlobalBatchSampler,
    ResumableLoader,
    RowTokenizer,
    SentenceLoader,
    TokenizedText,
    load,
    tokenize_text,
)
from sentrep.data.text import open_text
from sentrep.errors import InputError


@pytest.fixture
def corpus(tmp_path: Path) -> TokenizedText:
    (tmp_path / "corpus.txt").write_text("\n".join(f"sentence {number}" for number in range(50)))
    return tokenize_text(open_text(tmp_path / "corpus.txt"), RowTokenizer(WordTokenize(), 8))


def loader(corpus: TokenizedText, batch_size: int = 4, workers: int = 0, **options: Any) -> ResumableLoader:
    sampler = GlobalBatchSampler(len(corpus), batch_size, seed=1)
    return ResumableLoader(corpus, sampler, Collate(0), num_workers=workers, **options)


def rows(batches: Any) -> list[list[int]]:
    return [batch.rows.tolist() for batch in batches]


@pytest.mark.parametrize("workers", [0, 2])
def test_state_counts_delivered_batches_and_goes_on_behind_them(corpus: TokenizedText, workers: int) -> None:
    whole = rows(loader(corpus))
    first = loader(corpus, workers=workers)
    iterator = iter(first)
    head = rows(next(iterator) for _ in range(5))
    state = first.state_dict()
    assert (state["epoch"], state["done"]) == (0, 5)
    second = loader(corpus, workers=workers)
    second.load_state_dict(state)
    assert head + rows(second) == whole
    assert rows(second) == whole  # only the first pass after loading is a remainder


def test_state_of_other_data_is_refused(corpus: TokenizedText) -> None:
    state = loader(corpus, fingerprint="a").state_dict()
    with pytest.raises(InputError, match=r"corpus was a and is b.*use the same values"):
        loader(corpus, fingerprint="b").load_state_dict(state)
    with pytest.raises(InputError, match=r"global batch size was 4 and is 5"):
        loader(corpus, 5, fingerprint="a").load_state_dict(state)


def test_sentence_loader_keeps_blank_rows_and_splits_over_processes(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\nthree\nfour\nfive\n")
    text = load(tmp_path / "a.txt", streaming=True)
    whole = list(SentenceLoader(text, 2))
    assert whole == [["one", ""], ["three", "four"], ["five"]]
    parts = [list(SentenceLoader(text, 2, rank=rank, world_size=2)) for rank in (0, 1)]
    assert parts == [whole[0::2], whole[1::2]]
