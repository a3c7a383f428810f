"""Streamed batches against a slow reference; every row once; resumed equals uninterrupted."""

from __future__ import annotations

import json
import threading
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import datasets
import fsspec
import numpy as np
import pytest
import torch
from datasets import IterableDataset
from words import Words, WordTokenize

from sentrep.data import (
    Collate,
    ResumableLoader,
    RowTokenizer,
    SentRepDataModule,
    StreamedBatches,
    files,
    load,
    tokenize_text,
)
from sentrep.data.files import is_blank, sentences_of
from sentrep.data.text import open_text
from sentrep.errors import InputError
from sentrep.types import TextBatch

SIZES = (13, 1, 20, 7)


@pytest.fixture
def corpus(tmp_path: Path) -> IterableDataset:
    """41 sentences in four files, with a blank line in each."""
    for number, size in enumerate(SIZES):
        lines = [f"file {number} sentence {line}" for line in range(size)]
        (tmp_path / f"part-{number}.txt").write_text("\n".join([*lines[:3], " ", *lines[3:]]) + "\n")
    return load(str(tmp_path / "part-*.txt"), streaming=True)


def loader(text: IterableDataset, workers: int = 0, size: int = 3, buffer: int = 8, **options: Any) -> ResumableLoader:
    order = StreamedBatches(text, size, buffer=buffer, **{"seed": 5, **options})
    return ResumableLoader(RowTokenizer(WordTokenize(), 8), order, Collate(0), num_workers=workers)


def epoch_of(batches: ResumableLoader, epoch: int) -> list[TextBatch]:
    batches.sampler.set_epoch(epoch)
    return list(batches)


def rows(batches: Any) -> list[list[int]]:
    return [batch.rows.tolist() for batch in batches]


def test_columns_and_ids_are_those_of_the_map_style_path(tmp_path: Path) -> None:
    records = [{"sent0": f"a {n}", "sent1": f"b {n} long", "hard_neg": f"c {n}"} for n in range(12)]
    (tmp_path / "triplets.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    text = open_text(tmp_path / "triplets.jsonl")
    tokens = tokenize_text(text, RowTokenizer(WordTokenize(), 4))
    (batch,) = list(ResumableLoader(RowTokenizer(WordTokenize(), 4), StreamedBatches(text.rows, 12), Collate(0)))
    order = [texts([batch]).index(tuple(ids.tolist())) for ids in tokens[range(12)].columns[0]]
    expected = Collate(0)(tokens[np.argsort(order)])
    for name in ("anchor", "positive", "negative"):
        assert torch.equal(getattr(batch, name).input_ids, getattr(expected, name).input_ids)
        assert torch.equal(getattr(batch, name).attention_mask, getattr(expected, name).attention_mask)


def texts(batches: Any) -> list[tuple[int, ...]]:
    """The token ids of each sentence."""
    pairs = [zip(batch.anchor.input_ids, batch.anchor.attention_mask, strict=True) for batch in batches]
    return [tuple(ids[mask.bool()].tolist()) for pair in pairs for ids, mask in pair]


@pytest.mark.parametrize("buffer", [1, 8, 1000])
def test_every_sentence_is_seen_once_an_epoch(corpus: IterableDataset, buffer: int) -> None:
    seen = texts(epoch_of(loader(corpus, size=1, buffer=buffer), 2))
    everything = [row["anchor"] for row in corpus if not is_blank(sentences_of(row))]
    assert sorted(seen) == sorted(map(tuple, WordTokenize()(everything, 8)[0]))


@pytest.mark.parametrize("workers", [0, 2])
def test_with_fewer_files_than_processes_these_together_see_what_one_sees(
    tmp_path: Path, workers: int, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.txt").write_text("".join(f"sentence {n}\n" + "\n" * (n % 7 == 0) for n in range(41)))
    corpus = load(tmp_path / "a.txt", streaming=True)
    one = rows(epoch_of(loader(corpus, size=6), 1))
    assert "fewer files" not in caplog.text
    parts = [rows(epoch_of(loader(corpus, workers, rank=rank, world_size=2), 1)) for rank in (0, 1)]
    assert "fewer files (1) than processes (2): each process reads the whole text" in caplog.text
    assert [first + second for first, second in zip(*parts, strict=True)] == one
    seen = [row for batch in one for row in batch]
    assert len(seen) == len(set(seen)) == 36


@pytest.mark.parametrize("buffer", [1, 8, 1000])
def test_each_process_reads_files_of_its_own_and_all_end_together(
    corpus: IterableDataset, buffer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The processes are threads here, which meet where processes gather their numbers."""
    meeting, numbers, opened, state = threading.Barrier(2, timeout=20), [[0], [0]], list[int](), dict[str, Any]()
    read = files.cells_of
    monkeypatch.setattr(files, "cells_of", lambda *given: opened.append(1) or read(*given))

    def gather(rank: int, own: list[int]) -> list[list[int]]:
        numbers[rank] = own
        meeting.wait()
        everyone = list(numbers)
        meeting.wait()
        return everyone

    def process(rank: int) -> list[list[list[int]]]:
        own, resumed = (
            loader(corpus, buffer=buffer, rank=rank, world_size=2, gather=partial(gather, rank)) for _ in range(2)
        )
        epochs = [rows(epoch_of(own, epoch)) for epoch in range(4)]
        own.sampler.set_epoch(4)
        running = iter(own)
        head = rows(next(running) for _ in range(2))
        if rank == 0:  # whose state a checkpoint holds
            state.update(json.loads(json.dumps(own.state_dict())))
        meeting.wait()
        resumed.load_state_dict(state)
        return [*epochs, head + rows(running), head + rows(resumed)]

    with ThreadPool(2) as pool:
        first, second = pool.map(process, (0, 1), chunksize=1)
    for mine, theirs in zip(first, second, strict=True):
        assert len(mine) == len(theirs) > 0
        seen = [row for batch in [*mine, *theirs] for row in batch]
        assert len(set(seen)) == len(seen)
        assert not files_of(mine) & files_of(theirs)
    assert (first[-1], second[-1]) == (first[-2], second[-2])
    assert len(opened) <= 6 * len(SIZES)  # in six passes every file once


def files_of(batches: list[list[int]]) -> set[int]:
    return {row % len(SIZES) for batch in batches for row in batch}


def test_an_epoch_has_its_own_order_and_no_other_randomness_enters(corpus: IterableDataset) -> None:
    before = torch.random.get_rng_state()
    orders = {str(texts(epoch_of(loader(corpus, seed=seed), epoch))) for seed in (0, 1) for epoch in (0, 1, 2)}
    assert len(orders) == 6
    fixed = loader(corpus, reshuffle=False)
    assert texts(epoch_of(fixed, 0)) == texts(epoch_of(fixed, 3)) == texts(epoch_of(loader(corpus), 0))
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize(("buffer", "workers"), [(1, 0), (8, 0), (1000, 0), (8, 2)])
def test_resumed_the_text_goes_on_where_it_was_read_to(
    corpus: IterableDataset, buffer: int, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    read = files.cells_of
    monkeypatch.setattr(files, "cells_of", lambda *given: opened.append(given[0]) or read(*given))
    whole = epoch_of(loader(corpus, buffer=buffer), 1)
    for position in (0, 1, 5, 6, len(whole)) if workers == 0 else (5,):
        first = loader(corpus, workers, buffer=buffer)
        first.sampler.set_epoch(1)
        running = iter(first)
        head = rows(next(running) for _ in range(position))
        state = json.loads(json.dumps(first.state_dict()))  # plain data, as a checkpoint needs it
        second = loader(corpus, workers, buffer=buffer)
        second.load_state_dict(state)
        opened.clear()
        assert head + rows(second) == rows(whole)
        if position > 4:  # files of earlier windows stay closed
            assert (len(opened) < 4) == (buffer < 1000)
        assert texts(epoch_of(second, 2)) == texts(epoch_of(loader(corpus, buffer=buffer), 2))


def test_hub_data_set_is_streamed_shard_by_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = []
    for number in range(3):
        names.append(str(tmp_path / f"{number}.jsonl"))
        Path(names[-1]).write_text("".join(json.dumps({"text": f"{number} {n}", "id": n}) + "\n" for n in range(5)))
    load_dataset, asked = datasets.load_dataset, []

    def fake(name: str, **options: Any) -> Any:
        asked.append((name, options))
        return load_dataset("json", data_files=names, **options)

    monkeypatch.setattr(datasets, "load_dataset", fake)
    text = open_text("owner/name", columns=["text"], streaming=True)
    assert asked == [("owner/name", {"split": "train", "streaming": True})]
    assert text.rows.num_shards == 3
    assert [row["anchor"] for row in text.rows] == [f"{number} {n}" for number in range(3) for n in range(5)]
    assert len(rows(loader(text.rows))) == 5


@pytest.mark.parametrize("kind", ["txt", "txt.gz", "parquet"])
def test_addresses_of_fsspec(kind: str) -> None:
    memory = fsspec.filesystem("memory")
    for number in range(2):
        name = f"/stream/part-{number}.{kind}"
        if kind == "parquet":
            with memory.open(name, "wb") as file:
                datasets.Dataset.from_dict({"text": [f"{number} a", f"{number} b"]}).to_parquet(file)
        else:
            with fsspec.open(f"memory:/{name}", "wt", compression="infer") as file:
                file.write(f"{number} a\n{number} b\n")
    address = f"memory://stream/part-*.{kind}"
    for streaming in (True, False):
        assert [row["anchor"] for row in load(address, streaming=streaming)] == ["0 a", "0 b", "1 a", "1 b"]
        one = open_text(f"memory://stream/part-0.{kind}", streaming=streaming)
        assert open_text(address, streaming=streaming).fingerprint != one.fingerprint
    with pytest.raises(InputError, match=r"memory://stream/none.txt: no such file; check the address"):
        load("memory://stream/none.txt")


def test_datamodule_without_a_trainer(corpus: IterableDataset, tmp_path: Path) -> None:
    pattern = str(tmp_path / "part-*.txt")
    data = SentRepDataModule(pattern, batch_size=3, seed=5, streaming=True, shuffle_buffer=8)
    data.connect(Words())
    data.setup("fit")
    assert texts(data.train_dataloader()) == texts(loader(corpus))
    assert data.report() == {"train": {"source": pattern, "fingerprint": data.fingerprint, "streaming": True}}
    with pytest.raises(TypeError):  # how lightning sees that the length is unknown
        len(data.train_dataloader())


def test_other_settings_are_refused_on_resume(corpus: IterableDataset) -> None:
    state = loader(corpus).state_dict()
    with pytest.raises(InputError, match="shuffle_buffer was 8 and is 9"):
        loader(corpus, buffer=9).load_state_dict(state)
