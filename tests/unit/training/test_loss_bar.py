"""The bar of a run on a GPU: it shows the loss, and nothing else asks the device for it at every step."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sentrep import SentRepModule
from sentrep.objectives import Contrastive
from sentrep.training import LossBar
from support import quiet_trainer, text_batch, tiny_encoder, toy_data


def test_the_bar_shows_the_loss_of_the_last_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown: list[dict[str, Any]] = []

    class Watched(LossBar):
        def get_metrics(self, *arguments: Any) -> dict[str, Any]:
            shown.append(super().get_metrics(*arguments))
            return shown[-1]

    module = SentRepModule(tiny_encoder(), [Contrastive()])
    trainer = quiet_trainer(max_steps=5, enable_progress_bar=True, callbacks=[Watched(refresh_rate=2)])
    trainer.fit(module, toy_data())
    assert shown
    assert len(shown) <= 4  # not at every step
    assert shown[-1]["train/loss"] == pytest.approx(float(trainer.callback_metrics["train/loss"]))


@pytest.mark.parametrize(("device", "in_lightnings_bar"), [("cpu", True), ("cuda", False)])
def test_lightning_reads_the_loss_at_every_step_on_a_cpu_alone(
    device: str, in_lightnings_bar: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = SentRepModule(tiny_encoder(), [Contrastive()])
    terms = module.compute_terms(text_batch(module.encoder, ["a dog", "a cat", "some rain"]), 0)
    logged: dict[str, bool] = {}
    monkeypatch.setattr(SentRepModule, "device", torch.device(device))
    monkeypatch.setattr(SentRepModule, "log", lambda self, name, value, prog_bar: logged.update({name: prog_bar}))
    monkeypatch.setattr(SentRepModule, "log_dict", lambda self, values: None)
    module.trainer = SimpleNamespace(log_every_n_steps=0, global_step=0, current_epoch=0)
    module._log(terms)
    assert logged == {"train/loss": in_lightnings_bar}
