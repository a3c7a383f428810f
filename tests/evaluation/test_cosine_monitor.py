"""The histograms of cosines: counts against a loop over pairs, the file, TensorBoard, resuming, processes."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from lightning.pytorch.loggers import TensorBoardLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import Tensor

from sentrep import SentRepModule, TextBatch, Views, distributed
from sentrep.evaluation import CosineMonitor
from sentrep.evaluation.cosine_monitor import histogram
from sentrep.objectives import Contrastive
from sentrep.types import StepTerms
from support import run_processes, text_batch, tiny_encoder, toy_sentences

SENTENCES = toy_sentences(32)


class Watched(Contrastive):
    """Remembers the views of every batch."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[Tensor, Tensor]] = []

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        self.seen.append((views.anchor.detach().clone(), views.positive.detach().clone()))
        return super().forward(views, batch)


def fit(folder: Path, monitor: CosineMonitor, **arguments: Any) -> tuple[list[tuple[Tensor, Tensor]], Any]:
    encoder, watched = tiny_encoder(dropout=0.1), Watched()
    model = SentRepModule(encoder, {"simcse": watched}, scheduler="constant", seed=3)
    batches = [text_batch(encoder, SENTENCES[k : k + 8]) for k in range(0, 32, 8)]
    resume = {"ckpt_path": arguments.pop("ckpt_path", None), "weights_only": True}
    defaults = {
        "max_epochs": 1, "accelerator": "cpu", "log_every_n_steps": 1, "callbacks": [monitor], "logger": False,
        "default_root_dir": folder, "use_distributed_sampler": False, "enable_progress_bar": False,
        "enable_model_summary": False, "enable_checkpointing": False,
    }  # fmt: skip
    trainer = lightning.Trainer(**{**defaults, **arguments})  # type: ignore[arg-type]
    trainer.fit(model, torch.utils.data.DataLoader(batches, batch_size=None, shuffle=False), **resume)  # type: ignore[arg-type]
    return watched.seen, trainer


def read(path: Path) -> dict[tuple[int, str], list[int]]:
    """Counts by step and kind; every bin has its row and its edges."""
    counts: dict[tuple[int, str], list[int]] = {}
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["step", "kind", "left", "right", "count"]
    for row in rows:
        bins = counts.setdefault((int(row["step"]), row["kind"]), [])
        assert float(row["left"]) == pytest.approx(-1 + 0.02 * len(bins), abs=1e-9)
        assert float(row["right"]) == pytest.approx(-1 + 0.02 * (len(bins) + 1), abs=1e-9)
        bins.append(int(row["count"]))
    assert all(len(bins) == 100 for bins in counts.values())
    return counts


def by_hand(batches: list[tuple[Tensor, Tensor]], kind: str) -> list[int]:
    counts = [0] * 100
    for anchors, positives in batches:
        for i, anchor in enumerate(anchors):
            for j, positive in enumerate(positives):
                if (i == j) == (kind == "positive"):
                    cosine = torch.cosine_similarity(anchor, positive, dim=0).clamp(-1, 1)
                    counts[min(int((float(cosine) + 1) / 0.02), 99)] += 1
    return counts


@pytest.mark.parametrize("accumulate", [1, 2])
def test_the_file_counts_all_pairs_of_the_monitored_steps(tmp_path: Path, accumulate: int) -> None:
    seen, _ = fit(tmp_path, CosineMonitor(2), accumulate_grad_batches=accumulate)
    counts = read(tmp_path / "cosines.csv")
    steps = [2, 4] if accumulate == 1 else [2]
    assert list(counts) == [(step, kind) for step in steps for kind in ("positive", "negative")]
    for (step, kind), bins in counts.items():
        wanted = by_hand(seen[(step - 1) * accumulate : step * accumulate], kind)
        # a cosine within rounding of an edge may fall on either side
        assert sum(abs(one - two) for one, two in zip(bins, wanted, strict=True)) <= 2
        assert sum(bins) == accumulate * (8 if kind == "positive" else 56)


def test_the_bins_hold_their_left_edge_and_the_ends_hold_rounding() -> None:
    counts = histogram(torch.tensor([-1.0000001, 0.0, 0.019, 1.0, 1.0000001]))
    assert {place: int(count) for place, count in enumerate(counts) if count} == {0: 1, 50: 2, 99: 2}


def test_tensorboard_gets_histograms(tmp_path: Path) -> None:
    fit(tmp_path, CosineMonitor(2), logger=TensorBoardLogger(str(tmp_path), name="", version="run"))
    events = EventAccumulator(str(tmp_path / "run"), size_guidance={"histograms": 0})
    events.Reload()
    assert sorted(events.Tags()["histograms"]) == ["train/cosines/negative", "train/cosines/positive"]
    drawn = events.Histograms("train/cosines/negative")
    assert [(event.step, event.histogram_value.num) for event in drawn] == [(1, 56), (3, 56)]
    assert (tmp_path / "run" / "cosines.csv").exists()


@pytest.mark.parametrize("folder", ["same", "other"])
def test_a_resumed_run_has_the_file_of_the_whole_run(tmp_path: Path, folder: str) -> None:
    fit(tmp_path / "whole", CosineMonitor(1), max_epochs=2)
    _, trainer = fit(tmp_path / "same", CosineMonitor(1))
    trainer.save_checkpoint(tmp_path / "half.ckpt")
    with (tmp_path / "same" / "cosines.csv").open("a") as file:
        file.write("5,positive,-1.0,-0.98,3\n")  # a step behind the checkpoint, and the run was killed
    fit(tmp_path / folder, CosineMonitor(1), max_epochs=2, ckpt_path=tmp_path / "half.ckpt")
    resumed = (tmp_path / folder / "cosines.csv").read_text()
    assert resumed == (tmp_path / "whole" / "cosines.csv").read_text()
    assert len(read(tmp_path / folder / "cosines.csv")) == 16


def test_a_trial_run_writes_nothing(tmp_path: Path) -> None:
    fit(tmp_path, CosineMonitor(1), fast_dev_run=True)
    assert not (tmp_path / "cosines.csv").exists()


def cosines_of_a_global_batch() -> list[Tensor]:
    encoder = tiny_encoder(dropout=0.0)
    model = SentRepModule(encoder, {"simcse": Contrastive()}, seed=1)
    share = 8 // distributed.world_size()
    rows = slice(distributed.rank() * share, (distributed.rank() + 1) * share)
    batch = text_batch(encoder, SENTENCES[:8][rows], SENTENCES[8:16][rows])
    model.terms = StepTerms(model.views_of(batch), {}, {}, batch.rows)

    class Trainer:
        global_step = 0

    monitor = CosineMonitor(1)
    monitor.on_before_backward(Trainer(), model, torch.zeros(()))  # type: ignore[arg-type]
    return [part.sort().values for part in monitor._pending[0]]


def test_two_processes_see_the_pairs_of_the_global_batch() -> None:
    wanted = cosines_of_a_global_batch()
    assert [len(part) for part in wanted] == [8, 56]
    for found in run_processes(cosines_of_a_global_batch, 2):
        for one, two in zip(found, wanted, strict=True):
            torch.testing.assert_close(one, two, rtol=0, atol=1e-6)
