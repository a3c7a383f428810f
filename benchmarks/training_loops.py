"""The training loops that are compared: sentrep's, sentence-transformers' and a plain one. See train_throughput.py."""

from __future__ import annotations

import functools
import itertools
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import inputs
import machine
from harness import (
    CACHED,
    COMPILED,
    GRAPHS,
    HAND,
    HAND_COMPILED,
    OURS,
    PADDED,
    PEER,
    PLAIN,
    PROCESSOR,
    SLOW,
    Job,
)

_OFF: dict[str, Any] = {"layout": "padded", "cheap_dropout": False}
COMPUTE: dict[str, dict[str, Any]] = {
    OURS: {},
    PADDED: {"layout": "padded"},
    CACHED: {"rows_at_once": 32},
    COMPILED: {"compile": True},
    GRAPHS: {"compile": "reduce-overhead"},
    SLOW: _OFF,
    **{f"sentrep, {name} alone": {key: value for key, value in _OFF.items() if key != name} for name in _OFF},
}
"""The fields of `sentrep.encoder.Compute` in each variant of sentrep; ``PADDED`` is the one without its layout."""
TEMPERATURE = 0.05
LEARNING_RATE = 3e-5
SIX = ("simcse", "mlm", "denoising", "distillation", "momentum", "tension")
"""Objectives of one step that share its encoder pass, see objective_costs.py."""


class Clock:
    """Times optimiser steps behind the first ``warmup`` ones, in four parts or more.

    The rate is the median part's: a step that compiles code for a new shape counts in one part only.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.warmup, self.last = job.settings["warmup"], job.settings["warmup"] + job.settings["steps"]
        self.part = max(1, job.settings["steps"] // 4)
        self.step = 0
        self.times: list[tuple[float, float]] = []
        """Of the clock and the processor, at the ends of the parts."""

    def tick(self) -> None:
        """An optimiser step is done."""
        self.step += 1
        if self.step >= self.warmup and (self.step - self.warmup) % self.part == 0:
            self.times.append((machine.now(self.job.device), time.process_time()))

    def report(self, first_loss: float, before: float) -> dict[str, Any]:
        """What a measurement tells."""
        sentences = self.part * self.job.setting["batch"]
        parts = [(b[0] - a[0], b[1] - a[1]) for a, b in itertools.pairwise(self.times)]
        elapsed, processor = (median(part) for part in zip(*parts, strict=True))
        return {
            "sentences_per_second": sentences / elapsed, "first_loss": first_loss,
            "before_memory_mib": before, "more": {PROCESSOR: 1000 * processor / sentences},
        }  # fmt: skip


def objectives(name: str, folder: str) -> dict[str, Any]:
    """The terms of a step by its name; a complementary model or a teacher is the model itself.

    ``gs``, ``dclr`` and ``denosent`` are the recipes of the papers; ``six`` has the terms of `SIX`, and ``a+b`` two.
    """
    from sentrep import negatives, objectives, weighting

    def contrastive(**arguments: Any) -> Any:
        return objectives.Contrastive(TEMPERATURE, **arguments)

    def sampled(sampler: Any) -> Any:
        return contrastive(negatives={"extra": sampler})

    complementary = weighting.ComplementaryWeighting(folder, threshold=0.9)
    make: dict[str, Callable[[], Any]] = {
        "simcse": contrastive,
        "gs": lambda: sampled(negatives.GaussianNegatives(ratio=3.0)),
        "dclr": lambda: contrastive(
            negatives={"noise": negatives.RefinedNoiseNegatives(ratio=1.0, steps=4)}, weighting=complementary
        ),
        "memory bank": lambda: sampled(negatives.MemoryBank(size=1024)),
        "mixture": lambda: sampled(negatives.GaussianMixtureNegatives()),
        "vae": lambda: sampled(negatives.VAENegatives()),
        "alignment": objectives.Alignment,
        "uniformity": objectives.Uniformity,
        "binary": objectives.BinaryContrastive,
        "ranking": lambda: objectives.RankingConsistency(own=False),
        "triplet": objectives.MaskedTriplet,
        "layers": lambda: objectives.LayerContrast(0.1),
        "distillation": lambda: objectives.Distillation(folder, own=False),
        "momentum": objectives.MomentumContrast,
        "tension": objectives.ContrastiveTension,
        "mlm": objectives.MaskedLanguageModeling,
        "replaced tokens": objectives.ReplacedTokenDetection,
        "phrases": objectives.PhraseReconstruction,
        "information": lambda: objectives.InformationReconstruction(layers=2, heads=8),
        "denoising": lambda: objectives.Denoising(layers=2),
        "denoising, 16 layers": objectives.Denoising,
    }
    if name == "denosent":
        return {"contrastive": objectives.Contrastive(0.03), "denoising": objectives.Denoising()}
    return {part: make[part]() for part in (SIX if name == "six" else name.split("+"))}


def measure_ours(job: Job) -> dict[str, Any]:
    """sentrep: `SentRepModule` under Lightning's Trainer."""
    import datasets
    import torch
    from lightning.pytorch import Callback, Trainer

    from sentrep import SentenceEncoder, SentRepDataModule, SentRepModule
    from sentrep.encoder import Compute

    limit = job.settings["max_length"]
    encoder = SentenceEncoder(job.folder, pooling="cls", max_length=limit, compute=Compute(**COMPUTE[job.variant]))
    inputs.check_weights(encoder)
    adamw = functools.partial(torch.optim.AdamW, lr=LEARNING_RATE, weight_decay=0.0, fused=True)  # the peer's default
    terms = objectives(job.setting["objective"], job.folder)
    module = SentRepModule(encoder, terms, optimizer=adamw, seed=0)
    datasets.config.HF_DATASETS_CACHE = f"{job.corpus}.cache"
    data = SentRepDataModule(job.corpus, batch_size=job.setting["batch"], seed=0)
    data.connect(encoder)
    data.setup("fit")
    module.to(job.device)
    batch = module.transfer_batch_to_device(next(iter(data.train_dataloader())), torch.device(job.device), 0)
    with torch.no_grad():
        module.eval()
        torch.manual_seed(0)  # DenoSent's noise is drawn here too
        first_loss = module.objectives(module.views_of(batch), batch)[0]
        module.train()

    clock = Clock(job)

    class Ticking(Callback):
        def on_train_batch_end(self, *_: Any) -> None:
            clock.tick()

    trainer = Trainer(
        accelerator=job.device,
        devices=1,
        precision="bf16-mixed" if job.setting["precision"] == "bf16" else "32-true",
        max_steps=clock.last,
        callbacks=[Ticking()],
        logger=False,
        log_every_n_steps=10,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
    )
    before = machine.used_mib(job.device)
    trainer.fit(module, data)
    return clock.report(first_loss.item(), before)


def in_order(job: Job) -> list[str]:
    """The sentences of a corpus in the order in which sentrep takes them."""
    from sentrep.data import GlobalBatchSampler

    sentences = Path(job.corpus).read_text(encoding="utf-8").splitlines()
    return [sentences[row] for rows in GlobalBatchSampler(len(sentences), job.setting["batch"], seed=0) for row in rows]


def measure_peer(job: Job) -> dict[str, Any]:
    """sentence-transformers: `MultipleNegativesRankingLoss` over two equal columns, its recipe for SimCSE."""
    import torch
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from sentence_transformers.util import batch_to_device
    from torch.utils.data import BatchSampler, SequentialSampler
    from transformers import TrainerCallback

    model = inputs.load_peer(job.folder, "cls", job.settings["max_length"], job.device)
    inputs.check_weights(model)
    loss = MultipleNegativesRankingLoss(model, scale=1 / TEMPERATURE)
    ordered, size = in_order(job), job.setting["batch"]
    with torch.no_grad():
        model.eval()
        features = [batch_to_device(model.preprocess(ordered[:size]), job.device) for _ in range(2)]
        first_loss = loss(features, None).item()
        model.train()

    clock = Clock(job)

    class Ticking(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            clock.tick()

    with tempfile.TemporaryDirectory() as folder:
        training = SentenceTransformerTrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=size,
            max_steps=clock.last,
            learning_rate=LEARNING_RATE,
            max_grad_norm=0.0,
            bf16=job.setting["precision"] == "bf16",
            use_cpu=job.device == "cpu",
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
        before = machine.used_mib(job.device)
        trainer.train()
    return clock.report(first_loss, before)


def measure_plain(job: Job) -> dict[str, Any]:
    """A loop of a page, as SimCSE's repository does it: tokenised before, both views in one padded pass."""
    model, tokenizer = inputs.load_plain(job.folder, job.device)

    def collate(rows: list[list[int]]) -> dict[str, Any]:
        return dict(tokenizer.pad({"input_ids": rows}, return_tensors="pt"))

    batches = doubled_batches(job, token_ids(job, tokenizer), collate)
    return _loop(job, model, batches, lambda batch: simcse_loss(model, batch))


def measure_by_hand(job: Job) -> dict[str, Any]:
    """The best loop for BERT alone: hand_loop.py."""
    import torch
    from hand_loop import PackedBert, pack

    model, tokenizer = inputs.load_plain(job.folder, job.device)
    best = PackedBert(model)
    ids, size = token_ids(job, tokenizer), job.setting["batch"]
    width = max(64 if job.device == "cpu" else 128, job.settings["max_length"])
    longest = max(sum(map(len, ids[start : start + size])) for start in range(0, len(ids) - size + 1, size))
    rows = -(-2 * longest // width) + max(2, size // 32)  # best fit fills 97 % and more
    batches = doubled_batches(job, ids, functools.partial(pack, rows=rows, width=width))

    def loss_of(batch: dict[str, Any]) -> Any:
        return simcse_loss(best, batch)

    if job.variant == HAND:
        return _loop(job, best, batches, loss_of)
    return _loop(job, best, batches, loss_of, torch.compile(loss_of, dynamic=False))


def _loop(
    job: Job,
    model: Any,
    batches: Iterator[Any],
    loss_of: Callable[[Any], Any],
    compiled: Callable[[Any], Any] | None = None,
) -> dict[str, Any]:
    """Train in the plainest way; ``compiled`` computes the same loss in the steps."""
    import torch
    from transformers import get_scheduler

    inputs.check_weights(model)
    first = next(batches)
    with torch.no_grad():
        model.eval()
        first_loss = loss_of(first).item()
        model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.0, fused=True)
    clock = Clock(job)
    schedule = get_scheduler("linear", optimizer, num_warmup_steps=0, num_training_steps=clock.last)
    before = machine.used_mib(job.device)
    for batch in itertools.islice(itertools.chain([first], batches), clock.last):
        with machine.autocast(job.device, job.setting["precision"]):
            loss = (compiled or loss_of)(batch)
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        clock.tick()
    return clock.report(first_loss, before)


def token_ids(job: Job, tokenizer: Any) -> list[list[int]]:
    """The ids of every sentence, in the order of training."""
    found: list[list[int]] = tokenizer(in_order(job), truncation=True, max_length=job.settings["max_length"])[
        "input_ids"
    ]
    return found


def doubled_batches(job: Job, ids: list[list[int]], collate: Callable[[list[list[int]]], Any]) -> Iterator[Any]:
    """Batches of ``ids`` as ``collate`` makes them, every sentence twice in a row."""
    from torch.utils.data import DataLoader

    loader: Any = DataLoader(
        ids,  # type: ignore[arg-type]
        batch_size=job.setting["batch"],
        collate_fn=lambda rows: collate([row for row in rows for _ in range(2)]),
        pin_memory=job.device == "cuda",
        drop_last=True,
    )
    for batch in loader:
        yield {key: value.to(job.device, non_blocking=True) for key, value in batch.items()}


def simcse_loss(model: Any, batch: dict[str, Any]) -> Any:
    """InfoNCE of the CLS vectors of both passes (Gao et al. 2021, eq. 4)."""
    import torch
    import torch.nn.functional as F

    found = model(**batch)
    vectors = found if torch.is_tensor(found) else found.last_hidden_state[:, 0]
    first, second = F.normalize(vectors.view(-1, 2, vectors.shape[-1]).float(), dim=-1).unbind(1)
    return F.cross_entropy(first @ second.T / TEMPERATURE, torch.arange(len(first), device=first.device))


def measure(job: Job) -> dict[str, Any]:
    """One variant."""
    import torch

    torch.compiler.reset()  # programs of an earlier variant count against the limit of a function's
    others = {PEER: measure_peer, PLAIN: measure_plain, HAND: measure_by_hand, HAND_COMPILED: measure_by_hand}
    return others.get(job.variant, measure_ours)(job)
