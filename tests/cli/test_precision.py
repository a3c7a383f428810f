"""Which precision a GPU trains in where nobody names one, and how often the bar asks for the loss."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from jsonargparse import Namespace

from sentrep.cli.run import _on_bf16_gpu, bar_on_gpu


@pytest.mark.parametrize("bf16", [True, False, None])
@pytest.mark.parametrize("settings", [{}, {"accelerator": "cpu"}, {"strategy": "ddp_fork"}], ids=str)
def test_a_gpu_with_bfloat16_trains_in_it(
    settings: dict[str, Any], bf16: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``bf16`` None: no GPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: bf16 is not None)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: bf16 or including_emulation)
    trainer = Namespace(**{"accelerator": "auto", "strategy": "auto", **settings})
    assert bool(_on_bf16_gpu(trainer)) == (bool(bf16) and not settings)


def test_the_bar_is_refreshed_seldom_where_that_waits_for_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    for gpu, rates in ((False, []), (True, [20])):
        monkeypatch.setattr(torch.cuda, "is_available", lambda gpu=gpu: gpu)
        assert [bar.refresh_rate for bar in bar_on_gpu({"trainer": {}})] == rates
        assert bar_on_gpu({"trainer": {"callbacks": "RichProgressBar"}}) == []
