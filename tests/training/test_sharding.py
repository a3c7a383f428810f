"""FSDP2 on two gloo processes against one process without it: the same weights after some steps."""

from __future__ import annotations

import functools
import importlib.util
import os
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from encoder.test_copies import AgainstCopy
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.strategies import FSDPStrategy, ModelParallelStrategy
from samplers import assert_same
from torch import Tensor

from sentrep import (
    InputError,
    ProjectionHead,
    SentenceEncoder,
    SentRepDataModule,
    SentRepModule,
    distributed,
    negatives,
)
from sentrep.checkpoint.io import AtomicCheckpointIO
from sentrep.encoder import Lora
from sentrep.evaluation import TrainingReport
from sentrep.objectives import Contrastive, Denoising, MaskedLanguageModeling
from sentrep.stability import SAM, NonFiniteGuard
from sentrep.training.sharding import check_strategy, is_sharded
from sentrep.views import FGSM, EncodedViews
from support import run_processes, tiny_encoder, toy_sentences

SMALL: dict[str, Any] = {"layers": 1, "heads": 2, "feed_forward": 48, "dropout": 0.0, "noise": 0.0}
SGD = functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9)
ADAMW = functools.partial(torch.optim.AdamW, lr=1e-3, weight_decay=0.1)
PEFT = importlib.util.find_spec("peft") is not None
ROWS = 8
"""In a global batch."""

CASES: dict[str, dict[str, Any]] = {
    "contrastive": {"objectives": lambda: [Contrastive()], "head": True},
    "samplers": {
        "objectives": lambda: [
            Contrastive(negatives={"bank": negatives.MemoryBank(9), "vae": negatives.VAENegatives(3, 7, 2)})
        ]
    },
    "decoder": {"objectives": lambda: [Contrastive(), Denoising(**SMALL)], "optimizer": ADAMW},
    "accumulated": {"objectives": lambda: [Contrastive()], "accumulate_grad_batches": 2, "gradient_clip_val": 0.1},
    "clipped by value": {
        "objectives": lambda: [Contrastive()],
        "gradient_clip_val": 0.002,
        "gradient_clip_algorithm": "value",
    },
    "grad cache": {"objectives": lambda: [Contrastive()], "chunk": 3},
    "sam": {"objectives": lambda: [Contrastive()], "optimizer": lambda groups: SAM(groups, SGD)},
    "tied head": {
        "objectives": lambda: [Contrastive(), MaskedLanguageModeling(0.9999999, mask=1, random=0)],
        "optimizer": ADAMW,
    },
    "copies": {
        "objectives": lambda: {
            "followed": AgainstCopy(momentum=0.5),
            "trained": AgainstCopy(trainable=True),
            "frozen": AgainstCopy(),
        },
        "head": True,
    },
    "bf16": {"objectives": lambda: [Contrastive()], "precision": "bf16-mixed"},
    "last layer alone": {"objectives": lambda: [Contrastive()], "parts": {"trainable": ["encoder.layer.1.*"]}},
    **({"lora": {"objectives": lambda: [Contrastive()], "parts": {"adapter": Lora()}}} if PEFT else {}),
    "albert": {"objectives": lambda: [Contrastive()], "family": "albert"},
    "modernbert": {"objectives": lambda: [Contrastive()], "family": "modernbert"},
}


def build(
    objectives: Any,
    head: bool = False,
    chunk: int | None = None,
    family: str = "bert",
    optimizer: Any = SGD,
    views: Any = None,
    parts: Any = None,
    **_: Any,
) -> SentRepModule:
    encoder = tiny_encoder(family, pooling="mean", dropout=0.0, rows_at_once=chunk, **(parts or {}))
    return SentRepModule(
        encoder, objectives(), head=ProjectionHead() if head else None, views=views and views(), optimizer=optimizer,
        scheduler="constant", seed=1,
    )  # fmt: skip


def trainer(folder: str, steps: int, **options: Any) -> lightning.Trainer:
    """On all processes of the group, divided among them where there are several."""
    world = distributed.world_size()
    if world > 1:
        os.environ["LOCAL_RANK"] = str(distributed.rank())
        options["strategy"] = ModelParallelStrategy(world, 1, save_distributed_checkpoint=False)
    return lightning.Trainer(
        accelerator="cpu", devices=world, max_steps=steps, default_root_dir=folder, logger=False,
        use_distributed_sampler=False, enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0,
        **{"enable_checkpointing": False, **options},
    )  # fmt: skip


def data(folder: str, **options: Any) -> SentRepDataModule:
    size = ROWS // distributed.world_size()
    return SentRepDataModule(f"{folder}/corpus.csv", batch_size=size, seed=3, **options)


def trained(folder: str, names: list[str]) -> dict[str, dict[str, Tensor]]:
    """Weights after three optimiser steps, by case."""
    results = {}
    for name in names:
        case = CASES[name]
        module = build(**case)
        options = {
            key: case[key]
            for key in ("accumulate_grad_batches", "gradient_clip_val", "gradient_clip_algorithm", "precision")
            if key in case
        }
        run = trainer(folder, 3, callbacks=[NonFiniteGuard()], **options)
        run.fit(module, data(folder))
        assert is_sharded(module) == (distributed.world_size() > 1)
        state = run.strategy.lightning_module_state_dict()
        results[name] = {key: value for key, value in state.items() if isinstance(value, Tensor)}
    return results


@pytest.fixture
def folder(tmp_path: Path) -> str:
    sentences = [line for line in toy_sentences(200) if "," not in line][:128]
    rows = [f"{a},{b}\n" for a, b in zip(sentences[:64], sentences[64:], strict=True)]
    (tmp_path / "corpus.csv").write_text("".join(["sent0,sent1\n", *rows]))
    pairs = [f"{a},{b},{i % 6}\n" for i, (a, b) in enumerate(zip(sentences[:12], sentences[20:32], strict=True))]
    (tmp_path / "dev.csv").write_text("".join(["sentence1,sentence2,score\n", *pairs]))
    return str(tmp_path)


def assert_same_weights(found: dict[str, Tensor], expected: dict[str, Tensor], name: str, atol: float = 2e-5) -> None:
    """float32 adds up in another order on two processes; the steps move weights by 1e-3 and more."""
    assert found.keys() == expected.keys()
    for key, tensor in expected.items():
        torch.testing.assert_close(
            found[key], tensor, rtol=0, atol=atol, msg=lambda text, key=key: f"{name} {key} {text}"
        )


@pytest.mark.slow
def test_divided_training_ends_at_the_weights_of_one_process(folder: str) -> None:
    """With bf16 within 2⁻⁵ of the largest move of a weight: sums of 8 bits, of other groups of rows."""
    expected = trained(folder, list(CASES))
    found, other = run_processes(trained, 2, folder, list(CASES))
    assert not any(other.values())  # whole on the first process alone
    for name in CASES:
        start = build(**CASES[name]).state_dict()
        moved = max(float((expected[name][key] - start[key]).abs().max()) for key in expected[name])
        assert moved > 1e-3, name
        assert_same_weights(found[name], expected[name], name, 2**-5 * moved if name == "bf16" else 2e-5)


@pytest.mark.parametrize(
    ("strategy", "views", "message"),
    [
        (lambda: ModelParallelStrategy(2, 1), None, "set save_distributed_checkpoint to false"),
        (lambda: ModelParallelStrategy(save_distributed_checkpoint=False), None, "set data_parallel_size to 2"),
        (lambda: ModelParallelStrategy(1, 2), None, "tensor_parallel_size to 1"),
        (lambda: ModelParallelStrategy(2, 1, False), lambda: EncodedViews([FGSM()]), "FGSM takes a gradient within"),
        (FSDPStrategy, None, "is FSDP1"),
    ],
)
def test_what_cannot_work_is_refused(strategy: Any, views: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_strategy(build(lambda: [Contrastive()], views=views), strategy(), 2)


def interrupted(folder: str) -> dict[str, Any]:
    """Six steps with a checkpoint after the third, and the last three again from there."""

    def module() -> SentRepModule:
        return build(**CASES["samplers"])

    def run(steps: int, **options: Any) -> lightning.Trainer:
        saver = ModelCheckpoint(f"{folder}/{distributed.world_size()}", "{step}", save_top_k=-1, every_n_train_steps=3)
        report = TrainingReport()
        plugins = [AtomicCheckpointIO()]
        return trainer(
            folder, steps, callbacks=[saver, report], plugins=plugins, enable_checkpointing=True, val_check_interval=2,
            check_val_every_n_epoch=None, **options,
        )  # fmt: skip

    def state(run: lightning.Trainer) -> dict[str, Any]:
        weights = dict(run.strategy.lightning_module_state_dict())
        return {**weights, "optimizer": run.strategy.optimizer_state(run.optimizers[0])}

    sets = {"val": [f"{folder}/dev.csv"]}
    whole = run(6)
    whole.fit(module(), data(folder, **sets))
    again = run(6)
    again.fit(module(), data(folder, **sets), ckpt_path=f"{folder}/{distributed.world_size()}/step=3.ckpt")
    return {"whole": state(whole), "resumed": state(again), "scores": dict(whole.callback_metrics)}


@pytest.mark.slow
def test_checkpoints_resume_exactly_and_load_without_processes(folder: str) -> None:
    expected = interrupted(folder)
    found, other = run_processes(interrupted, 2, folder)
    assert_same(found["whole"], found["resumed"])
    weights = {key: value for key, value in expected["whole"].items() if isinstance(value, Tensor)}
    assert_same_weights({key: found["whole"][key] for key in weights}, weights, "whole")
    for name, score in expected["scores"].items():
        if name.startswith("val/"):
            assert found["scores"][name] == other["scores"][name] == pytest.approx(float(score), abs=1e-2), name
    for path in Path(folder, "2").glob("*.ckpt"):
        one = torch.load(path, weights_only=True)
        plain = torch.load(f"{folder}/1/{path.name}", weights_only=True)
        assert one.keys() >= plain.keys()
        SentRepModule.load_from_checkpoint(path)
    sentences = toy_sentences(5)
    torch.testing.assert_close(
        SentenceEncoder.from_pretrained(f"{folder}/2/step=6.ckpt").encode(sentences, convert_to_tensor=True),
        SentenceEncoder.from_pretrained(f"{folder}/1/step=6.ckpt").encode(sentences, convert_to_tensor=True),
        rtol=0, atol=1e-4,
    )  # fmt: skip
