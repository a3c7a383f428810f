"""The monitor's norms and cosines against separate backward passes; training is the same with and without it."""

from __future__ import annotations

import functools
from itertools import combinations
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from lightning.pytorch.loggers import CSVLogger
from torch import Tensor

from sentrep import InputError, Objective, ProjectionHead, SentRepModule, TextBatch, Views
from sentrep.evaluation import GradientMonitor
from sentrep.objectives import Contrastive, Denoising, MaskedLanguageModeling, Uniformity
from sentrep.random import step_draws
from sentrep.stability import SAM, AdversarialWeightPerturbation
from support import loader, own_share, quiet_trainer, run_processes, text_batch, tiny_encoder, toy_sentences

SENTENCES = toy_sentences(32)
WEIGHTS = {"mlm": 0.5, "rebuild": 0.1}


class Constant(Objective):
    """Asks for nothing."""

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        return 1.0 + 0.0 * views.anchor.sum()


class Spread(Objective):
    """The very opposite of uniformity."""

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        return -Uniformity()(views, batch)


class SquaredNorm(Objective):
    """A mean over this process's rows."""

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        return views.anchor.square().sum(1).mean()


def objectives() -> dict[str, Objective | None]:
    rebuild = Denoising(layers=1, feed_forward=16, noise=0.5)
    return {"simcse": Contrastive(), "mlm": MaskedLanguageModeling(), "rebuild": rebuild}


def module(terms: dict[str, Objective | None] | None = None, **arguments: Any) -> SentRepModule:
    arguments.setdefault("weights", None if terms else WEIGHTS)
    return SentRepModule(
        tiny_encoder(dropout=0.1), terms or objectives(), head=ProjectionHead(), scheduler="constant", seed=3,
        **arguments,
    )  # fmt: skip


def batches(model: SentRepModule) -> list[TextBatch]:
    return [text_batch(model.encoder, SENTENCES[k : k + 8]) for k in range(0, 32, 8)]


def fit(model: SentRepModule, *callbacks: lightning.Callback, **arguments: Any) -> lightning.Trainer:
    trainer = quiet_trainer(callbacks=list(callbacks), **{"max_epochs": 1, "log_every_n_steps": 1, **arguments})
    trainer.fit(model, loader(batches(model)))
    return trainer


def expected(model: SentRepModule, micro_batches: list[int]) -> dict[str, Tensor]:
    """By name: gradient of each weighted objective, from a forward and a backward pass of its own."""
    data = batches(model)
    gradients = {}
    for name in model.objectives.terms:
        model.zero_grad()
        for index in micro_batches:
            batch = data[index]
            with step_draws(3, 0, index, torch.device("cpu")):
                _, losses = model.objectives(model.views_of(batch), batch)
            (model.objectives.weights[name] * losses[name] / len(micro_batches)).backward()
        flat = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.encoder.parameters()]
        gradients[name] = torch.cat([gradient.flatten() for gradient in flat])
    return gradients


def assert_logged(logged: dict[str, Any], gradients: dict[str, Tensor]) -> None:
    for name, gradient in gradients.items():
        assert float(logged[f"train/{name}/gradient_norm"]) == pytest.approx(float(gradient.norm()), rel=1e-6)
    for one, two in combinations(gradients, 2):
        cosine = torch.cosine_similarity(gradients[one], gradients[two], dim=0)
        assert float(logged[f"train/{one}~{two}/gradient_cosine"]) == pytest.approx(float(cosine), abs=1e-6)


@pytest.mark.parametrize("accumulate", [1, 3])
def test_norms_and_cosines_are_those_of_separate_backward_passes(accumulate: int) -> None:
    model = module().double()  # float32 leaves rounding of 5e-5
    wanted = expected(module().double(), list(range(accumulate)))
    trainer = fit(model, GradientMonitor(1), accumulate_grad_batches=accumulate, limit_train_batches=accumulate)
    assert_logged(trainer.callback_metrics, wanted)
    assert len({round(float(gradient.norm()), 3) for gradient in wanted.values()}) == 3


def test_the_last_step_of_an_epoch_may_have_fewer_micro_batches() -> None:
    still = functools.partial(torch.optim.SGD, lr=0.0)
    model = module(optimizer=still).double()
    trainer = fit(model, GradientMonitor(1), accumulate_grad_batches=3, limit_train_batches=4)
    assert_logged(trainer.callback_metrics, expected(module().double(), [3]))


@pytest.mark.parametrize(
    "optimizer",
    [
        functools.partial(SAM, base_optimizer=functools.partial(torch.optim.SGD, lr=0.1), rho=2.0),
        functools.partial(
            AdversarialWeightPerturbation, base_optimizer=functools.partial(torch.optim.SGD, lr=0.1), gamma=0.5
        ),
    ],
    ids=["sam", "awp"],
)
def test_with_perturbed_weights_the_gradient_is_that_at_the_weights(optimizer: Any) -> None:
    model = module(optimizer=optimizer).double()
    trainer = fit(model, GradientMonitor(1), accumulate_grad_batches=2, limit_train_batches=2)
    assert_logged(trainer.callback_metrics, expected(module().double(), [0, 1]))


def test_opposed_objectives_are_seen_to_fight() -> None:
    terms = {"uniformity": Uniformity(), "opposite": Spread(), "constant": Constant()}
    logged = fit(module(terms), GradientMonitor(1), limit_train_batches=1).callback_metrics
    assert float(logged["train/uniformity~opposite/gradient_cosine"]) == pytest.approx(-1, abs=1e-5)
    assert float(logged["train/constant/gradient_norm"]) == 0
    assert float(logged["train/uniformity~constant/gradient_cosine"]) == 0


def test_a_gradient_scaler_does_not_change_the_numbers() -> None:
    def logged(scale: float) -> dict[str, Any]:
        scaler = torch.amp.GradScaler("cpu", init_scale=scale)
        plugin = lightning.pytorch.plugins.MixedPrecision("16-mixed", "cpu", scaler)
        return fit(module(), GradientMonitor(1), limit_train_batches=1, plugins=[plugin]).callback_metrics

    plain, scaled = logged(1.0), logged(256.0)
    for name, value in plain.items():
        if name.endswith("gradient_norm"):
            assert float(scaled[name]) == pytest.approx(float(value), rel=0.01)


SAM_ADAMW = functools.partial(SAM, base_optimizer=functools.partial(torch.optim.AdamW, lr=1e-3))


@pytest.mark.parametrize(
    ("arguments", "optimizer"),
    [
        ({}, None),
        ({"precision": "bf16-mixed"}, None),
        ({"accumulate_grad_batches": 2}, None),
        ({"gradient_clip_val": 0.1, "accumulate_grad_batches": 2}, SAM_ADAMW),
    ],
    ids=["plain", "bf16", "accumulated", "sam"],
)
def test_training_is_bit_for_bit_the_same_with_the_monitor(
    arguments: dict[str, Any], optimizer: Any, tmp_path: Path
) -> None:
    given = {} if optimizer is None else {"optimizer": optimizer}
    alone, watched = module(**given), module(**given)
    fit(alone, max_epochs=2, **arguments)
    trainer = fit(watched, GradientMonitor(1), max_epochs=2, default_root_dir=tmp_path, **arguments)
    assert "train/simcse~mlm/gradient_cosine" in trainer.callback_metrics
    assert all(torch.equal(one, two) for one, two in zip(alone.parameters(), watched.parameters(), strict=True))
    assert not torch.equal(next(alone.parameters()), next(module(**given).parameters()))


def test_only_the_monitored_steps_pay_and_are_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    gradient = torch.autograd.grad
    monkeypatch.setattr(torch.autograd, "grad", lambda *a, **k: calls.append(1) or gradient(*a, **k))
    model = module({"simcse": Contrastive(), "uniformity": Uniformity()})
    logger = CSVLogger(str(tmp_path), name="", version="run")
    fit(model, GradientMonitor(2), max_epochs=2, logger=logger)
    assert len(calls) == 4 * 2
    lines = (tmp_path / "run" / "metrics.csv").read_text().splitlines()
    names = lines[0].split(",")
    rows = [dict(zip(names, line.split(","), strict=True)) for line in lines[1:]]
    assert [int(row["step"]) for row in rows if row["train/simcse/gradient_norm"]] == [1, 3, 5, 7]
    assert len([row for row in rows if row["train/loss"]]) == 8


@pytest.mark.parametrize(("every", "message"), [(0, "be 1 or more"), (15, r"be a multiple .*\(10\)")])
def test_an_interval_at_which_nothing_is_logged_is_refused(every: int, message: str) -> None:
    with pytest.raises(InputError, match=rf"GradientMonitor: every_n_steps must {message}, got {every}"):
        fit(module(), GradientMonitor(every), log_every_n_steps=10)


def test_nothing_of_the_graph_is_kept() -> None:
    model = module()
    fit(model, GradientMonitor(1))
    assert model.terms is None


class _Trainer:
    """What the monitor asks a trainer for."""

    global_step, scaler, loggers = 0, None, ()

    def __init__(self) -> None:
        self.callback_metrics: dict[str, Tensor] = {}


def statistics_of_a_global_batch() -> dict[str, Tensor]:
    """Of eight rows, shared out between the processes."""
    encoder = tiny_encoder(dropout=0.0).double()
    model = SentRepModule(encoder, {"simcse": Contrastive(), "small": SquaredNorm()}, seed=1)
    batch = own_share(text_batch(encoder, SENTENCES[:8], SENTENCES[8:16]))
    model.terms = model.compute_terms(batch, 0)
    trainer, monitor = _Trainer(), GradientMonitor(1)
    monitor.on_before_backward(trainer, model, model.terms.loss)  # type: ignore[arg-type]
    monitor.on_before_optimizer_step(trainer, model, None)  # type: ignore[arg-type]
    return trainer.callback_metrics


def test_two_processes_give_the_numbers_of_one() -> None:
    wanted = statistics_of_a_global_batch()
    assert len(wanted) == 3
    for found in run_processes(statistics_of_a_global_batch, 2):
        assert found.keys() == wanted.keys()
        for name, value in wanted.items():
            torch.testing.assert_close(found[name], value, rtol=0, atol=1e-8)
