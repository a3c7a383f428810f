"""Which precision a GPU trains in where nobody names one, and how often the bar asks for the loss."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from jsonargparse import Namespace

from sentrep.cli.run import bar_on_gpu, gpu_precision


@pytest.mark.parametrize("bf16", [True, False, None])
@pytest.mark.parametrize(
    "settings",
    [{}, {"precision": "32-true"}, {"accelerator": "cpu"}, {"strategy": "ddp_fork"}, {"plugins": ["bf16"]}],
    ids=str,
)
def test_a_gpu_trains_in_what_it_computes_fastest(
    settings: dict[str, Any], bf16: bool | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """``bf16`` None: no GPU."""
    products: list[str] = []
    monkeypatch.setattr(torch, "set_float32_matmul_precision", products.append)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: bf16 is not None)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: bf16 or including_emulation)
    start = {"precision": None, "plugins": None, "accelerator": "auto", "strategy": "auto"}
    caplog.set_level("INFO")
    found = gpu_precision(Namespace(**{**start, **settings}))
    named = settings == {"precision": "32-true"}
    if bf16 is None or (settings and not named):
        assert (found, products, caplog.messages) == ({}, [], [])
        return
    in_bf16 = bf16 and not named
    assert found == ({"precision": "bf16-mixed"} if in_bf16 else {})
    assert products == ([] if in_bf16 else ["high"])
    (line,) = caplog.messages
    assert ("--trainer.precision" if in_bf16 else "NVIDIA_TF32_OVERRIDE=0") in line


def test_the_bar_is_refreshed_seldom_where_that_waits_for_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    for gpu, rates in ((False, []), (True, [20])):
        monkeypatch.setattr(torch.cuda, "is_available", lambda gpu=gpu: gpu)
        assert [bar.refresh_rate for bar in bar_on_gpu({"trainer": {}})] == rates
        assert bar_on_gpu({"trainer": {"callbacks": "RichProgressBar"}}) == []
