"""Gradient caching: the loss and gradient of the whole batch with the activations of a few rows at a time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import torch
from plugins import SMALL, VIEWS, behind, objectives
from samplers import DRAWN, KINDS
from torch import Tensor, nn

from sentrep import Objective, SentRepModule, negatives
from sentrep.encoder.compute import recompute
from sentrep.objectives import Alignment, Contrastive, Denoising, MaskedLanguageModeling, Uniformity, denoising
from sentrep.stability import SAM
from sentrep.views import ViewMaker
from sentrep.weighting import ComplementaryWeighting
from support import (
    assert_equal_to_one_process,
    loss_and_gradients,
    quiet_trainer,
    run_processes,
    text_batch,
    tiny_encoder,
    toy_data,
    toy_sentences,
)

SENTENCES = toy_sentences(36)
ANCHORS, POSITIVES, NEGATIVES = SENTENCES[:12], SENTENCES[12:24], SENTENCES[24:]


def chunks(names: Iterable[str]) -> list[Any]:
    """Rows at a time, for each name: a part of the batch; for the first name also one row, and more than the batch."""
    first, *_ = names
    ends = [pytest.param(first, rows, marks=pytest.mark.slow) for rows in (1, 32)]
    return [*((name, 7) for name in names), *ends]


THROUGH = ("contrastive, mixed", "contrastive, through the statistics", "contrastive, through the covariance")
OBJECTIVES = [name for name in objectives("") if name in THROUGH or name.removeprefix("contrastive, ") not in KINDS]
"""Without the samplers that no gradient flows through: they see the vectors of the whole batch alone."""
Result = tuple[Tensor, dict[str, Tensor]]


def result(
    made: dict[str, Objective],
    views: ViewMaker | None = None,
    chunk: int | None = None,
    dropout: float = 0.0,
    given: bool = True,
    name: str = "",
) -> Result:
    """Loss and gradients of one step."""
    encoder = tiny_encoder(dropout=dropout, pooling="mean", rows_at_once=chunk, modules=behind(name))
    module = SentRepModule(encoder, made, views=views)
    batch = text_batch(encoder, ANCHORS, *([POSITIVES, NEGATIVES] if given else []))
    torch.manual_seed(5)
    return loss_and_gradients(module, batch)


def assert_close(found: Result, expected: Result, atol: float) -> None:
    assert_equal_to_one_process([found], *expected, atol)


@pytest.mark.parametrize(("name", "chunk"), chunks(OBJECTIVES))
def test_every_objective_has_the_loss_and_gradient_of_the_plain_pass(name: str, teacher: str, chunk: int) -> None:
    expected, found = (result({"term": objectives(teacher)[name]()}, chunk=rows, name=name) for rows in (None, chunk))
    assert expected[1]
    # a teacher computes in float32, whose rounding depends on how many rows come together
    assert_close(found, expected, 1e-6 if name.startswith("distillation") else 1e-10)


@pytest.mark.parametrize(("name", "chunk"), chunks(VIEWS))
def test_every_kind_of_view_has_the_loss_and_gradient_of_the_plain_pass(name: str, chunk: int) -> None:
    results = []
    for rows in (chunk, None):
        made: dict[str, Objective] = {"contrastive": Contrastive(), "alignment": Alignment()}
        if name == "extra inputs only":
            made = {"mlm": MaskedLanguageModeling()}
        results.append(result(made, VIEWS[name](), rows, given="output" not in name))
    assert_close(*results, 1e-10)


def keep_activations(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same groups of rows, in the same order, with every activation kept."""

    def summed(function: Any, rows: list[Tensor], parameters: list[Tensor], *, chunk: int) -> tuple[Tensor, Tensor]:
        groups = zip(*(tensor.split(chunk) for tensor in rows), strict=True)
        values, counts = zip(*(function(*group) for group in groups), strict=True)
        return torch.stack(values).sum(), torch.stack(counts).sum()

    monkeypatch.setattr(recompute, "checkpoint", lambda run, *arguments, use_reentrant: run(*arguments))
    monkeypatch.setattr(denoising, "sum_in_chunks", summed)


def everything(teacher: str) -> dict[str, Objective]:
    return {
        "contrastive": Contrastive(
            negatives={"noise": negatives.RefinedNoiseNegatives(), "gaussian": negatives.GaussianNegatives()},
            weighting=ComplementaryWeighting(teacher, 0.5),
        ),
        "denoising": Denoising(**SMALL),
        "mlm": MaskedLanguageModeling(),
    }


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize(("name", "chunk"), chunks(["encoded", "fgsm"]))
def test_dropout_is_replayed_exactly(
    teacher: str, name: str, chunk: int, fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against groups whose activations are kept: other masks in the second forward pass would be seen."""

    def step() -> Result:
        encoder = tiny_encoder(dropout=0.3, pooling="mean", cheap_dropout=fast, rows_at_once=chunk)
        module = SentRepModule(encoder, everything(teacher), views=VIEWS[name]())
        torch.manual_seed(5)
        return loss_and_gradients(module, text_batch(encoder, ANCHORS, POSITIVES))

    cached = step()
    keep_activations(monkeypatch)
    expected = step()
    assert_close(cached, expected, 1e-12)
    torch.testing.assert_close(cached[0], expected[0], rtol=0, atol=0)


def test_bf16_stays_within_its_rounding(teacher: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward bit for bit; gradients of groups are added up in another order, in 8 bits of mantissa."""

    def step() -> Result:
        encoder = tiny_encoder(dropout=0.1, pooling="mean", rows_at_once=7)
        module = SentRepModule(encoder, everything(teacher))
        batch = text_batch(encoder, ANCHORS, POSITIVES)
        torch.manual_seed(5)
        with torch.autocast("cpu", torch.bfloat16):
            views = module.views_of(batch)
            loss, _ = module.objectives(views, batch)
        loss.backward()
        return loss.detach(), {name: p.grad for name, p in module.named_parameters() if p.grad is not None}

    loss, gradients = step()
    keep_activations(monkeypatch)
    expected, others = step()
    assert torch.equal(loss, expected)
    for name, gradient in gradients.items():
        largest = max(float(others[name].abs().max()), 1e-3)
        torch.testing.assert_close(gradient, others[name], rtol=0, atol=2**-6 * largest, msg=name)


def on_each_process(teacher: str, chunk: int | None) -> Result:
    """With every sampler that draws from the first step on."""
    encoder = tiny_encoder(dropout=0.0, pooling="mean", rows_at_once=chunk)
    made: dict[str, Objective] = {
        "contrastive": Contrastive(
            negatives={kind: getattr(negatives, KINDS[kind][0])(**KINDS[kind][1]) for kind in DRAWN},
            weighting=ComplementaryWeighting(teacher, 0.5),
        ),
        "denoising": Denoising(**SMALL, dropout=0.0, noise=0.0),
        "uniformity": Uniformity(),
    }
    module = SentRepModule(encoder, made)
    return loss_and_gradients(module, text_batch(encoder, ANCHORS, POSITIVES, NEGATIVES))


@pytest.mark.slow
def test_two_processes_equal_one_plain_one(teacher: str) -> None:
    shares = run_processes(on_each_process, 2, teacher, 5)
    assert_equal_to_one_process(shares, *on_each_process(teacher, None))


def saved_bytes(chunk: int | None, rows: int) -> int:
    """What the graph of one loss holds for the backward pass."""
    encoder = tiny_encoder(dropout=0.1, rows_at_once=chunk)
    module = SentRepModule(encoder, {"contrastive": Contrastive()})
    batch = text_batch(encoder, toy_sentences(rows))
    seen: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        if not isinstance(tensor, nn.Parameter):
            seen[tensor.data_ptr()] = tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        module.objectives(module.views_of(batch), batch)
    return sum(seen.values())


def test_memory_does_not_grow_with_the_tokens_of_the_batch() -> None:
    plain, cached = (saved_bytes(chunk, 64) for chunk in (None, 8))
    assert cached < plain / 20


def test_each_group_runs_once_and_once_more_and_a_frozen_model_once(teacher: str) -> None:
    weighting = ComplementaryWeighting(teacher, 0.5)
    encoder = tiny_encoder(dropout=0.1, layout="padded", rows_at_once=5)
    module = SentRepModule(encoder, {"term": Contrastive(weighting=weighting)})
    seen: list[list[int]] = []
    for model in (encoder, weighting.complementary.load()):
        rows: list[int] = []
        count = lambda module, _, words, rows=rows: rows.append(len(words["input_ids"]))  # noqa: E731
        model.backbone.embeddings.register_forward_pre_hook(count, with_kwargs=True)
        seen.append(rows)
    loss_and_gradients(module, text_batch(encoder, ANCHORS, POSITIVES))
    assert seen[0] == [5, 5, 5, 5, 4, 4, 5, 5, 5, 5]
    assert len(seen[1]) == sum(-(-len(part) // 5) for part in (ANCHORS, POSITIVES))


@pytest.mark.parametrize("sam", [False, True])
def test_training_ends_at_the_same_weights(sam: bool) -> None:
    """After three steps, of two micro-batches each but for the last."""

    def optimizer(parameters: Any) -> torch.optim.Optimizer:
        base = lambda groups: torch.optim.SGD(groups, lr=0.1)  # noqa: E731
        return SAM(parameters, base) if sam else base(parameters)

    ends = []
    for chunk in (None, 5):
        encoder = tiny_encoder(dropout=0.0, pooling="mean", rows_at_once=chunk)
        module = SentRepModule(encoder, [Contrastive(), Denoising(**SMALL, dropout=0.0)], optimizer=optimizer)
        quiet_trainer(max_steps=3, accumulate_grad_batches=2, gradient_clip_val=1.0).fit(module, toy_data(8))
        ends.append(dict(module.named_parameters()))
    torch.testing.assert_close(*ends, rtol=0, atol=1e-5)
