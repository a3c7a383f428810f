from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sentrep.data import GlobalBatchSampler
from sentrep.errors import InputError


@settings(max_examples=40, deadline=None)
@given(st.integers(12, 60), st.integers(1, 3), st.integers(1, 4), st.integers(0, 3), st.integers(0, 5))
def test_processes_together_see_what_one_process_sees(rows: int, batch: int, world: int, epoch: int, seed: int) -> None:
    ranks = [GlobalBatchSampler(rows, batch, rank=rank, world_size=world, seed=seed) for rank in range(world)]
    one = GlobalBatchSampler(rows, batch * world, seed=seed)
    for sampler in (*ranks, one):
        sampler.set_epoch(epoch)
    together = [[row for part in parts for row in part] for parts in zip(*ranks, strict=True)]
    assert together == list(one)
    assert len(together) == len(one) == len(ranks[0]) == rows // (batch * world)
    seen = [row for batch in together for row in batch]
    assert len(set(seen)) == len(seen) == rows - one.dropped
    assert set(seen) <= set(range(rows))


def test_order_is_a_function_of_seed_and_epoch_alone() -> None:
    def order(seed: int, epoch: int) -> list[list[int]]:
        sampler = GlobalBatchSampler(100, 10, seed=seed)
        sampler.set_epoch(epoch)
        return list(sampler)

    before = torch.random.get_rng_state(), np.random.get_state()[1].tolist()
    assert order(1, 2) == order(1, 2)
    assert len({str(order(seed, epoch)) for seed in (0, 1, 2) for epoch in (0, 1, 2)}) == 9
    assert torch.equal(before[0], torch.random.get_rng_state())
    assert before[1] == np.random.get_state()[1].tolist()


def test_fraction_is_the_same_rows_everywhere_and_nested() -> None:
    def rows(fraction: float, epoch: int = 0, rank: int = 0, world: int = 1) -> set[int]:
        sampler = GlobalBatchSampler(1000, 5, rank=rank, world_size=world, seed=4, fraction=fraction)
        sampler.set_epoch(epoch)
        return set(sampler.order().tolist())

    tenth = rows(0.1)
    assert len(tenth) == 100
    assert tenth == rows(0.1, epoch=3) == rows(0.1, rank=1, world=2)
    assert tenth < rows(0.3) < rows(1.0) == set(range(1000))
    assert max(tenth) > 900  # a sample, not the head of the file


def batches_of(sampler: GlobalBatchSampler, epoch: int) -> list[list[int]]:
    sampler.set_epoch(epoch)
    return list(sampler)


def share_a_sentence(keys: np.ndarray, batch: list[int]) -> bool:
    """In loops, from the definition."""
    return any(set(keys[a].tolist()) & set(keys[b].tolist()) for a in batch for b in batch if a != b)


@settings(max_examples=80, deadline=None)
@given(
    st.integers(1, 3).flatmap(
        lambda columns: st.lists(st.lists(st.integers(0, 25), min_size=columns, max_size=columns), min_size=4)
    ),
    st.integers(1, 4), st.integers(1, 2), st.integers(0, 3),
)  # fmt: skip
def test_no_batch_has_a_sentence_twice(table: list[list[int]], batch: int, world: int, seed: int) -> None:
    keys = np.array(table, np.uint64)
    try:
        ranks = [
            GlobalBatchSampler(len(keys), batch, rank=rank, world_size=world, seed=seed, keys=keys)
            for rank in range(world)
        ]
    except InputError:  # of less than a batch of rows, or of different sentences
        assert len(keys) < batch * world or batch * world > 1
        return
    for epoch in range(3):
        parts = [batches_of(sampler, epoch) for sampler in ranks]
        whole = [[row for part in rows for row in part] for rows in zip(*parts, strict=True)]
        assert len(whole) == len(ranks[0]) >= 1
        assert all(len(rows) == batch * world for rows in whole)
        seen = [row for rows in whole for row in rows]
        assert len(seen) == len(set(seen)) == len(keys) - ranks[0].dropped
        assert not any(share_a_sentence(keys, rows) for rows in whole)
        done = epoch % (len(whole) + 1)
        ranks[0].resume(epoch, done, 0, {})
        assert list(ranks[0]) == parts[0][done:]
        ranks[0].resume(epoch, 0, 0, {})


def test_nothing_is_left_out_where_few_sentences_are_repeated() -> None:
    keys = np.arange(1000, dtype=np.uint64)[:, None] // np.where(np.arange(1000) < 100, 4, 1)[:, None].astype(np.uint64)
    plain, distinct = GlobalBatchSampler(1000, 32), GlobalBatchSampler(1000, 32, keys=keys)
    assert any(share_a_sentence(keys, rows) for rows in batches_of(plain, 0))
    assert len(distinct) == len(plain) == 31
    orders = {str(batches_of(distinct, epoch)) for epoch in range(3)}
    assert len(orders) == 3
    assert orders == {str(batches_of(GlobalBatchSampler(1000, 32, keys=keys), epoch)) for epoch in range(3)}


def test_a_sentence_that_is_everywhere_is_once_in_each_batch() -> None:
    keys = np.where(np.arange(1000) % 2, 7, 1000 + np.arange(1000)).astype(np.uint64)[:, None]
    sampler = GlobalBatchSampler(1000, 10, keys=keys)
    assert len(sampler) == 55  # 500 others and one of the repeated in each: 9 · 55 ≤ 500 < 9 · 56
    assert all(np.sum(keys[rows] == 7) <= 1 for rows in batches_of(sampler, 1))


def test_the_first_placement_stands_in_where_an_epoch_finds_none() -> None:
    keys = np.array([[1], [1], [2], [2], [3], [3], [1], [2]], np.uint64)  # batches of two different ones of three
    sampler = GlobalBatchSampler(8, 2, keys=keys)
    for epoch in range(60):
        rows = batches_of(sampler, epoch)
        assert len(rows) == len(sampler)
        assert not any(share_a_sentence(keys, batch) for batch in rows)


def test_fraction_and_no_duplicates_together() -> None:
    keys = (np.arange(100, dtype=np.uint64) // np.uint64(2))[:, None]
    kept = set(GlobalBatchSampler(100, 5, fraction=0.5).order().tolist())
    for epoch in range(2):
        seen = {row for rows in batches_of(GlobalBatchSampler(100, 5, fraction=0.5, keys=keys), epoch) for row in rows}
        assert seen <= kept
