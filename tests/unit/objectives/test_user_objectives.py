"""A user's own objective that breaks its contract is told so at its first call, by name."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from torch import Tensor, nn

from sentrep import InputError, Objective, SentRepModule, TextBatch, Views
from sentrep.encoder import SentenceEncoder
from sentrep.negatives import GaussianNegatives
from sentrep.objectives import Contrastive, UncertaintyWeighted, WeightedSum
from sentrep.objectives.base import draw_weights
from sentrep.stability import NonFiniteGuard
from support import assert_same, plugged, quiet_trainer, text_batch, tiny_encoder, toy_data, toy_sentences


class Returns(Objective):
    """Returns what a function makes of the anchors."""

    make: Any = None
    given: Any = None

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        if self.given is not None:
            self.metrics = self.given
        return self.make(views.anchor) if self.make else views.anchor.square().sum()


def returns(make: Any = None, metrics: Any = None) -> Returns:
    """Attributes, not arguments: those have to be plain data."""
    objective = Returns()
    objective.make, objective.given = make, metrics
    return objective


class Forgetful(Objective):
    """Calls no constructor but its own."""

    def __init__(self) -> None:
        self.scale = 2.0

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        return self.scale * views.anchor.sum()


@pytest.fixture
def encoder() -> SentenceEncoder:
    return tiny_encoder(pooling="mean")


def first_step(encoder: SentenceEncoder, objective: Objective) -> tuple[Tensor, WeightedSum]:
    module = SentRepModule(encoder, {"mine": objective})
    batch = text_batch(encoder, toy_sentences(4))
    loss, _ = module.objectives(module.views_of(batch), batch)
    return loss, module.objectives


BROKEN = {
    "a vector": lambda x: x.square().sum(1),
    "a number": lambda x: float(x.detach().sum()),
    "nothing": lambda x: None,
    "an integer": lambda x: (x > 0).sum(),
    "detached": lambda x: x.sum().detach(),
}


def test_one_object_in_two_places_is_refused() -> None:
    noise = GaussianNegatives()
    term = Contrastive(negatives={"g": noise})
    for named, places in (
        ({"a": term, "b": UncertaintyWeighted({"c": term})}, "a and b.sum.terms.c are one Contrastive object"),
        ({"a": Contrastive(negatives={"g": noise, "h": noise})}, "a.negatives.g and a.negatives.h are one Gaussian"),
    ):
        with pytest.raises(InputError, match=f"{places}.*make an object for each"):
            SentRepModule(tiny_encoder(), named)


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_no_scalar_with_a_gradient_is_refused(case: str, encoder: SentenceEncoder) -> None:
    with pytest.raises(InputError, match=r"^objective 'mine': Returns\.forward returned"):
        first_step(encoder, returns(BROKEN[case]))


def test_metrics_may_be_numbers(encoder: SentenceEncoder) -> None:
    given = {"a": 2, "b": torch.tensor([3.0], requires_grad=True), "c": True}
    with torch.no_grad():  # where no loss needs a gradient
        _, objectives = first_step(encoder, returns(metrics=given))
    metrics = objectives.metrics()
    assert {name: float(value) for name, value in metrics.items()} == {"mine/a": 2, "mine/b": 3, "mine/c": 1}
    assert all(value.shape == () and not value.requires_grad for value in metrics.values())
    for value in ("high", torch.zeros(2), None):
        objectives.terms["mine"].metrics = {"a": value}
        with pytest.raises(InputError, match=r"^objective 'mine': its metric 'a' is"):
            objectives.metrics()


def test_a_forgotten_constructor_is_named(encoder: SentenceEncoder) -> None:
    with pytest.raises(InputError, match=r"^objective 'mine': Forgetful.__init__ does not call super"):
        SentRepModule(encoder, {"mine": Forgetful()})


def test_a_first_loss_that_is_no_number_is_named(encoder: SentenceEncoder) -> None:
    module = SentRepModule(encoder, {"good": Contrastive(), "mine": returns(lambda x: x.sum() * torch.nan)})
    with pytest.raises(InputError, match=r"the loss is nan \(objective mine\)"):
        quiet_trainer(max_steps=2, callbacks=[NonFiniteGuard()]).fit(module, toy_data())


class Unreadable(Returns):
    """Its state cannot be read back."""

    def get_extra_state(self) -> Any:
        return {"fine": 1, "x": {"deep": [slice(0, 3)]}}

    def set_extra_state(self, state: Any) -> None: ...


class Numpy(lightning.Callback):
    """Its state holds what looks like a number."""

    def state_dict(self) -> dict[str, Any]:
        import numpy as np

        return {"best": np.float64(1.0)}


def wrapped(encoder: SentenceEncoder) -> SentenceEncoder:
    layer: Any = encoder.backbone.encoder.layer[0].output.dense
    nn.utils.parametrizations.weight_norm(layer)
    return encoder


@pytest.mark.parametrize(
    ("objective", "change", "callbacks", "words"),
    [
        (Unreadable, None, [], r"terms\.mine\._extra_state has builtins.slice, which a checkpoint cannot hold"),
        (Returns, None, [Numpy()], r"callbacks\.Numpy has numpy.*, which a checkpoint cannot hold"),
        (Returns, wrapped, [], r"^the encoder's backbone: .*weight.original0 does not fit backbone"),
    ],
    ids=["extra state", "callback", "renamed weights"],
)
def test_what_no_checkpoint_can_hold_is_said_before_the_first_step(
    objective: Any, change: Any, callbacks: list[Any], words: str, encoder: SentenceEncoder, tmp_path: Path
) -> None:
    module = SentRepModule(change(encoder) if change else encoder, {"mine": objective()})
    run = quiet_trainer(max_steps=2, callbacks=callbacks, default_root_dir=tmp_path, enable_checkpointing=True)
    with pytest.raises(InputError, match=words):
        run.fit(module, toy_data())
    assert run.global_step == 0
    assert not list(tmp_path.rglob("*.ckpt"))


def test_the_rehearsal_changes_nothing(tmp_path: Path) -> None:
    """The same weights with and without anything to save, and the real file is written as ever."""
    modules = [SentRepModule(tiny_encoder(pooling="mean"), {"mine": Contrastive()}, seed=1) for _ in range(2)]
    for module, saves in zip(modules, (True, False), strict=True):
        run = quiet_trainer(max_steps=2, default_root_dir=tmp_path, enable_checkpointing=saves)
        run.fit(module, toy_data())
    assert_same(modules[0].state_dict(), modules[1].state_dict())
    assert len(list(tmp_path.rglob("*.ckpt"))) == 1


@pytest.mark.parametrize(("layer", "exists"), [(-4, False), (-3, True), (2, True), (3, False)])
def test_the_layers_that_exist_can_be_read(encoder: SentenceEncoder, layer: int, exists: bool) -> None:
    objective = returns()
    objective.reads_layers = (layer,)
    with nullcontext() if exists else pytest.raises(InputError, match=f"it reads layer {layer}, but"):
        plugged(WeightedSum({"mine": objective}), encoder)


def test_modules_begin_as_bert_began() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(200, 100), nn.LayerNorm(100))
    draw_weights(module)
    assert module[0].weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert not module[0].bias.any()
    assert (module[1].weight == 1).all()
    draw_weights(module, std=0.5)
    assert module[0].weight.std().item() == pytest.approx(0.5, rel=0.05)
