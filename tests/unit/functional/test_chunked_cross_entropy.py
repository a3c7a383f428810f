"""Chunked cross-entropy against the plain one: value and every gradient."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sentrep.functional import chunked_cross_entropy
from support import assert_same_gradients

ROWS, WIDTH, CLASSES = 23, 8, 50


def data(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, nn.Module]:
    torch.manual_seed(0)
    head = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)).to(dtype)
    head[0].bias.requires_grad_(False)  # a frozen parameter gets no gradient
    states = torch.randn(ROWS, WIDTH, dtype=dtype, requires_grad=True)
    return states, torch.randint(CLASSES, (ROWS,)), head


@pytest.mark.parametrize("chunk", [1, 5, 23, 100])
def test_value_and_gradients_equal_the_plain_way(chunk: int) -> None:
    states, targets, head = data()
    parameters = list(head.parameters())
    logits = head(states)
    expected = F.cross_entropy(logits, targets, reduction="sum")
    loss, correct = chunked_cross_entropy(states, targets, head, parameters, chunk=chunk)
    assert correct == (logits.argmax(1) == targets).sum()
    assert not correct.requires_grad
    trained = [states, *(p for p in parameters if p.requires_grad)]
    assert_same_gradients(loss, expected, trained, rtol=1e-10, atol=1e-12)


def test_the_loss_is_float32_under_autocast() -> None:
    states, targets, head = data(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = head(states)
        assert logits.dtype == torch.bfloat16
        expected = F.cross_entropy(logits.float(), targets, reduction="sum")
        loss, _ = chunked_cross_entropy(states, targets, head, list(head.parameters()), chunk=6)
    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=0)
    leaves = [states, *(p for p in head.parameters() if p.requires_grad)]
    assert_same_gradients(loss, expected, leaves, rtol=0.02, atol=0.05)


def test_without_gradient_there_is_only_the_value() -> None:
    states, targets, head = data()
    with torch.no_grad():
        loss, _ = chunked_cross_entropy(states, targets, head, list(head.parameters()), chunk=5)
    assert not loss.requires_grad
    torch.testing.assert_close(loss, F.cross_entropy(head(states), targets, reduction="sum"))


def test_the_logits_are_never_held_whole() -> None:
    states, targets, head = data()
    shapes = []
    head.register_forward_hook(lambda _, __, out: shapes.append(tuple(out.shape)))
    loss, _ = chunked_cross_entropy(states, targets, head, list(head.parameters()), chunk=10)
    kept = {tuple(tensor.shape) for tensor in loss.grad_fn.saved_tensors}  # type: ignore[union-attr]
    loss.backward()
    assert shapes == [(10, CLASSES), (10, CLASSES), (3, CLASSES)], "every row is computed once"
    assert kept == {(ROWS, WIDTH), *(tuple(p.shape) for p in head.parameters())}


def test_no_rows_give_zero_and_zero_gradients() -> None:
    states, targets, head = data()
    loss, correct = chunked_cross_entropy(states[:0], targets[:0], head, list(head.parameters()), chunk=5)
    loss.backward()
    assert (loss.item(), correct.item()) == (0.0, 0)
    assert all(not p.grad.any() for p in head.parameters() if p.requires_grad)
