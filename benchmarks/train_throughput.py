"""Training speed and memory of sentrep beside sentence-transformers, on unsupervised SimCSE.

    python benchmarks/train_throughput.py --model-folder BERT_MINI MINILM --corpus wiki1m.txt.xz

Both train the same weights (CLS pooling, no head, dropout as in the model) on the same batches in the same order, with
the same loss (InfoNCE of cosine, τ = 0.05), AdamW at 3e-5 falling linearly, no clipping, through their own trainers:
`SentRepModule` under Lightning's Trainer, and sentence-transformers' recipe for SimCSE, `MultipleNegativesRankingLoss`
over two equal columns under `SentenceTransformerTrainer`. Before training, with dropout off, both compute the loss of
the first batch, and the benchmark stops when the two differ. Loading and collating count, the first steps do not.

"one padded pass" is sentrep without its length-sorted chunks (``encoder.chunks=1``), "fast dropout" is sentrep with
``encoder.fast_dropout=True``.
"""

from __future__ import annotations

import functools
import logging
import tempfile
import time
from pathlib import Path
from typing import Any

import harness
from harness import PEER, Job

OURS, FAST, PLAIN = "sentrep", "sentrep, fast dropout", "sentrep, one padded pass"
TEMPERATURE = 0.05
LEARNING_RATE = 3e-5


class Clock:
    """Times optimiser steps behind the first ``warmup`` ones."""

    def __init__(self, warmup: int) -> None:
        self.warmup = warmup
        self.step, self.start, self.end = 0, 0.0, 0.0

    def tick(self) -> None:
        """An optimiser step is done."""
        self.step += 1
        self.end = time.perf_counter()
        if self.step == self.warmup:
            self.start = self.end

    def report(self, job: Job, first_loss: float, before: float) -> dict[str, Any]:
        """What the process tells."""
        rate = (self.step - self.warmup) * job.batch_size / (self.end - self.start)
        return {"sentences_per_second": rate, "first_loss": first_loss, "before_memory_mib": before, "steps": self.step}


def measure_ours(job: Job) -> dict[str, Any]:
    """sentrep."""
    import torch
    from lightning.pytorch import Callback, Trainer

    from sentrep import SentenceEncoder, SentRepDataModule, SentRepModule
    from sentrep.objectives import Contrastive

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    encoder = SentenceEncoder(
        job.model_folder,
        pooling="cls",
        max_length=job.max_length or 32,
        chunks=1 if job.variant == PLAIN else None,
        fast_dropout=job.variant == FAST,
    )
    harness.weights_dtype(encoder)
    adamw = functools.partial(torch.optim.AdamW, lr=LEARNING_RATE, weight_decay=0.0, fused=True)  # the peer's default
    module = SentRepModule(encoder, {"simcse": Contrastive(TEMPERATURE)}, optimizer=adamw, seed=0)
    data = SentRepDataModule(job.corpus, batch_size=job.batch_size, seed=0, cache_dir=f"{job.corpus}.cache")
    data.connect(encoder.tokenize, encoder.max_length)
    data.setup("fit")
    batch = next(iter(data.train_dataloader()))
    with torch.no_grad():
        module.eval()
        first_loss = module.objectives(module.views(encoder, batch, {}), batch)[0].item()
        module.train()

    clock = Clock(job.settings["warmup"])

    class Ticking(Callback):
        def on_train_batch_end(self, *_: Any) -> None:
            clock.tick()

    trainer = Trainer(
        accelerator="cpu",
        precision="bf16-mixed" if job.precision == "bf16" else "32-true",
        max_steps=clock.warmup + job.settings["steps"],
        callbacks=[Ticking()],
        logger=False,
        log_every_n_steps=10,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
    )
    before = harness.memory_mib()
    trainer.fit(module, data)
    return clock.report(job, first_loss, before)


def measure_peer(job: Job) -> dict[str, Any]:
    """sentence-transformers."""
    import torch
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from torch.utils.data import BatchSampler, SequentialSampler
    from transformers import TrainerCallback

    from sentrep.data import GlobalBatchSampler

    model = harness.load_peer(job.model_folder, "cls", job.max_length)
    harness.weights_dtype(model)
    loss = MultipleNegativesRankingLoss(model, scale=1 / TEMPERATURE)
    sentences = Path(job.corpus).read_text(encoding="utf-8").splitlines()
    ours = GlobalBatchSampler(len(sentences), job.batch_size, seed=0)  # the order in which sentrep takes them
    ordered = [sentences[row] for rows in ours for row in rows]
    with torch.no_grad():
        model.eval()
        features = [model.preprocess(ordered[: job.batch_size]) for _ in range(2)]
        first_loss = loss(features, None).item()
        model.train()

    clock = Clock(job.settings["warmup"])

    class Ticking(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            clock.tick()

    with tempfile.TemporaryDirectory() as folder:
        training = SentenceTransformerTrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=job.batch_size,
            max_steps=clock.warmup + job.settings["steps"],
            learning_rate=LEARNING_RATE,
            max_grad_norm=0.0,
            bf16=job.precision == "bf16",
            use_cpu=True,
            batch_sampler=lambda data, batch_size, **_: BatchSampler(
                SequentialSampler(data), batch_size, drop_last=True
            ),
            logging_steps=10,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
        )
        columns = Dataset.from_dict({"anchor": ordered, "positive": ordered})
        trainer = SentenceTransformerTrainer(model, training, columns, loss=loss, callbacks=[Ticking()])
        before = harness.memory_mib()
        trainer.train()
    return clock.report(job, first_loss, before)


def measure(job: Job) -> dict[str, Any]:
    """One variant."""
    return measure_peer(job) if job.variant == PEER else measure_ours(job)


def main() -> None:
    """Measure and report."""
    options = harness.arguments("Training speed beside sentence-transformers.", steps=20, warmup=3, max_length=32)
    about = harness.environment(options)
    count = (options.warmup + options.steps) * options.batch_size
    with tempfile.TemporaryDirectory() as folder:
        corpus = harness.write_sentences(options.corpus, count, Path(folder) / "sentences.txt")
        rows, measurements = harness.run_jobs(options, corpus, [PEER, OURS, FAST, PLAIN], options.max_length)
    for folder in {item["model_folder"] for item in measurements}:
        losses = {item["variant"]: item["first_loss"] for item in measurements if item["model_folder"] == folder}
        if max(losses.values()) - min(losses.values()) > 1e-4:
            raise SystemExit(f"{folder}: the variants do not compute the same loss on the first batch: {losses}")
    harness.report(rows, about, options, measurements=measurements)


if __name__ == "__main__" and not harness.worker(measure):
    main()
