"""The order of work, with translators that are functions."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sentrep.data.augmentation import backtranslation, filters
from sentrep.data.augmentation.backtranslation import PAIR, BackTranslation, batches_of
from sentrep.data.augmentation.filters import PairFilter
from sentrep.data.augmentation.parts import PartStore
from sentrep.data.augmentation.translation import Translation
from sentrep.data.text.corpus import CorpusRow
from sentrep.data.text.shard import Shard, local_rank
from sentrep.errors import InputError

Draw = tuple[int, ...]
ALONE = Shard(0, 1, "")
EVERYTHING = PairFilter(keep_identical=True, min_ratio=0, max_ratio=1e9)


def corpus(count: int) -> list[CorpusRow]:
    draw = random.Random(count)
    texts = [" ".join(draw.choices(["one", "three", "seventeen"], k=draw.randint(1, 9))) for _ in range(count)]
    return [CorpusRow(number, ("" if number % 11 == 5 else text,)) for number, text in enumerate(texts)]


class Scribe:
    """Translates into upper case, with the numbers that the batch draws from; notes what it was given."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def __call__(self, sentences: Sequence[str], draw: Draw) -> list[Translation]:
        self.sentences += sentences
        return [Translation(f"{sentence.upper()} {draw}", None) for sentence in sentences]


def work(folder: Path, rows: list[CorpusRow], batch_size: int, shard: Shard = ALONE) -> tuple[PartStore, list[str]]:
    """The store after the shard's work, and what it translated."""
    store, scribe = PartStore(folder / "out.parquet", PAIR, {}), Scribe()
    back = BackTranslation(scribe, lambda texts, draw: [Translation(text + "!!", None) for text in texts], EVERYTHING)
    store.map(batches_of(shard, rows, batch_size), back)
    return store, scribe.sentences


def test_pairs_are_those_of_their_sentences_in_order_whatever_the_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backtranslation, "WINDOW", 30)
    found = []
    for shards in (1, 3, 200):
        for index in range(shards):
            store, _ = work(tmp_path / str(shards), corpus(100), 4, Shard(index, shards, ""))
        store.publish()
        found.append(pq.read_table(store.output).to_pylist())
    pairs = found[0]
    assert found == [pairs] * 3
    assert [pair["sent0"] for pair in pairs] == [row.sentences[0] for row in corpus(100) if not row.blank]
    assert all(pair["sent1"].startswith(pair["sent0"].upper() + " (") for pair in pairs)
    assert all(pair["sent1"].endswith(", 0)!!") for pair in pairs)


def test_a_smaller_batch_size_goes_on_where_the_larger_one_stopped(tmp_path: Path) -> None:
    work(tmp_path, corpus(100)[:40], 8)
    store, translated = work(tmp_path, corpus(100), 3)
    assert Counter(translated) == Counter(row.sentences[0] for row in corpus(100)[40:] if not row.blank)
    assert len(store) == 100
    store.publish()
    assert len(pq.read_table(store.output)) == sum(not row.blank for row in corpus(100))


def test_batches_are_of_like_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backtranslation, "WINDOW", 50)
    batches = list(batches_of(ALONE, corpus(100), 5))
    assert sorted(row.number for batch in batches for row in batch) == list(range(100))
    assert all(len({row.number // 50 for row in batch}) == 1 for batch in batches)

    def padding(batches: list[list[CorpusRow]]) -> int:
        sizes = [[len(row.sentences[0]) for row in batch] for batch in batches]
        return sum(max(batch) * len(batch) - sum(batch) for batch in sizes)

    unsorted = [corpus(100)[start : start + 5] for start in range(0, 100, 5)]
    assert padding(batches) < 0.3 * padding(unsorted)


def test_every_verdict_is_counted(tmp_path: Path) -> None:
    answers = {
        "kept": "this was kept", "same": "Same.", "gone": "", "foreign": "чужой же", "short words here": "x",
        "long": None, "loop": "loop loop", "way out": "back", "no pivot": "x",
    }  # fmt: skip
    problems = {"long": filters.TOO_LONG, "no pivot": filters.UNFINISHED}

    def forward(sentences: Sequence[str], draw: Draw) -> list[Translation]:
        return [Translation("" if text == "way out" else f"<{text}>", problems.get(text)) for text in sentences]

    def backward(sentences: Sequence[str], draw: Draw) -> list[Translation]:
        assert not {"<long>", "<no pivot>", ""} & set(sentences)
        back = [answers[text[1:-1]] or "" for text in sentences]
        return [Translation(text, filters.UNFINISHED if text == "loop loop" else None) for text in back]

    rows = [CorpusRow(number, (text,)) for number, text in enumerate([*answers, " "])]
    store, done = PartStore(tmp_path / "out.parquet", PAIR, {}), []
    store.map(batches_of(ALONE, rows, 3), BackTranslation(forward, backward, PairFilter(max_ratio=4)), done.append)
    assert sum(done) == 10
    store.publish()
    assert store.record is not None
    assert store.record["rows"] == 10
    assert store.record["verdicts"] == {
        filters.KEPT: 1, filters.IDENTICAL: 1, filters.EMPTY: 2, filters.SCRIPT: 1, filters.LENGTH: 1,
        filters.TOO_LONG: 1, filters.UNFINISHED: 2, filters.BLANK: 1,
    }  # fmt: skip
    assert pq.read_table(tmp_path / "out.parquet").to_pylist() == [{"sent0": "kept", "sent1": "this was kept"}]


def test_shard_from_text_and_from_launchers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_NTASKS"):
        monkeypatch.delenv(name, raising=False)
    assert (Shard.of(None), local_rank()) == (Shard(0, 1, "default"), 0)
    for name, value in {"NTASKS": "8", "NTASKS_PER_NODE": "4", "PROCID": "5", "LOCALID": "1"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    assert (Shard.of(None), local_rank()) == (Shard(5, 8, "srun"), 1)
    for name, value in {"RANK": "2", "WORLD_SIZE": "3", "LOCAL_RANK": "2"}.items():
        monkeypatch.setenv(name, value)
    assert (Shard.of(None), local_rank()) == (Shard(2, 3, "torchrun"), 2)
    assert Shard.of("0/4") == Shard(0, 4, "--shard")
    for wrong in ("4/4", "1", "a/b", "-1/2", "1/", "", "1/2/3"):
        with pytest.raises(InputError, match="expected I/N"):
            Shard.of(wrong)
