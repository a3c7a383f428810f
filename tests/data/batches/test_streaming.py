"""Streamed batches against a slow reference; every row once; resumed equals uninterrupted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import datasets
import fsspec
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from words import WordTokenize

from sentrep.data import (
    Collate,
    Corpus,
    Reading,
    ResumableLoader,
    SentRepDataModule,
    StreamedBatches,
    TokenizedRows,
    open_corpus,
    tokenize_corpus,
)
from sentrep.errors import InputError
from sentrep.types import TextBatch

SIZES = (13, 1, 20, 7)


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    """41 sentences in four files, with a blank line in each."""
    for number, size in enumerate(SIZES):
        lines = [f"file {number} sentence {line}" for line in range(size)]
        (tmp_path / f"part-{number}.txt").write_text("\n".join([*lines[:3], " ", *lines[3:]]) + "\n")
    return open_corpus(str(tmp_path / "part-*.txt"))


def loader(corpus: Corpus, workers: int = 0, size: int = 3, buffer: int = 8, **options: Any) -> ResumableLoader:
    order = StreamedBatches(corpus, size, buffer=buffer, **{"seed": 5, **options})
    return ResumableLoader(TokenizedRows(WordTokenize(), 8), order, Collate(0), num_workers=workers)


def epoch_of(batches: ResumableLoader, epoch: int) -> list[TextBatch]:
    batches.sampler.set_epoch(epoch)
    return list(batches)


def rows(batches: Any) -> list[list[int]]:
    return [batch.rows.tolist() for batch in batches]


def slow_epoch(corpus: Corpus, seed: int, epoch: int, buffer: int, size: int) -> list[list[tuple[int, str]]]:
    """The definition, with the whole text in memory."""
    order = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(epoch,))).permutation(len(corpus.sources))
    text = []
    for source in order:
        for number, row in enumerate(corpus.sources[source].rows(None)):
            if row.cells[0].strip():
                text.append((int(source) * 2**40 + number, row.cells[0]))
    shuffled = []
    for block, start in enumerate(range(0, len(text), buffer)):
        part = text[start : start + buffer]
        draws = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(epoch, block)))
        shuffled += [part[position] for position in draws.permutation(len(part))]
    return [shuffled[start : start + size] for start in range(0, len(shuffled) - size + 1, size)]


@pytest.mark.parametrize("buffer", [1, 8, 41, 1000])
@pytest.mark.parametrize("epoch", [0, 2])
def test_batches_are_those_of_the_slow_reference(corpus: Corpus, buffer: int, epoch: int) -> None:
    batches = epoch_of(loader(corpus, buffer=buffer), epoch)
    reference = slow_epoch(corpus, 5, epoch, buffer, 3)
    assert len(batches) == len(reference) == sum(SIZES) // 3
    for batch, expected in zip(batches, reference, strict=True):
        assert batch.rows.tolist() == [number for number, _ in expected]
        ids, _ = WordTokenize()([text for _, text in expected], 8)
        assert [row[: len(x)] for row, x in zip(batch.anchor.input_ids.tolist(), ids, strict=True)] == ids
        assert batch.anchor.attention_mask.sum(1).tolist() == [len(x) for x in ids]


def test_columns_and_ids_are_those_of_the_map_style_path(tmp_path: Path) -> None:
    records = [{"sent0": f"a {n}", "sent1": f"b {n} long", "hard_neg": f"c {n}"} for n in range(12)]
    (tmp_path / "triplets.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    corpus = open_corpus(tmp_path / "triplets.jsonl")
    tokens = tokenize_corpus(corpus, WordTokenize(), 4, tmp_path / "cache")
    (batch,) = list(ResumableLoader(TokenizedRows(WordTokenize(), 4), StreamedBatches(corpus, 12), Collate(0)))
    expected = Collate(0)([tokens[row] for row in batch.rows.tolist()])
    for name in ("anchor", "positive", "negative"):
        assert torch.equal(getattr(batch, name).input_ids, getattr(expected, name).input_ids)
        assert torch.equal(getattr(batch, name).attention_mask, getattr(expected, name).attention_mask)


@pytest.mark.parametrize("workers", [0, 2])
def test_processes_together_see_what_one_sees_and_every_row_once(corpus: Corpus, workers: int) -> None:
    one = rows(epoch_of(loader(corpus, size=6), 1))
    parts = [rows(epoch_of(loader(corpus, workers, rank=rank, world_size=2), 1)) for rank in (0, 1)]
    assert [first + second for first, second in zip(*parts, strict=True)] == one
    seen = [row for batch in one for row in batch]
    everything = {source * 2**40 + row for source, size in enumerate(SIZES) for row in range(size + 1)}
    assert len(seen) == len(set(seen)) == sum(SIZES) // 6 * 6
    assert set(seen) <= everything


def test_an_epoch_has_its_own_order_and_no_other_randomness_enters(corpus: Corpus) -> None:
    before = torch.random.get_rng_state()
    orders = {str(rows(epoch_of(loader(corpus, seed=seed), epoch))) for seed in (0, 1) for epoch in (0, 1, 2)}
    assert len(orders) == 6
    fixed = loader(corpus, reshuffle=False)
    assert rows(epoch_of(fixed, 0)) == rows(epoch_of(fixed, 3)) == rows(epoch_of(loader(corpus), 0))
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize(("buffer", "workers"), [(1, 0), (4, 0), (8, 0), (1000, 0), (8, 2)])
def test_resumed_at_every_position(corpus: Corpus, buffer: int, workers: int) -> None:
    whole = epoch_of(loader(corpus, buffer=buffer), 1)
    positions = range(len(whole) + 1) if workers == 0 else (5,)
    for position in positions:
        first = loader(corpus, workers, buffer=buffer)
        first.sampler.set_epoch(1)
        running = iter(first)
        for _ in range(position):
            next(running)
        state = json.loads(json.dumps(first.state_dict()))  # plain data, as a checkpoint needs it
        second = loader(corpus, workers, buffer=buffer)
        second.load_state_dict(state)
        rest = list(second)
        assert rows(rest) == rows(whole[position:])
        for one, other in zip(rest, whole[position:], strict=True):
            assert torch.equal(one.anchor.input_ids, other.anchor.input_ids)
        assert rows(epoch_of(second, 2)) == rows(epoch_of(loader(corpus, buffer=buffer), 2))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=5), st.integers(1, 12), st.integers(1, 4), st.integers(1, 3),
    st.data(),
)  # fmt: skip
def test_any_shape(sizes: list[int], buffer: int, batch: int, world: int, data: st.DataObject) -> None:
    corpus = Corpus([Lines(f"{number}", size) for number, size in enumerate(sizes)])
    orders = [StreamedBatches(corpus, batch, buffer=buffer, rank=r, world_size=world) for r in range(world)]
    if sum(sizes) < batch * world:
        with pytest.raises(InputError, match="usable rows"):
            list(orders[0])
        return
    parts = [[[row.number for row in rows] for rows in order] for order in orders]
    seen = [row for part in parts for rows in part for row in rows]
    assert len({len(part) for part in parts}) == 1
    assert len(seen) == len(set(seen)) == sum(sizes) // (batch * world) * batch * world
    done = data.draw(st.integers(0, len(parts[0])))
    resumed = StreamedBatches(corpus, batch, buffer=buffer, world_size=world)
    resumed.resume(0, done, 0, orders[0].place(done))
    assert [[row.number for row in rows] for rows in resumed] == parts[0][done:]


class Lines:
    """A source in memory."""

    unit, fraction_read = "row", 0.0

    def __init__(self, name: str, size: int) -> None:
        self.name, self.size, self.reads = name, size, 0

    def fingerprint(self) -> str:
        return self.name

    stamp = fingerprint

    def rows(self, columns: Any) -> Any:
        for number in range(self.size):
            self.reads += 1
            yield number + 1, (f"{self.name} {number}",)


def test_a_resumed_run_reads_neither_the_sources_that_are_done_nor_more_than_a_block_again() -> None:
    def read(resume: dict[str, Any] | None = None, done: int = 0) -> tuple[StreamedBatches, int]:
        corpus = Corpus([Lines(str(number), 100) for number in range(10)])
        order = StreamedBatches(corpus, 10, buffer=50)
        if resume is not None:
            order.resume(0, done, 0, resume)
        running = iter(order)
        for _ in range(80 if resume is None else 1):
            next(running)
            order.done += 1
        return order, sum(source.reads for source in corpus.sources)

    first, reads = read()
    assert reads == 800
    assert read(first.place(77), 77)[1] <= 100  # of 770 rows before it
    assert len(first._starts) <= 64 * 10 // 50 + 4


def test_memory_holds_the_starts_of_a_few_blocks_only() -> None:
    order = StreamedBatches(Corpus([Lines("a", 3000)]), 1, buffer=1)
    for _ in order:
        order.done += 1
    assert len(order._starts) < 70


def test_hub_data_set_is_streamed_shard_by_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = []
    for number in range(3):
        files.append(str(tmp_path / f"{number}.jsonl"))
        Path(files[-1]).write_text("".join(json.dumps({"text": f"{number} {n}", "id": n}) + "\n" for n in range(5)))
    load, asked = datasets.load_dataset, []

    def fake(name: str, **options: Any) -> Any:
        asked.append((name, options))
        return load("json", data_files=files, cache_dir=str(tmp_path / "hub"), **options)

    monkeypatch.setattr(datasets, "load_dataset", fake)
    corpus = open_corpus("owner/name", columns=["text"], streaming=True)
    assert asked == [("owner/name", {"split": "train", "streaming": True})]
    assert [source.name for source in corpus.sources] == [f"owner/name, shard {n} of 3" for n in range(3)]
    assert [row.sentences[0] for row in corpus.rows()] == [f"{number} {n}" for number in range(3) for n in range(5)]
    assert len(rows(loader(corpus))) == 5


@pytest.mark.parametrize("kind", ["txt", "txt.gz", "parquet"])
def test_addresses_of_fsspec(kind: str) -> None:
    files = fsspec.filesystem("memory")
    for number in range(2):
        name = f"/stream/part-{number}.{kind}"
        if kind == "parquet":
            with files.open(name, "wb") as file:
                datasets.Dataset.from_dict({"text": [f"{number} a", f"{number} b"]}).to_parquet(file)
        else:
            with fsspec.open(f"memory:/{name}", "wt", compression="infer") as file:
                file.write(f"{number} a\n{number} b\n")
    corpus = open_corpus(f"memory://stream/part-*.{kind}", streaming=True)
    assert [row.sentences[0] for row in corpus.rows()] == ["0 a", "0 b", "1 a", "1 b"]
    assert corpus.stamp != open_corpus(f"memory://stream/part-0.{kind}").stamp
    assert corpus.fingerprint
    with pytest.raises(InputError, match=r"memory://stream/none.txt: no such file; check the address"):
        open_corpus("memory://stream/none.txt")
    with pytest.raises(InputError, match=r"nosuch://x/a.txt: cannot be reached .*Protocol not known"):
        open_corpus("nosuch://x/a.txt")


def test_a_saved_folder_and_the_toy_have_stamps(tmp_path: Path) -> None:
    datasets.Dataset.from_dict({"text": ["one", "two"]}).save_to_disk(str(tmp_path / "saved"))
    assert len({open_corpus(spec).stamp for spec in (str(tmp_path / "saved"), "toy")}) == 2


def test_datamodule_without_a_trainer(corpus: Corpus, tmp_path: Path) -> None:
    data = SentRepDataModule(
        str(tmp_path / "part-*.txt"), batch_size=3, seed=5, reading=Reading(streaming=True, shuffle_buffer=8)
    )
    data.connect(WordTokenize(), 8)
    data.setup("fit")
    assert rows(data.train_dataloader()) == rows(loader(corpus))
    assert data.report() == {"train": {"source": corpus.name, "fingerprint": corpus.stamp, "streaming": True}}
    with pytest.raises(TypeError):  # how lightning sees that the length is unknown
        len(data.train_dataloader())


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"reading": Reading(streaming=True, fraction=0.5)}, "data.reading.fraction"),
        ({"held_out": 10}, "data.held_out"),
        ({"no_duplicates": True, "pairs": "x.csv"}, "data.pairs and data.no_duplicates|no_duplicates and data.pairs"),
    ],
)
def test_what_needs_all_rows_is_refused(options: dict[str, Any], named: str) -> None:
    data = SentRepDataModule("toy", **{"reading": Reading(streaming=True), **options})
    data.connect(WordTokenize(), 8)
    with pytest.raises(InputError, match=rf"has never all of it at hand, which .*({named}) would need"):
        data.setup("fit")


def test_numbers_out_of_range_and_too_little_text(corpus: Corpus) -> None:
    with pytest.raises(InputError, match="StreamedBatches: shuffle_buffer must be 1 or more, got 0"):
        StreamedBatches(corpus, 3, buffer=0)
    with pytest.raises(InputError, match="the corpus has 41 usable rows, but one batch over all processes takes 42"):
        list(StreamedBatches(corpus, 21, world_size=2))


def test_other_settings_are_refused_on_resume(corpus: Corpus) -> None:
    state = loader(corpus).state_dict()
    with pytest.raises(InputError, match="shuffle_buffer was 8 and is 9"):
        loader(corpus, buffer=9).load_state_dict(state)
