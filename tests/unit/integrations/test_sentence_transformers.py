"""`ObjectiveLoss` in the trainer of sentence-transformers trains as `SentRepModule` does."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from torch import Tensor

from sentrep import Objective, SentenceEncoder, SentRepModule, TextBatch, negatives
from sentrep.encoder import ProjectionHead
from sentrep.errors import InputError
from sentrep.integrations.sentence_transformers import ObjectiveLoss
from sentrep.objectives import Contrastive, Denoising, MomentumContrast
from sentrep.weighting import ComplementaryWeighting
from support import Losses, loader, quiet_trainer, run_processes, tiny_encoder, toy_sentences

STEPS, BATCH = 6, 4

OBJECTIVES: dict[str, Callable[[str], dict[str, Objective | None]]] = {
    "simcse": lambda teacher: {"simcse": Contrastive()},
    "dclr": lambda teacher: {
        "dclr": Contrastive(
            negatives={"noise": negatives.RefinedNoiseNegatives()}, weighting=ComplementaryWeighting(teacher, 0.9999)
        )
    },
    "gs-infonce": lambda teacher: {"gs": Contrastive(negatives={"noise": negatives.GaussianNegatives()})},
    "memory bank": lambda teacher: {"bank": Contrastive(negatives={"bank": negatives.MemoryBank(11)})},
    "denosent": lambda teacher: {
        "intra": Denoising(layers=2, heads=2, feed_forward=48, dropout=0.0),
        "inter": Contrastive(),
    },
}


@pytest.fixture
def folder(tmp_path: Path) -> str:
    place = tmp_path / "model"
    tiny_encoder(pooling="mean", dropout=0.0).save_pretrained(place)
    return str(place)


class Recording(SentenceTransformerTrainer):
    """Keeps the batches and the losses of training."""

    batches: list[TextBatch]
    losses: list[float]

    def compute_loss(self, *arguments: Any, **options: Any) -> Any:
        loss = super().compute_loss(*arguments, **options)
        self.losses.append(float(loss.detach()))
        return loss

    def collect_features(self, inputs: Any) -> Any:
        found = super().collect_features(inputs)
        self.batches.append(self.loss._batch(found[0]))
        return found


def trainer_of(loss: ObjectiveLoss, model: SentenceTransformer, output: Path, **settings: Any) -> Recording:
    """A trainer over pairs of toy sentences."""
    settings = {"max_steps": STEPS, "save_strategy": "no", **settings}
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(output), per_device_train_batch_size=BATCH, learning_rate=1e-3, lr_scheduler_type="constant",
        weight_decay=0.0, max_grad_norm=0.0, report_to="none", use_cpu=True, disable_tqdm=True, seed=3,
        logging_strategy="no", **settings,
    )  # fmt: skip
    sentences = toy_sentences(8 * STEPS * BATCH)
    pairs = Dataset.from_dict({"anchor": sentences[::2], "positive": sentences[1::2]})
    trainer = Recording(model=model, args=arguments, train_dataset=pairs, loss=loss, callbacks=[loss.callback])
    trainer.batches, trainer.losses = [], []
    return trainer


@pytest.mark.parametrize("kind", OBJECTIVES)
def test_the_losses_of_six_steps_are_those_of_the_module(kind: str, folder: str, tmp_path: Path) -> None:
    def head() -> ProjectionHead | None:
        return ProjectionHead("mlp") if kind == "simcse" else None

    model = SentenceTransformer(folder, device="cpu")
    torch.manual_seed(2)
    loss = ObjectiveLoss(model, OBJECTIVES[kind](folder), head=head())
    trainer = trainer_of(loss, model, tmp_path / "run")
    trainer.train()

    encoder = SentenceEncoder.from_pretrained(folder, max_length=model.max_seq_length)
    torch.manual_seed(2)
    adam = functools.partial(torch.optim.AdamW, lr=1e-3, weight_decay=0.0)
    module = SentRepModule(encoder, OBJECTIVES[kind](folder), head=head(), scheduler="constant", optimizer=adam)
    seen = Losses()
    quiet_trainer(max_steps=STEPS, callbacks=[seen]).fit(module, loader(trainer.batches))
    assert len(trainer.losses) == STEPS
    assert min(trainer.losses) > 0.01
    assert trainer.losses == pytest.approx(seen.found, rel=1e-5)
    sentences = toy_sentences(5)
    trained: Any = encoder.encode(sentences)
    assert model.encode(sentences) == pytest.approx(trained, abs=1e-5)


def test_a_resumed_training_goes_on_as_if_it_had_not_ended(folder: str, tmp_path: Path) -> None:
    """Memory, copy, head, decoder and the optimiser's steps come back from the trainer's checkpoint."""

    def objectives() -> dict[str, Objective | None]:
        return {**OBJECTIVES["denosent"](folder), **OBJECTIVES["memory bank"](folder), "moco": MomentumContrast(size=9)}

    def trained(name: str, **settings: Any) -> tuple[list[float], Tensor]:
        model = SentenceTransformer(folder, device="cpu")
        torch.manual_seed(2)
        loss = ObjectiveLoss(model, objectives(), head=ProjectionHead("linear"))
        resumes = settings.pop("resumes", None)
        trainer = trainer_of(loss, model, tmp_path / name, **settings)
        trainer.train(resume_from_checkpoint=resumes)
        vectors: Any = model.encode(toy_sentences(5), convert_to_tensor=True)
        return trainer.losses, vectors

    whole, expected = trained("whole")
    trained("cut", max_steps=4, save_strategy="steps", save_steps=4)
    losses, vectors = trained("cut", resumes=str(tmp_path / "cut" / "checkpoint-4"))
    assert losses == whole[4:]
    assert torch.equal(vectors, expected)


def gradients(rank_rows: list[list[str]], folder: str) -> list[Tensor]:
    """The gradients of one step on this process's rows."""
    from sentrep import distributed

    model = SentenceTransformer(folder, device="cpu")
    torch.manual_seed(2)
    loss = ObjectiveLoss(model, {"simcse": Contrastive()}, head=ProjectionHead("mlp"))
    loss.callback.on_train_begin(None, SimpleNamespace(global_step=0), None)
    rows = rank_rows[distributed.rank()] if distributed.world_size() > 1 else [*rank_rows[0], *rank_rows[1]]
    features = [model.preprocess(rows), model.preprocess([row[::-1] for row in rows])]
    sum(loss(features, None).values()).backward()  # type: ignore[union-attr]
    return [p.grad for p in loss.parameters() if p.grad is not None]


def test_gradients_of_two_processes_are_those_of_the_global_batch(folder: str) -> None:
    sentences = toy_sentences(8)
    parts = [sentences[:4], sentences[4:]]
    expected = gradients(parts, folder)
    assert any(x.abs().max() > 1e-3 for x in expected)
    for found in run_processes(gradients, 2, parts, folder):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("columns", "labels", "says"),
    [(4, None, "has 4 text columns"), (2, torch.ones(2), "has labels"), (1, None, "callbacks=")],
)
def test_wrong_use_is_one_sentence(columns: int, labels: Tensor | None, says: str, folder: str) -> None:
    model = SentenceTransformer(folder, device="cpu").train()
    loss = ObjectiveLoss(model, [Contrastive()])
    features = [model.preprocess(toy_sentences(2))] * columns
    with pytest.raises(InputError, match=says):
        loss(features, labels)


def test_padding_at_the_left_is_moved(folder: str) -> None:
    model = SentenceTransformer(folder, device="cpu")
    loss = ObjectiveLoss(model, [Contrastive()])
    sentences = toy_sentences(6)
    right = loss._batch([model.preprocess(sentences)]).anchor
    model.tokenizer.padding_side = "left"
    left = loss._batch([model.preprocess(sentences)]).anchor
    assert torch.equal(left.attention_mask, right.attention_mask)
    assert torch.equal(left.input_ids * left.attention_mask, right.input_ids * right.attention_mask)
