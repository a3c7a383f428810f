"""A GPU computes what the CPU computes; run by ``python benchmarks/gpu.py``, and skipped on a machine without a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import fake_cuda
import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor

from contracts.test_every_plugin import NAMES, build
from contracts.test_grad_cache import ANCHORS, NEGATIVES, POSITIVES
from sentrep import SentRepModule, TextBatch
from sentrep.negatives import GaussianNegatives
from sentrep.objectives import Contrastive
from support import loss_and_gradients, quiet_trainer, text_batch, tiny_encoder, toy_data

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
DEVICE = "cuda"


@contextmanager
def drawn_on_the_cpu() -> Iterator[None]:
    """Random numbers of any device are the CPU's, for the same seeds; the largest values come sorted."""
    twins: dict[torch.Generator, torch.Generator] = {}

    def on_cpu(draw: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def drawn(*arguments: Any, device: Any = None, generator: Any = None, **options: Any) -> Tensor:
            if generator is not None:
                twin = torch.Generator().manual_seed(generator.initial_seed())
                options["generator"] = twins.setdefault(generator, twin)
            here = [x.cpu() if isinstance(x, Tensor) else x for x in arguments]
            near = next((x.device for x in arguments if isinstance(x, Tensor)), "cpu")
            return draw(*here, **options).to(device or near)

        return drawn

    def in_place(draw: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def drawn(x: Tensor, *arguments: Any, **options: Any) -> Tensor:
            return x.copy_(on_cpu(draw)(torch.empty_like(x, device="cpu"), *arguments, **options))

        return drawn

    def in_order(topk: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments, sorted=True, **options: topk(*arguments, **options)

    draws = ("rand", "randn", "randint", "randn_like", "randperm", "multinomial")
    patches = [(torch, name, on_cpu) for name in draws]
    patches += [(F, "dropout", on_cpu), (Tensor, "uniform_", in_place), (Tensor, "topk", in_order)]
    with ExitStack() as stack:
        for owner, name, patched in patches:
            stack.enter_context(patch.object(owner, name, patched(getattr(owner, name))))
        yield


def made(name: str, teacher: str, device: str) -> tuple[SentRepModule, TextBatch]:
    """One of `NAMES`, and its batch."""
    module, given = build(name, teacher)
    batch = text_batch(module.encoder, ANCHORS, *([POSITIVES, NEGATIVES] if given else []))
    return module.to(device), fake_cuda.on_cuda(batch, lambda x: x.to(device))


def assert_equal(found: tuple[Tensor, dict[str, Tensor]], expected: tuple[Tensor, dict[str, Tensor]]) -> None:
    """Loss and gradients, to 1e-5 of the largest gradient: a teacher computes in float32, all else in float64."""
    torch.testing.assert_close(found[0].cpu(), expected[0].cpu(), rtol=1e-5, atol=1e-7)
    assert found[1].keys() == expected[1].keys()
    largest = max(gradient.abs().max().item() for gradient in expected[1].values())
    for name, gradient in expected[1].items():
        torch.testing.assert_close(found[1][name].cpu(), gradient.cpu(), rtol=0, atol=1e-5 * largest, msg=name)


@pytest.mark.parametrize("name", NAMES)
def test_loss_and_gradients_are_the_cpus(name: str, teacher: str) -> None:
    results = []
    for device in (DEVICE, "cpu"):
        module, batch = made(name, teacher, device)
        torch.manual_seed(5)
        with drawn_on_the_cpu():
            results.append(loss_and_gradients(module, batch))
    assert_equal(*results)


@pytest.mark.parametrize("name", NAMES)
def test_a_step_in_bf16_has_nearly_the_loss_of_float32(name: str, teacher: str) -> None:
    losses = []
    for bf16 in (False, True):
        module, batch = made(name, teacher, DEVICE)
        torch.manual_seed(5)
        with drawn_on_the_cpu(), torch.autocast(DEVICE, torch.bfloat16, enabled=bf16):
            loss, _ = module.objectives(module.views_of(batch), batch)
        loss.backward()
        losses.append(loss.detach())
        assert all(p.grad.isfinite().all() for p in module.parameters() if p.grad is not None)
    torch.testing.assert_close(losses[1], losses[0], rtol=0.1, atol=0.1)


def test_a_compiled_step_is_the_eager_one() -> None:
    results = []
    for compiled in (True, False):
        module = SentRepModule(tiny_encoder(dropout=0.0, compile=compiled), [Contrastive()]).to(DEVICE)
        batch = fake_cuda.on_cuda(text_batch(module.encoder, ANCHORS), lambda x: x.to(DEVICE))
        results.append(loss_and_gradients(module, batch))
    assert_equal(*results)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("rows", [64, 512])
def test_compiled_vectors_and_losses_of_large_batches_are_the_eager_ones(rows: int, training: bool) -> None:
    texts = [f"{ANCHORS[number % len(ANCHORS)]} {number}" for number in range(rows)]
    eager, fast = (
        SentRepModule(tiny_encoder(dropout=0.0, compile=compiled), [Contrastive()]).float().to(DEVICE).train(training)
        for compiled in (False, True)
    )
    batch = fake_cuda.on_cuda(text_batch(eager.encoder, texts), lambda x: x.to(DEVICE))
    with torch.set_grad_enabled(training):
        views = eager.views_of(batch)
        torch.testing.assert_close(fast.views_of(batch).anchor, views.anchor, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(fast.objectives(views, batch)[0], eager.objectives(views, batch)[0])


def test_steps_in_cuda_graphs_are_the_eager_ones() -> None:
    """Two shapes in turns, gradients that are added up, and two passes that wait for one backward pass."""
    results = []
    for compile in ("reduce-overhead", False):
        module = SentRepModule(tiny_encoder(dropout=0.0, compile=compile), [Contrastive()]).double().to(DEVICE)
        long, short = (
            fake_cuda.on_cuda(text_batch(module.encoder, texts), lambda x: x.to(DEVICE))
            for texts in (ANCHORS * 16, ANCHORS[:4])
        )
        losses = []
        for step, batch in enumerate((long, short, long, long, short)):
            losses.append(module.compute_terms(batch, step).loss)
            losses[-1].backward()
        losses += [module.compute_terms(batch, 9).loss for batch in (short, long)]
        (losses[-1] + losses[-2]).backward()
        gradients = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
        results.append((torch.stack(losses).detach(), gradients))
    assert_equal(*results)


def test_cuda_graphs_draw_new_dropout_for_each_step_and_the_same_for_one_seed() -> None:
    module = SentRepModule(tiny_encoder(dropout=0.1, compile="reduce-overhead"), [Contrastive()], seed=1).to(DEVICE)
    batch = fake_cuda.on_cuda(text_batch(module.encoder, ANCHORS), lambda x: x.to(DEVICE))
    module.compute_terms(batch, 0).loss.backward()  # captures
    first, second, again = (module.compute_terms(batch, step).loss.detach() for step in (1, 2, 1))
    assert first != second
    torch.testing.assert_close(again, first, rtol=1e-6, atol=0)


def test_one_process_of_a_group_has_the_loss_of_none(teacher: str, tmp_path: Path) -> None:
    results = []
    for grouped in (True, False):
        if grouped:
            backend = "nccl" if DEVICE == "cuda" else "gloo"
            dist.init_process_group(backend, init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1)
        module, batch = made("contrastive", teacher, DEVICE)
        try:
            results.append(loss_and_gradients(module, batch))
        finally:
            if grouped:
                dist.destroy_process_group()
    assert_equal(*results)


def test_a_resumed_run_ends_where_an_uninterrupted_run_ends(tmp_path: Path) -> None:
    """Within 1e-4, because a GPU adds up in another order each time."""
    ends = []
    for start in (None, tmp_path / "step=2.ckpt"):
        module = SentRepModule(tiny_encoder(), [Contrastive(negatives={"noise": GaussianNegatives()})])
        saver = ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=2, save_top_k=-1)
        run = quiet_trainer(max_steps=4, accelerator=DEVICE, devices=1, precision="bf16-mixed", callbacks=[saver])
        run.fit(module, toy_data(), ckpt_path=start, weights_only=True if start else None)
        assert run.global_step == 4
        ends.append(module.cpu().state_dict())
    torch.testing.assert_close(ends[1], ends[0], rtol=0, atol=1e-4)
