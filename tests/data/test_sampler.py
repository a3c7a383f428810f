from __future__ import annotations

import numpy as np
import pytest
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


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.01, float("nan")])
def test_fraction_out_of_range(fraction: float) -> None:
    with pytest.raises(InputError, match="expected a share of the corpus, above 0 and at most 1"):
        GlobalBatchSampler(100, 2, fraction=fraction)


def test_too_few_rows() -> None:
    with pytest.raises(InputError, match=r"7 usable rows, but .* takes 8; lower the batch size"):
        GlobalBatchSampler(7, 4, world_size=2)
    with pytest.raises(InputError, match=r"batch_size 0: expected at least 1"):
        GlobalBatchSampler(7, 0)
