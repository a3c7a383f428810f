"""SAM and AWP under a Trainer: one function of the weights per step, accumulation, clipping, resume, processes."""

from __future__ import annotations

import functools
from typing import Any

import lightning
import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW

from sentrep import InputError, SentenceEncoder, SentRepModule, TextBatch
from sentrep.negatives import GaussianNegatives
from sentrep.objectives import Contrastive
from sentrep.random import step_draws
from sentrep.stability import SAM
from sentrep.stability.replay import calls_again
from support import loader, quiet_trainer, text_batch, tiny_encoder, toy_sentences

SENTENCES = toy_sentences(32)
BASE = functools.partial(SGD, lr=0.1)
SAM_SGD = functools.partial(SAM, base_optimizer=BASE, rho=0.5)


def batches(encoder: SentenceEncoder) -> list[TextBatch]:
    return [text_batch(encoder, SENTENCES[k : k + 8]) for k in range(0, len(SENTENCES), 8)]


def module(optimizer: Any, encoder: SentenceEncoder | None = None, **arguments: Any) -> SentRepModule:
    encoder = encoder or tiny_encoder()
    arguments.setdefault("objectives", {"simcse": Contrastive()})
    return SentRepModule(encoder, optimizer=optimizer, scheduler="constant", seed=3, **arguments)


def weights(module: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in module.parameters()]


def assert_equal(one: list[Tensor], two: list[Tensor], atol: float = 0.0) -> None:
    torch.testing.assert_close(one, two, rtol=0, atol=atol)


def sam_by_hand(model: SentRepModule, accumulate: int, clip: float | None) -> list[Tensor]:
    """The weights after an epoch of SAM, every micro-batch of a step at w and then at w + ε, same dropout masks."""
    data, parameters = batches(model.encoder), [p for p in model.parameters() if p.requires_grad]
    for start in range(0, len(data), accumulate):

        def gradient(start: int = start) -> list[Tensor]:
            model.zero_grad()
            micro_batches = range(start, min(start + accumulate, len(data)))
            for index in micro_batches:
                with step_draws(3, 0, index, torch.device("cpu")):
                    loss, _ = model.objectives(model.views_of(data[index]), data[index])
                (loss / len(micro_batches)).backward()
            if clip is not None:
                nn.utils.clip_grad_norm_(parameters, clip)
            return [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in parameters]

        before = weights(model)
        first = gradient()
        norm = torch.stack([g.norm() for g in first]).norm()
        with torch.no_grad():
            for parameter, g in zip(parameters, first, strict=True):
                parameter += 0.5 * g / norm
        second = gradient()
        with torch.no_grad():
            for parameter, value, g in zip(parameters, before, second, strict=True):
                parameter.copy_(value - 0.1 * g)
    return weights(model)


@pytest.mark.parametrize(("accumulate", "clip"), [(1, 0.1), (2, None), (3, None), (3, 0.1)])
def test_a_fit_equals_sam_by_hand(accumulate: int, clip: float | None) -> None:
    expected = sam_by_hand(module(SAM_SGD), accumulate, clip)
    fitted = module(SAM_SGD)
    quiet_trainer(accumulate_grad_batches=accumulate, gradient_clip_val=clip).fit(
        fitted, loader(batches(fitted.encoder))
    )
    assert_equal(weights(fitted), expected, atol=5e-6)
    assert not torch.allclose(weights(fitted)[0], weights(module(SAM_SGD))[0], atol=1e-4)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_everything_advances_once_per_step(accumulate: int) -> None:
    noise, drawn = GaussianNegatives(), list[int]()
    sample = noise.sample

    def noted(*given: Tensor) -> Tensor:
        drawn.append(noise.step)
        return sample(*given)

    noise.sample = noted  # type: ignore[method-assign]
    fitted = module(SAM_SGD, objectives={"simcse": Contrastive(negatives={"noise": noise})})
    run = quiet_trainer(accumulate_grad_batches=accumulate)
    run.fit(fitted, loader(batches(fitted.encoder)))
    steps = 4 // accumulate
    assert run.global_step == noise.step == steps
    assert drawn == [step for step in range(steps) for _ in range(2 * accumulate)]


def test_logs_and_after_step_come_from_the_unperturbed_weights() -> None:
    watch, seen, after = Contrastive(), list[Any](), list[Any]()
    watch.register_forward_hook(lambda *call: seen.append(call))
    watch.after_step = after.append  # type: ignore[method-assign]
    fitted = module(functools.partial(SAM_SGD, rho=5.0), objectives={"simcse": watch})
    run = quiet_trainer(limit_train_batches=1)
    run.fit(fitted, loader(batches(fitted.encoder)))
    (_, (views, _), first), (_, _, second) = seen
    assert float(run.callback_metrics["train/loss"]) == pytest.approx(first.item())
    assert second > first + 0.01
    assert [torch.equal(given.anchor, views.anchor) for given in after] == [True]


def test_half_precision_with_a_scaler_is_refused_before_the_first_step() -> None:
    fitted = module(SAM_SGD)
    plugin = lightning.pytorch.plugins.MixedPrecision("16-mixed", "cpu", torch.amp.GradScaler("cpu"))
    with pytest.raises(InputError, match="use bf16-mixed or 32-true"):
        quiet_trainer(plugins=[plugin]).fit(fitted, loader(batches(fitted.encoder)))


def test_of_torchs_own_optimizers_lbfgs_alone_calls_its_closure_again() -> None:
    class OfAUser(SGD):
        pass

    kinds = (SGD, AdamW, torch.optim.LBFGS, OfAUser)
    assert [calls_again(kind([nn.Parameter(torch.ones(1))], lr=0.1)) for kind in kinds] == [False, False, True, True]
