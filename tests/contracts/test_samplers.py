"""What every sampler promises."""

from __future__ import annotations

import functools
from typing import cast

import pytest
import torch
from samplers import DRAWN, KINDS, REMEMBERING, WIDTH, advance, built, embeddings, services, spec
from torch import Tensor

from references import samplers as references
from references.info_nce import info_nce_loop
from sentrep import negatives
from sentrep.negatives import NegativeSampler
from sentrep.negatives.base import finite_rows
from sentrep.objectives import Contrastive
from sentrep.testing import check_sampler
from sentrep.types import Views
from support import assert_same, bare_views, tiny_encoder

pytestmark = pytest.mark.filterwarnings("ignore:MemoryBank")  # the small one is meant

every_kind = pytest.mark.parametrize("kind", KINDS)


def _after(kind: str, steps: int = 2) -> NegativeSampler:
    sampler = built(kind)
    for step in range(steps):
        advance(sampler, embeddings(step)[0])
    return sampler


@pytest.mark.parametrize("kind", [kind for kind in DRAWN if kind != "mixed"])  # which has one for each anchor
@pytest.mark.parametrize(("ratio", "rows", "expected"), [(0.5, 8, 4), (2.5, 8, 20), (0.01, 8, 1), (1.0, 3, 3)])
def test_number_is_a_multiple_of_the_batch(kind: str, ratio: float, rows: int, expected: int) -> None:
    sampler = built(kind, ratio=ratio)
    for step in range(2):
        advance(sampler, embeddings(step, rows)[0])
    assert len(sampler.sample(*embeddings(2, rows))) == expected


@pytest.mark.parametrize("broken", [[], [1], [0, 2, 3], [0, 1, 2, 4, 5], range(6), range(20, 40)])
def test_sound_rows_stand_in_for_broken_ones_in_turn(broken: list[int]) -> None:
    rows = torch.arange(80.0).view(40, 2) if 39 in broken else torch.arange(12.0).view(6, 2)
    sound = [row for number, row in enumerate(rows) if number not in broken]
    expected = rows.clone()
    for turn, number in enumerate(broken):
        rows[number, 1] = (torch.nan, torch.inf, 1e30)[number % 3]
        expected[number] = sound[turn % len(sound)] if sound else 0
    assert torch.equal(finite_rows(rows), expected)


@pytest.mark.parametrize("kind", REMEMBERING)
def test_without_a_past_nothing_is_drawn(kind: str) -> None:
    nothing = built(kind).sample(*(x.bfloat16() for x in embeddings()))
    assert (nothing.shape, nothing.dtype) == ((0, WIDTH), torch.float32)


@every_kind
def test_broken_and_small_and_large_batches_are_survived(kind: str) -> None:
    sampler = built(kind)
    for step, rows in enumerate((8, 1, 8, 30, 2)):
        anchors = embeddings(step, rows)[0]
        if step == 0:
            anchors[:] = torch.nan
        if step == 2:
            anchors[0, 1], anchors[3], anchors[6, 2] = torch.nan, torch.inf, 1e30
        advance(sampler, anchors)
        drawn = sampler.sample(*embeddings(step + 1, rows))
        assert drawn.isfinite().all()
        assert not drawn.numel() or drawn.abs().max() < 1e3


def _third_loss(
    kind: str, keep_hardest: float, dtype: torch.dtype = torch.float32
) -> tuple[Contrastive, Tensor, Views]:
    """An objective in its third step, the loss, whose gradient has been taken, and the views."""
    objective = Contrastive(negatives={"extra": negatives.HardestNegatives(built(kind), keep_hardest)})
    objective.build(spec(), services())
    for step in range(3):
        anchor, positive = (rows.bfloat16().to(dtype).requires_grad_() for rows in embeddings(step))
        views = bare_views(anchor, positive)
        if step < 2:
            objective.after_step(views)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
        loss = objective(views, None)
    loss.backward()
    return objective, loss.detach(), views


@every_kind
@pytest.mark.parametrize("share", [0.5, 1.0])
def test_the_hardest_are_kept_and_their_hardness_is_measured(kind: str, share: float) -> None:
    objective, loss, views = _third_loss(kind, share)
    sampler = cast("negatives.HardestNegatives", objective.negatives["extra"]).sampler
    anchors, keys = (rows.detach().requires_grad_() for rows in (views.anchor, views.positive))
    drawn = sampler.sample(anchors if sampler.with_gradient else anchors.detach(), keys.detach())
    drawn = references.kept_hardest(drawn, anchors.detach(), share)
    shared, by_row = (drawn, None) if drawn.ndim == 2 else (None, drawn)
    expected = info_nce_loop(anchors, keys, 0.05, list(range(8)), shared, None, 1.0, 0.0, by_row)
    torch.testing.assert_close(loss, expected.detach(), rtol=1e-4, atol=1e-4)
    expected.backward()
    torch.testing.assert_close(
        [views.anchor.grad, views.positive.grad], [anchors.grad, keys.grad], rtol=1e-3, atol=1e-3
    )
    found = objective.metrics["hardness"].item(), objective.metrics["harder_than_batch"].item()
    assert found == pytest.approx(references.hardness(anchors, keys, drawn), abs=1e-5)
    (dose,) = references.dose(anchors, keys, list(range(8)), [drawn], 0.05)
    assert objective.metrics["dose/extra"].item() == pytest.approx(dose, rel=1e-3, abs=1e-7)


@every_kind
def test_in_bf16_the_same_are_kept(kind: str) -> None:
    objective, loss, views = _third_loss(kind, 0.5)
    other, rounded, half = _third_loss(kind, 0.5, torch.bfloat16)
    assert torch.equal(loss, rounded)
    assert_same(objective.metrics, other.metrics)
    assert half.anchor.grad is not None
    torch.testing.assert_close(half.anchor.grad.float(), views.anchor.grad, rtol=1e-2, atol=1e-2)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@every_kind
def test_a_checkpoint_from_the_cpu_goes_on_on_a_gpu(kind: str) -> None:
    sampler = built(kind)
    sampler.load_state_dict(_after(kind).state_dict())
    sampler.to("cuda")  # after loading, as Lightning does
    for step in range(2, 5):
        anchors, keys = (t.cuda() for t in embeddings(step))
        drawn = sampler.sample(anchors, keys)
        assert drawn.is_cuda
        assert drawn.isfinite().all()
        advance(sampler, anchors)


@every_kind
def test_a_sampler_keeps_its_promises(kind: str) -> None:
    name, arguments = KINDS[kind]
    skip = ["processes", "waits"] if kind in ASKS_A_CPU else ["processes"]
    check_sampler(getattr(negatives, name), encoder=_encoder(), skip=skip, weight=0.5, **arguments)


ASKS_A_CPU = {"refitted mixture", "vae on the batch", "released vae"}
"""The mixture is fitted on the host; Adam, which fits the others, asks a CPU alone (`contracts/test_fake_cuda.py`)."""
_encoder = functools.cache(lambda: tiny_encoder(dropout=0.0))
