"""The order of work, with translators that are functions."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sentrep.data.augmentation import backtranslation, filters
from sentrep.data.augmentation.backtranslation import (
    BackTranslation,
    length_sorted_batches,
    publish_pairs,
    rows_of,
    translate_corpus,
)
from sentrep.data.augmentation.filters import PairFilter
from sentrep.data.augmentation.parts import PartStore
from sentrep.data.augmentation.translation import Translation
from sentrep.data.text.corpus import CorpusRow
from sentrep.data.text.shard import Shard, local_rank
from sentrep.errors import InputError

Draw = tuple[int, ...]


def corpus(count: int) -> list[CorpusRow]:
    draw = random.Random(count)
    texts = [" ".join(draw.choices(["one", "three", "seventeen"], k=draw.randint(1, 9))) for _ in range(count)]
    return [CorpusRow(number, ("" if number % 11 == 5 else text,)) for number, text in enumerate(texts)]


class Scribe:
    """Translates into upper case, with the numbers that the batch draws from; notes what it was given."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def __call__(self, sentences: Sequence[str], draw: Draw) -> list[Translation]:
        self.batches.append(list(sentences))
        return [Translation(f"{sentence.upper()} {draw}", None) for sentence in sentences]


def plain(sentences: Sequence[str], draw: Draw) -> list[Translation]:
    return [Translation(sentence + "!!", None) for sentence in sentences]


EVERYTHING = PairFilter(identical=False, min_ratio=0, max_ratio=1e9)


def whole_run(folder: Path, shards: int = 1, batch_size: int = 4, count: int = 100) -> list[dict[str, str]]:
    for index in range(shards):
        store = PartStore(folder / "out.parquet", {})
        work = BackTranslation(Scribe(), plain, EVERYTHING)
        translate_corpus(corpus(count), store, work, batch_size, Shard(index, shards, ""))
    assert len(store) == count
    publish_pairs(store)
    return pq.read_table(folder / "out.parquet").to_pylist()


def test_pairs_are_those_of_their_sentences_in_order(tmp_path: Path) -> None:
    pairs = whole_run(tmp_path)
    kept = [row for row in corpus(100) if not row.blank]
    assert [pair["sent0"] for pair in pairs] == [row.sentences[0] for row in kept]
    assert all(pair["sent1"].startswith(pair["sent0"].upper() + " (") for pair in pairs)
    assert all(pair["sent1"].endswith(", 0)!!") for pair in pairs)


def test_shards_together_are_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backtranslation, "_WINDOW", 30)
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        folder.mkdir()
    assert whole_run(folders[0]) == whole_run(folders[1], shards=3) == whole_run(folders[2], shards=200)


def test_a_smaller_batch_size_goes_on_where_the_larger_one_stopped(tmp_path: Path) -> None:
    store = PartStore(tmp_path / "out.parquet", {})
    translate_corpus(corpus(100)[:40], store, BackTranslation(Scribe(), plain, EVERYTHING), 8, Shard(0, 1, ""))
    scribe = Scribe()
    translate_corpus(corpus(100), store, BackTranslation(scribe, plain, EVERYTHING), 3, Shard(0, 1, ""))
    asked = Counter(sentence for batch in scribe.batches for sentence in batch)
    assert asked == Counter(row.sentences[0] for row in corpus(100)[40:] if not row.blank)
    assert len(store) == 100
    publish_pairs(store)
    assert len(pq.read_table(tmp_path / "out.parquet")) == sum(not row.blank for row in corpus(100))


@pytest.mark.parametrize(
    ("total", "window", "batch_size", "shards"), [(100, 30, 4, 3), (7, 30, 64, 2), (61, 20, 20, 1)]
)
def test_the_share_of_a_shard_is_known_beforehand(
    tmp_path: Path, total: int, window: int, batch_size: int, shards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backtranslation, "_WINDOW", window)
    for index in range(shards):
        advanced: list[int] = []
        store = PartStore(tmp_path / f"{index}.parquet", {})
        shard = Shard(index, shards, "")
        translate_corpus(
            corpus(total), store, BackTranslation(plain, plain, EVERYTHING), batch_size, shard, advanced.append
        )
        assert sum(advanced) == len(store) == rows_of(shard, total, batch_size)


def test_batches_are_of_like_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = list(length_sorted_batches(corpus(100), 5, window=50))
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
    store = PartStore(tmp_path / "out.parquet", {})
    check = PairFilter(max_ratio=4)
    translate_corpus(rows, store, BackTranslation(forward, backward, check), 3, Shard(0, 1, ""))
    publish_pairs(store)
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
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "3")
    monkeypatch.setenv("LOCAL_RANK", "2")
    assert (Shard.of(None), local_rank()) == (Shard(2, 3, "torchrun"), 2)
    assert Shard.of("0/4") == Shard(0, 4, "--shard")
    for wrong in ("4/4", "1", "a/b", "-1/2", "1/", "", "1/2/3"):
        with pytest.raises(InputError, match="expected I/N"):
            Shard.of(wrong)
