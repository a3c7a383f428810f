"""Streaming under DDP with two gloo processes: no row twice, as many steps on either, resumed bit for bit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from torch import Tensor

from sentrep import SentRepDataModule, SentRepModule, distributed
from sentrep.objectives import Contrastive
from support import quiet_trainer, run_processes, tiny_encoder, toy_sentences

SIZES = (13, 14, 20, 15)
STEPS = 14
"""More than an epoch of 9 or 10 global batches of 6."""


class Rows(Callback):
    """Notes the rows of every batch."""

    def __init__(self) -> None:
        self.seen: list[list[int]] = []

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        self.seen.append(batch.rows.tolist())


def fitted(folder: str, resumed: bool) -> tuple[list[list[int]], dict[str, Tensor]]:
    """Rows of each step and the weights at the end; from the checkpoint of step 4 on where ``resumed``."""
    world = distributed.world_size()
    os.environ["LOCAL_RANK"] = str(distributed.rank())
    rows = Rows()
    # the dropout of a step depends on its number alone, so that it is drawn again after a resume
    module = SentRepModule(tiny_encoder(dropout=0.1), [Contrastive()], scheduler="constant", seed=1)
    data = SentRepDataModule(
        f"{folder}/part-*.txt", batch_size=6 // world, seed=2, streaming=True, shuffle_buffer=8, num_workers=1
    )
    saver = ModelCheckpoint(f"{folder}/{world}-{resumed}", "{step}", save_top_k=-1, every_n_train_steps=4)
    trainer = quiet_trainer(
        devices=world, strategy="ddp" if world > 1 else "auto", max_steps=STEPS, callbacks=[rows, saver],
        enable_checkpointing=True,
    )  # fmt: skip
    trainer.fit(module, data, ckpt_path=f"{folder}/{world}-False/step=4.ckpt" if resumed else None)
    return rows.seen, dict(module.state_dict())


def both(folder: str) -> list[tuple[list[list[int]], dict[str, Tensor]]]:
    return [fitted(folder, resumed) for resumed in (False, True)]


@pytest.mark.slow
def test_two_processes_share_a_stream(tmp_path: Path) -> None:
    """Files of 13, 14, 20 and 15 rows, with a blank line in some: no process has more batches than the other."""
    lines = iter(toy_sentences(sum(SIZES)))
    for number, size in enumerate(SIZES):
        text = [next(lines) for _ in range(size)]
        (tmp_path / f"part-{number}.txt").write_text(
            "\n".join([*text[:3], *([""] if number else []), *text[3:]]) + "\n"
        )
    first, second = run_processes(both, 2, str(tmp_path))
    (rows0, weights), (later0, resumed) = first
    (rows1, other), (later1, _) = second
    assert len(rows0) == len(rows1) == STEPS
    epoch = [row for batch in [*rows0[:9], *rows1[:9]] for row in batch]
    assert len(set(epoch)) == len(epoch)  # a process has 9 batches of 3 in each pair of files
    assert not {row % 4 for batch in rows0[:9] for row in batch} & {row % 4 for batch in rows1[:9] for row in batch}
    assert (later0, later1) == (rows0[4:], rows1[4:])
    floats = [name for name, tensor in weights.items() if isinstance(tensor, Tensor)]
    assert all(torch.equal(weights[name], other[name]) for name in floats)
    assert all(torch.equal(weights[name], resumed[name]) for name in floats)
