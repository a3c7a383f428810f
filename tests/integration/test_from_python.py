"""A library that is used from Python: within other modules, copied, without the command line."""

from __future__ import annotations

import copy
from typing import Any

import lightning
import pytest
import torch
from torch import Tensor, nn

from sentrep import InputError, SentRepDataModule, SentRepModule
from sentrep.objectives import Alignment, Contrastive, MomentumContrast
from support import Losses, assert_same, quiet_trainer, text_batch, tiny_encoder, toy_data, toy_sentences


def module(**arguments: Any) -> SentRepModule:
    """With an objective that remembers every step, and moves a copy of the encoder."""
    return SentRepModule(tiny_encoder(**arguments), {"queue": MomentumContrast(size=9, in_batch=True)}, seed=1)


class Outer(lightning.LightningModule):
    """What a user writes to train more than one thing at once."""

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.inner, *others = parts
        self.others = nn.ModuleList(others)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        self.terms = self.inner.compute_terms(batch, batch_idx, self.current_epoch)
        return self.terms.loss

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        """None of its own."""

    def optimizer_step(self, *arguments: Any) -> None:
        super().optimizer_step(*arguments)
        self.inner.end_step(self.terms.views)

    def configure_optimizers(self) -> Any:
        return self.inner.configure_optimizers()


def fit(whole: lightning.LightningModule) -> list[float]:
    """Losses of six micro-batches in three steps."""
    losses = Losses()
    trainer = quiet_trainer(max_steps=3, accumulate_grad_batches=2, callbacks=[losses])
    trainer.fit(whole, SentRepDataModule(toy_sentences(24), batch_size=4, val=["toy-dev"], seed=1))
    return losses.found


def test_a_part_of_another_module_trains_as_alone() -> None:
    alone, part = module(), module()
    losses = fit(alone)
    assert len(losses) == 6
    for _ in range(2):  # a module may be fitted again
        assert fit(Outer(part)) == losses
        assert_same(part.state_dict(), alone.state_dict())  # the step and what the queue remembers, too
        assert part.objectives.terms["queue"].step == alone.step
        losses = fit(alone)


def test_whose_tokens_to_read_is_asked_for_where_there_are_several_encoders() -> None:
    shared = module()
    outer = Outer(shared, SentRepModule(shared.encoder, [Alignment()]))
    quiet_trainer(max_steps=1).fit(outer, SentRepDataModule(toy_sentences(8), batch_size=4))
    for whole, count in ((Outer(nn.Linear(2, 2)), 0), (Outer(module(), module()), 2)):
        with pytest.raises(InputError, match=rf"Outer has {count} encoders.*data.connect\(encoder\)"):
            quiet_trainer(max_steps=1).fit(whole, SentRepDataModule(toy_sentences(8), batch_size=4))


def losses_under_fabric(module: SentRepModule) -> list[float]:
    """Of two steps in a loop by hand under `lightning.Fabric`."""
    fabric = lightning.Fabric(accelerator="cpu", devices=1)
    wrapped, optimizer = fabric.setup(module, torch.optim.SGD(module.parameters(), lr=0.1))
    wrapped.mark_forward_method("compute_terms")
    losses = []
    for number in range(2):
        terms = wrapped.compute_terms(text_batch(module.encoder, toy_sentences(6)), number)
        fabric.backward(terms.loss)
        optimizer.step()
        optimizer.zero_grad()
        module.end_step(terms.views)
        losses.append(terms.loss.item())
    return losses


def test_a_loop_under_fabric_is_the_same_for_a_module_that_a_trainer_has_fitted() -> None:
    fitted = module()
    weights = copy.deepcopy(fitted.state_dict())
    fit(fitted)
    fitted.load_state_dict(weights)
    assert losses_under_fabric(fitted) == losses_under_fabric(module())


@pytest.mark.slow
def test_a_compiled_module_trains_and_logs_as_it_is() -> None:
    plain: Any = SentRepModule(tiny_encoder(dropout=0.0), [Contrastive()])
    logged = []
    for one in (torch.compile(copy.deepcopy(plain), backend="eager"), plain):
        trainer = quiet_trainer(max_steps=2)
        trainer.fit(one, toy_data())
        logged.append({name: float(value) for name, value in trainer.callback_metrics.items()})
        assert one.step == 2
    assert "train/uniformity" in logged[0]
    assert logged[0] == pytest.approx(logged[1], rel=1e-5, abs=1e-5)  # the uniformity of almost equal vectors is near 0
