"""Many requests at a time, with an endpoint that is a function."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sentrep.data.augmentation import asking
from sentrep.data.augmentation.asking import COUNTS, Asking
from sentrep.data.augmentation.endpoint import Answer, NoAnswerError
from sentrep.data.augmentation.filters import PairFilter
from sentrep.data.augmentation.paraphrasing import TRIPLET, Contrast
from sentrep.data.augmentation.parts import Finished, PartStore
from sentrep.data.text.corpus import CorpusRow
from sentrep.errors import InputError

ROWS = [CorpusRow(number, ("" if number % 10 == 3 else f"sentence number {number}",)) for number in range(50)]
JUDGE = Contrast(PairFilter(min_ratio=0.2, max_ratio=5))


class Model:
    """Answers after a few turns of the event loop, the later ones sooner; may fail."""

    def __init__(self, fails: Callable[[int], Exception | None] = lambda row: None) -> None:
        self.fails = fails
        self.asked: Counter[int] = Counter()
        self.under_way = self.most_under_way = 0

    async def ask(self, sentence: str, row: int) -> Answer:
        self.asked[row] += 1
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            for _ in range(60 - row):
                await asyncio.sleep(0)
            if error := self.fails(row):
                raise error
            return Answer((f"again: {sentence}", f"not so: {sentence}"), 1, 100, 10)
        finally:
            self.under_way -= 1


def store_in(folder: Path) -> PartStore:
    return PartStore(folder / "out.parquet", TRIPLET, {}, counts=COUNTS)


def run(store: PartStore, model: Model, **options: int) -> Asking:
    work = Asking(store, model, TRIPLET, JUDGE, **{"concurrency": 4, "batch_size": 3, **options})
    asyncio.run(work.run(ROWS))
    return work


def triplets(folder: Path) -> list[tuple[str, ...]]:
    return [tuple(row.values()) for row in pq.read_table(folder / "out.parquet").to_pylist()]


WANTED = [
    (row.sentences[0], f"again: {row.sentences[0]}", f"not so: {row.sentences[0]}") for row in ROWS if not row.blank
]


@pytest.mark.parametrize(("concurrency", "batch_size"), [(1, 1), (4, 3), (100, 7), (5, 1000)])
def test_triplets_in_the_order_of_the_input(tmp_path: Path, concurrency: int, batch_size: int) -> None:
    model, store = Model(), store_in(tmp_path)
    work = run(store, model, concurrency=concurrency, batch_size=batch_size)
    assert not work.failed
    assert model.most_under_way == min(concurrency, 45)
    store.publish()
    assert triplets(tmp_path) == WANTED
    assert pq.read_schema(tmp_path / "out.parquet").names == ["sent0", "sent1", "hard_neg"]
    assert store.record is not None
    assert store.record["verdicts"] == {"kept": 45, "blank in the input": 5}
    assert [store.record[name] for name in ("requests", "input_tokens", "output_tokens")] == [45, 4500, 450]


def test_single_failures_do_not_add_up(tmp_path: Path) -> None:
    work = run(store_in(tmp_path), Model(lambda row: NoAnswerError("busy") if row % 2 else None))
    assert len(work.failed) == 20 > 4 + asking._PATIENCE


@pytest.mark.parametrize("error", [InputError("wrong key"), KeyboardInterrupt()])
def test_whatever_ends_the_work_the_answers_are_kept(tmp_path: Path, error: BaseException) -> None:
    model = Model(lambda row: error if row == 30 else None)  # type: ignore[return-value,arg-type]
    with pytest.raises(type(error)):
        run(store_in(tmp_path), model, batch_size=1000)
    done = store_in(tmp_path)
    assert 20 <= len(done) < 50
    assert 30 not in done


def test_a_full_disk_loses_less_than_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = os.fsync, iter(range(10**6))

    def full(handle: int) -> None:
        if not stat.S_ISDIR(os.fstat(handle).st_mode) and next(calls) >= 5:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    store, model = store_in(tmp_path), Model()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left on device; what is finished is kept in"):
        run(store, model)
    monkeypatch.setattr(os, "fsync", real)
    store = store_in(tmp_path)
    assert len(store) == 5 * 3
    assert sum(model.asked.values()) <= 5 * 3 + 3 + 4  # kept, one batch, under way
    kept = {row for row in range(50) if row in store}
    run(store, again := Model())
    assert set(again.asked) == {row.number for row in ROWS if not row.blank} - kept
    store.publish()
    assert triplets(tmp_path) == WANTED


@pytest.mark.parametrize(
    ("pair", "verdict"),
    [
        (("Rain falls.", "The sun shines."), "kept"),
        ((" it RAINS", "The sun shines."), "identical"),
        (("Rain falls.", "It rains!"), "contrary says the same"),
        (("Rain falls.", "rain falls"), "contrary says the same"),
        (("雨が降る", "The sun shines."), "other script"),
        (("Rain falls. " * 20, "The sun shines."), "length ratio"),
        (None, "malformed answer"),
    ],
)
def test_verdicts(tmp_path: Path, pair: tuple[str, str] | None, verdict: str) -> None:
    class Fixed(Model):
        async def ask(self, sentence: str, row: int) -> Answer:
            return Answer(pair, 2, 5, 1)

    store = store_in(tmp_path)
    asyncio.run(Asking(store, Fixed(), TRIPLET, JUDGE).run([CorpusRow(0, ("It rains.",))]))
    store.publish()
    assert store.record is not None
    assert store.record["verdicts"] == {verdict: 1}
    assert store.record["requests"] == 2
    assert len(triplets(tmp_path)) == (verdict == "kept")


def test_progress_counts_every_row_and_token_once(tmp_path: Path) -> None:
    def progress(model: Model) -> list[int]:
        told: list[Finished | None] = []
        asyncio.run(Asking(store_in(tmp_path), model, TRIPLET, JUDGE, advance=told.append).run(ROWS))
        return [len(told), *(sum(row[name] for row in told if row) for name in ("input_tokens", "output_tokens"))]

    assert progress(Model(lambda row: NoAnswerError("") if row == 8 else None)) == [49, 4400, 440]
    assert progress(Model()) == [50, 100, 10]
