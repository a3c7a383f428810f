"""Similarities in blocks, without the whole matrix; `test_info_nce` has value and gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from sentrep.functional import geometry, info_nce, similarity, uniformity

WIDTH = 5


def inputs(dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Queries and keys."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(rows, WIDTH, generator=generator).to(dtype).requires_grad_() for rows in (13, 17)]


@pytest.mark.parametrize("which", [0, 1])
def test_only_one_side_is_trained(which: int) -> None:
    gradients = []
    for rows in (0, 4):
        tensors = [x.detach().requires_grad_(number == which) for number, x in enumerate(inputs())]
        (gradient,) = torch.autograd.grad(info_nce(*tensors, temperature=0.1, block=rows), tensors[which])
        gradients.append(gradient)
    torch.testing.assert_close(gradients[1], gradients[0], rtol=0, atol=1e-10)


def test_nothing_is_trained() -> None:
    queries, keys = (x.detach() for x in inputs())
    loss = info_nce(queries, keys, temperature=0.1, block=4)
    assert not loss.requires_grad
    torch.testing.assert_close(loss, info_nce(queries, keys, temperature=0.1, block=0))
    with torch.no_grad():
        assert info_nce(*inputs(), temperature=0.1, block=4) == loss


def test_bf16_autocast_does_not_reach_the_blocks() -> None:
    tensors = inputs(torch.float32)
    plain = info_nce(*tensors, temperature=0.1, block=4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        autocast = info_nce(*tensors, temperature=0.1, block=4)
    assert autocast.dtype == torch.float32
    assert torch.equal(*(torch.autograd.grad(loss, tensors[0])[0] for loss in (plain, autocast)))


class Largest(TorchFunctionMode):
    """The largest tensor that any function of torch returns."""

    numel = 0

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            self.numel = max(self.numel, result.numel())
        return result


def largest(run: Callable[[], Tensor]) -> int:
    with Largest() as mode:
        run()
    return mode.numel


def test_large_batches_go_in_blocks_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(300, WIDTH, requires_grad=True)

    def run(block: int | None) -> Callable[[], Tensor]:
        return lambda: info_nce(x, x, temperature=0.1, block=block)

    monkeypatch.setattr(similarity, "rows_at_once", lambda columns: 7)
    monkeypatch.setattr(similarity, "LARGEST_MATRIX", 300 * 300)
    assert largest(run(None)) == 300 * 300
    monkeypatch.setattr(similarity, "LARGEST_MATRIX", 300 * 300 - 1)
    assert largest(run(None)) == 7 * 300
    assert largest(run(20)) == 20 * 300
    assert largest(run(0)) == 300 * 300  # the way to turn it off


def test_uniformity_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """In float32 under autocast too."""
    monkeypatch.setattr(geometry, "rows_at_once", lambda columns: 7)
    x = torch.randn(30, WIDTH, requires_grad=True)
    results = []
    for limit, size in ((30 * 30, 30 * 30), (30 * 30 - 1, 7 * 30)):
        monkeypatch.setattr(geometry, "LARGEST_MATRIX", limit)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert largest(lambda: uniformity(x)) == size
            value = uniformity(x)
        results.append((value.detach(), torch.autograd.grad(value, x)[0]))
    torch.testing.assert_close(*results, rtol=0, atol=1e-6)
