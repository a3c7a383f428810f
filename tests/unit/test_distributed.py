"""Two processes against one: the same loss and the same gradients on the same global batch."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor

from sentrep import InputError, ProjectionHead, SentRepModule, distributed
from sentrep.data import SentRepDataModule
from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.encoder.encode import encode
from sentrep.objectives import Contrastive
from sentrep.random import derive_seed, global_seed, plugin_draws, step_generator
from support import (
    assert_equal_to_one_process,
    loss_and_gradients,
    quiet_trainer,
    run_processes,
    text_batch,
    tiny_encoder,
    toy_sentences,
)

WORLD = 2


def contrastive(compile: bool) -> tuple[Tensor, dict[str, Tensor]]:
    """Loss and gradients on one global batch of 8; traced graphs run as they are, without minutes of C++."""
    encoder, sentences = tiny_encoder(dropout=0.0, compile=compile), toy_sentences(24)
    objective = Contrastive(label_smoothing=0.1, hard_negative_weight=0.7)
    module = SentRepModule(encoder, {"simcse": objective}, head=ProjectionHead("mlp"), seed=1)
    with torch.compiler.set_stance("default", force_backend="eager"):
        return loss_and_gradients(module, text_batch(encoder, sentences[:8], sentences[8:16], sentences[16:]))


@pytest.mark.parametrize("compile", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_smoothing_hard_negatives_and_a_head_equal_one_process(compile: bool) -> None:
    """`test_every_plugin.py` has every plug-in on three processes."""
    assert_equal_to_one_process(run_processes(contrastive, WORLD, compile), *contrastive(False))


def _shares(count: int) -> tuple[list[int], Tensor]:
    mine = list(distributed.share(range(count)))
    out = torch.zeros(count)
    out[mine] = 1 / (1 + torch.tensor(mine))
    return mine, distributed.total(out)


@pytest.mark.parametrize("count", [1, 4, 7])
def test_shares_are_all_items_once_and_their_total_is_exact(count: int) -> None:
    results = run_processes(_shares, WORLD, count)
    assert sorted(item for mine, _ in results for item in mine) == list(range(count))
    for _, total in results:
        assert torch.equal(total, 1 / (1 + torch.arange(count)))


def _validation_scores() -> dict[str, float]:
    """Of a module on 200 pairs, which fill several batches."""
    encoder = tiny_encoder(pooling="mean")
    module = SentRepModule(encoder, {"simcse": Contrastive()})
    metrics: dict[str, float] = {}
    module.log = lambda name, value, **_: metrics.update({name: value})  # type: ignore[method-assign]
    module.trainer = SimpleNamespace(state=SimpleNamespace(fn="validate"))  # type: ignore[assignment]
    sentences = toy_sentences(400)
    pairs = ScoredPairs("dev", sentences[:200], sentences[200:], [float(i % 7) for i in range(200)])
    distinct = [*pairs.first, *pairs.second]
    alone = encode(encoder, distinct, 2, show_progress_bar=False)
    shared = encode(encoder, distinct, 2, show_progress_bar=False, shared=True)
    assert torch.equal(alone, shared)  # to the bit, not only to rounding
    module.validation_step(pairs, 0)
    module.on_validation_epoch_end()
    measures = ("alignment", "alignment_all", "uniformity", "uniformity_first")
    assert metrics.keys() == {"val/sts", "val/dev", *(f"val/dev/{name}" for name in measures)}
    return metrics


def test_validation_on_two_processes_gives_exactly_the_scores_of_one() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in the processes
    try:
        expected = _validation_scores()
    finally:
        torch.set_num_threads(threads)
    assert run_processes(_validation_scores, WORLD) == [expected, expected]


def test_outside_a_step_a_plug_in_draws_on_from_where_torch_is() -> None:
    torch.manual_seed(0)
    expected = torch.randn(4)
    torch.manual_seed(0)
    with plugin_draws("simcse", device="cpu"):
        found = torch.randn(2)
    assert torch.equal(torch.cat([found, torch.randn(2)]), expected)


def test_the_seed_of_a_run_is_a_whole_number_of_63_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PL_GLOBAL_SEED", raising=False)
    assert global_seed() == 0
    for seed in (7, 2**63 - 1):
        monkeypatch.setenv("PL_GLOBAL_SEED", str(seed))
        assert global_seed() == seed
    for word in ("-1", "1.5", "x", str(2**63)):
        monkeypatch.setenv("PL_GLOBAL_SEED", word)
        with pytest.raises(InputError, match="PL_GLOBAL_SEED"):
            global_seed()
    assert 2**62 <= max(map(derive_seed, range(64))) < 2**63


def test_streams_and_steps_differ() -> None:
    draws = {
        tuple(torch.randn(2, generator=step_generator(seed, stream, step)).tolist())
        for seed in (1, 2)
        for stream in ("a", "b")
        for step in (0, 1)
    }
    assert len(draws) == 8


def _gathered_gradient() -> list[float]:
    """Of this process's row, where the processes' losses weigh every row with 256, 1, 1 and 1."""
    row = torch.ones(1, 1, dtype=torch.bfloat16, requires_grad=True)
    (distributed.gather(row) * (1 if distributed.rank() else 256)).sum().backward()
    assert row.grad is not None
    return row.grad.flatten().tolist()


def test_gradients_of_gathered_rows_are_added_in_float32() -> None:
    """259 is rounded once, to 260; sums in bfloat16 give 256 or 258."""
    assert run_processes(_gathered_gradient, 4) == [[260.0]] * 4


def fitted(texts: Any, steps: int, every: int = 1) -> dict[str, float]:
    """What some steps log, each on a global batch of 6 pairs."""
    world = distributed.world_size()
    os.environ["LOCAL_RANK"] = str(distributed.rank())
    module = SentRepModule(tiny_encoder(dropout=0.0), {"simcse": Contrastive()}, weights={"simcse": 2.0}, seed=1)
    strategy = "ddp" if world > 1 else "auto"
    trainer = quiet_trainer(devices=world, strategy=strategy, max_steps=steps, log_every_n_steps=every)
    trainer.fit(module, SentRepDataModule(texts, batch_size=6 // world, seed=2))
    return {name: float(value) for name, value in trainer.callback_metrics.items()}


@pytest.mark.parametrize("every", [1, 50])
def test_the_loss_that_is_logged_is_that_of_the_global_batch(tmp_path: Path, every: int) -> None:
    lines = [line for line in toy_sentences(40) if "," not in line]
    rows = [f"{first},{second}" for first, second in zip(lines[:6], lines[6:12], strict=True)]
    (tmp_path / "pairs.csv").write_text("\n".join(["sent0,sent1", *rows]) + "\n")
    first, second = run_processes(fitted, WORLD, str(tmp_path / "pairs.csv"), 2, every)
    (one,) = run_processes(fitted, 1, str(tmp_path / "pairs.csv"), 2, every)
    assert first == second
    for name in ("train/loss", *(("train/simcse", "train/simcse/weighted") if every == 1 else ())):
        assert first[name] == pytest.approx(one[name], rel=1e-5)
    assert every > 1 or one["train/loss"] == pytest.approx(2 * one["train/simcse"])


def held(texts: list[Any]) -> float | str:
    """The loss of a step on each process's own texts in memory, or what is said of them."""
    try:
        return fitted(texts[distributed.rank()], 1)["train/loss"]
    except InputError as error:
        return str(error)


@pytest.mark.slow
def test_text_in_memory_is_shared_out_and_must_be_one_text() -> None:
    lines = toy_sentences(12)
    pairs = list(zip(lines[:6], lines[6:], strict=True))
    (one,) = run_processes(held, 1, [pairs])
    assert run_processes(held, WORLD, [pairs, pairs]) == pytest.approx([one, one], rel=1e-5)
    refusal = "data.train: the processes hold different texts; give all the same, in one order"
    assert run_processes(held, WORLD, [pairs, pairs[::-1]]) == [refusal, refusal]


def _averages() -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    rank = distributed.rank()
    values = {"loss": torch.tensor(1.0 + rank, requires_grad=True), "count": torch.tensor(10 * rank)}
    return distributed.average_each(values), distributed.average_each({})


def test_metrics_are_averaged_over_the_processes_without_gradient() -> None:
    for found, nothing in run_processes(_averages, WORLD):
        assert {name: value.tolist() for name, value in found.items()} == {"loss": 1.5, "count": 5.0}
        assert not any(value.requires_grad for value in found.values())
        assert nothing == {}
    alone, nothing = _averages()
    assert alone == {"loss": torch.tensor(1.0), "count": torch.tensor(0)}
    assert not alone["loss"].requires_grad
    assert alone["count"].dtype == torch.int64  # as it came
    assert nothing == {}


def leaves_its_group() -> bool:
    with mock.patch.object(torch.distributed, "destroy_process_group") as leave:
        distributed.leave_gloo_group()
    return leave.called


def test_a_group_of_gloo_is_left() -> None:
    assert run_processes(leaves_its_group, 1) == [True]
    assert not leaves_its_group()
