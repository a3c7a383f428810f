"""SAM and AWP as optimisers by themselves: against loops, exact restoration, state, groups, schedules."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW

from references.weight_perturbation import awp, sam
from sentrep import InputError
from sentrep.stability import SAM, AdversarialWeightPerturbation, PerturbedWeights, refuse_gradient_scaler

PERTURB = {
    "sam": lambda w, g: sam(w, g, rho=0.3, adaptive=False),
    "asam": lambda w, g: sam(w, g, rho=0.7, adaptive=True),
    "awp": lambda w, g: awp(w, g, gamma=0.1),
}
WRAP: dict[str, Callable[..., PerturbedWeights]] = {
    "sam": functools.partial(SAM, rho=0.3),
    "asam": functools.partial(SAM, rho=0.7, adaptive=True),
    "awp": functools.partial(AdversarialWeightPerturbation, gamma=0.1),
}
BASES = {
    "sgd": functools.partial(SGD, lr=0.1, momentum=0.9, weight_decay=0.1),
    "adamw": functools.partial(AdamW, lr=0.05, weight_decay=0.2),
}
X = torch.linspace(-2, 2, 15, dtype=torch.float64).reshape(5, 3)
Y = torch.tensor([0.3, -1.0, 0.5, 2.0, 0.0], dtype=torch.float64)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()


def loss_of(model: nn.Module) -> Tensor:
    return (model(X)[:, 0] - Y).square().mean()


def closure_for(
    model: nn.Module, optimizer: torch.optim.Optimizer, loss_of: Callable[[nn.Module], Tensor] = loss_of
) -> Callable[[], Tensor]:
    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        return loss

    return closure


def gradients(model: nn.Module) -> list[Tensor]:
    return list(torch.autograd.grad(loss_of(model), list(model.parameters())))


def assign(model: nn.Module, values: list[Tensor]) -> None:
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), values, strict=True):
            parameter.copy_(value)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("kind", WRAP)
def test_steps_equal_the_paper_in_loops(kind: str, base: str) -> None:
    model, slow = network(), network()
    optimizer = WRAP[kind](model.parameters(), BASES[base])
    plain = BASES[base](slow.parameters())
    for _ in range(4):
        expected_loss = float(loss_of(slow).detach())
        weights = [p.detach().clone() for p in slow.parameters()]
        assign(slow, PERTURB[kind](weights, gradients(slow)))
        at_perturbed = gradients(slow)
        assign(slow, weights)
        for parameter, gradient in zip(slow.parameters(), at_perturbed, strict=True):
            parameter.grad = gradient
        plain.step()
        loss = optimizer.step(closure_for(model, optimizer))
        assert float(loss.detach()) == pytest.approx(expected_loss, abs=1e-12)
        for one, two in zip(model.parameters(), slow.parameters(), strict=True):
            torch.testing.assert_close(one, two, rtol=0, atol=1e-10)
    assert any(not torch.allclose(p, q) for p, q in zip(model.parameters(), network().parameters(), strict=True))


@pytest.mark.parametrize("kind", WRAP)
def test_weights_are_restored_bit_for_bit_even_when_the_closure_fails(kind: str) -> None:
    model = network()
    optimizer = WRAP[kind](model.parameters(), functools.partial(SGD, lr=0.0))
    before = [p.detach().clone() for p in model.parameters()]
    seen: list[list[Tensor]] = []

    def fails_at_last(model: nn.Module) -> Tensor:
        seen.append([p.detach().clone() for p in model.parameters()])
        if len(seen) == 4:
            raise KeyboardInterrupt
        return loss_of(model)

    closure = closure_for(model, optimizer, fails_at_last)
    optimizer.step(closure)
    with pytest.raises(KeyboardInterrupt):
        optimizer.step(closure)
    assert len(seen) == 4
    assert not torch.equal(seen[1][0], before[0])
    for parameter, value in zip(model.parameters(), before, strict=True):
        assert torch.equal(parameter, value)


@pytest.mark.parametrize("kind", WRAP)
def test_no_gradient_means_no_perturbation(kind: str) -> None:
    model = network()
    optimizer = WRAP[kind](model.parameters(), BASES["sgd"])
    frozen, zero = list(model.parameters())[:2]
    frozen.requires_grad_(False)
    optimizer.step(closure_for(model, optimizer, lambda _: (zero * 0.0).sum()))
    assert all(parameter.isfinite().all() for parameter in model.parameters())
    assert torch.equal(frozen, next(network().parameters()))


def test_groups_and_state_are_the_base_optimisers_after_a_resume_too() -> None:
    optimizer = SAM(network().parameters(), BASES["adamw"])
    for _ in range(2):
        assert optimizer.param_groups is optimizer.base.param_groups
        assert optimizer.state is optimizer.base.state
        optimizer.load_state_dict(optimizer.state_dict())


def test_a_step_without_closure_is_refused() -> None:
    with pytest.raises(InputError, match="needs a closure"):
        SAM(network().parameters(), BASES["sgd"]).step()


def test_a_fused_optimiser_under_a_scaler_cannot_clip() -> None:
    fused = torch.optim.AdamW(network().parameters(), fused=True)
    with pytest.raises(InputError, match="fused"):
        refuse_gradient_scaler(fused, object(), clips=True)
    refuse_gradient_scaler(fused, object(), clips=False)
    refuse_gradient_scaler(fused, None, clips=True)
