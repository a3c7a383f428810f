"""Two and four processes against one, with every sampler under a `Contrastive`, over several optimiser steps."""

from __future__ import annotations

import pytest
import torch
from samplers import KINDS, WIDTH, built, embeddings, services, spec
from torch import Tensor

from sentrep import distributed
from sentrep.negatives import HardestNegatives
from sentrep.objectives import Contrastive
from support import bare_views, run_processes

pytestmark = pytest.mark.filterwarnings("ignore:MemoryBank")  # the small one is meant

STEPS = 4


def train(kinds: list[str], keep_hardest: float = 1.0) -> tuple[list[float], Tensor, dict[str, Tensor]]:
    """Losses and metrics, the trained matrix, and the next draws of samplers; each process has its share of 8 rows."""
    # the encoder is one matrix; a weight other than 1 takes the weighted path through the loss
    matrix = torch.eye(WIDTH, requires_grad=True)
    samplers = {kind: HardestNegatives(built(kind, stream=kind, weight=0.7), keep_hardest) for kind in kinds}
    objective = Contrastive(0.5, samplers)
    objective.build(spec(), services())
    optimizer = torch.optim.SGD([matrix], lr=0.2)
    world, rank = distributed.world_size(), distributed.rank()
    losses = []
    for step in range(STEPS):
        mine = slice(8 // world * rank, 8 // world * (rank + 1))
        views = bare_views(*(rows[mine] @ matrix for rows in embeddings(step)))
        loss = objective(views, None)  # type: ignore[arg-type]
        optimizer.zero_grad()
        loss.backward()
        logged = torch.stack([loss.detach(), *objective.metrics.values()])
        if world > 1:  # what DDP and the module's log do
            for tensor in (logged, matrix.grad):
                torch.distributed.all_reduce(tensor)
                tensor /= world
        losses += logged.tolist()
        optimizer.step()
        with torch.no_grad():
            objective.after_step(views)
    draws = {name: sampler.sample(*embeddings(STEPS)) for name, sampler in objective.negatives.items()}
    return losses, matrix.detach(), draws


@pytest.mark.parametrize(("world", "keep_hardest"), [(2, 0.5), (4, 1.0)])
def test_every_sampler_at_once_equals_one_process(world: int, keep_hardest: float) -> None:
    losses, matrix, draws = train(list(KINDS), keep_hardest)
    results = run_processes(train, world, list(KINDS), keep_hardest)
    for other_losses, other_matrix, other_draws in results:
        assert other_losses == pytest.approx(losses, abs=1e-5)
        torch.testing.assert_close(other_matrix, matrix, rtol=0, atol=1e-5)
        for kind, drawn in draws.items():
            torch.testing.assert_close(other_draws[kind], drawn, rtol=1e-4, atol=1e-4, msg=kind)
    for kind in KINDS:  # and the processes agree bit for bit
        assert all(torch.equal(results[0][2][kind], other[2][kind]) for other in results[1:]), kind
    assert not torch.allclose(matrix, torch.eye(WIDTH), atol=1e-2)
