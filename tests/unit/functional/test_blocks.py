"""Similarities in blocks: value and gradient of the whole matrix, which never exists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from sentrep.functional import geometry, info_nce, similarity, uniformity

N, K, M, WIDTH = 13, 17, 6, 5


def inputs(dtype: torch.dtype = torch.float64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(N, WIDTH), (K, WIDTH), (M, WIDTH), (N, 3, WIDTH)]  # the last are negatives of each query alone
    return [torch.randn(shape, generator=generator).to(dtype).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("block", [1, 4, 100])
@pytest.mark.parametrize(("weighted", "smoothing"), [(False, 0.0), (False, 0.2), (True, 0.0), (True, 0.2)])
@pytest.mark.parametrize("negative_weight", [None, 1.0, 0.3, 0.0])
@pytest.mark.parametrize("of_each", [False, True])
def test_value_and_gradient_are_those_of_the_whole_matrix(
    block: int, smoothing: float, weighted: bool, negative_weight: float | None, of_each: bool
) -> None:
    """With negatives of all queries unless ``negative_weight`` is None, and with negatives of each query alone."""
    results = []
    for rows in (0, block):
        queries, keys, drawn, own = inputs()
        further = {} if negative_weight is None else {"negatives": drawn}
        further |= {"row_negatives": own} if of_each else {}
        generator = torch.Generator().manual_seed(1)
        columns = K + sum(negatives.shape[-2] for negatives in further.values())
        weights = 2 * torch.rand(N, columns, generator=generator, dtype=torch.float64)
        weights[weights < 0.5] = 0.0
        loss = info_nce(
            queries,
            keys,
            temperature=0.1,
            positives=torch.randperm(K, generator=generator)[:N],
            weights=weights if weighted else None,
            label_smoothing=smoothing,
            negative_weight=1.0 if negative_weight is None else negative_weight,
            block=rows,
            **further,
        )
        assert loss.dtype == torch.float64
        results.append([loss.detach(), *torch.autograd.grad(3 * loss, [queries, keys, *further.values()])])
    torch.testing.assert_close(results[1], results[0], rtol=0, atol=1e-10)


@pytest.mark.parametrize("which", [0, 1])
def test_only_one_side_is_trained(which: int) -> None:
    gradients = []
    for rows in (0, 4):
        tensors = [x.detach().requires_grad_(number == which) for number, x in enumerate(inputs()[:2])]
        (gradient,) = torch.autograd.grad(info_nce(*tensors, temperature=0.1, block=rows), tensors[which])
        gradients.append(gradient)
    torch.testing.assert_close(gradients[1], gradients[0], rtol=0, atol=1e-10)


def test_nothing_is_trained() -> None:
    queries, keys = (x.detach() for x in inputs()[:2])
    loss = info_nce(queries, keys, temperature=0.1, block=4)
    assert not loss.requires_grad
    torch.testing.assert_close(loss, info_nce(queries, keys, temperature=0.1, block=0))
    with torch.no_grad():
        assert info_nce(*inputs()[:2], temperature=0.1, block=4) == loss


def test_bf16_autocast_does_not_reach_the_blocks() -> None:
    tensors = inputs(torch.float32)[:2]
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

    assert largest(run(None)) == 300 * 300
    monkeypatch.setattr(similarity, "LARGEST_MATRIX", 300 * 300 - 1)
    monkeypatch.setattr(similarity, "rows_at_once", lambda columns: 7)
    assert largest(run(None)) == 7 * 300
    assert largest(run(20)) == 20 * 300
    assert largest(run(0)) == 300 * 300  # the way to turn it off


def test_uniformity_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geometry, "rows_at_once", lambda columns: 7)
    x = torch.randn(30, WIDTH, dtype=torch.float64, requires_grad=True)
    results = []
    for limit, size in ((30 * 30, 30 * 30), (30 * 30 - 1, 7 * 30)):
        monkeypatch.setattr(geometry, "LARGEST_MATRIX", limit)
        value = uniformity(x)
        results.append((value.detach(), torch.autograd.grad(value, x)[0]))
        assert largest(lambda: uniformity(x)) == size
    torch.testing.assert_close(*results, rtol=0, atol=1e-10)
