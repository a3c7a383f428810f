"""Which precision a run trains in where nobody names one, and how often the bar asks for the loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from jsonargparse import Namespace

from sentrep.cli import main
from sentrep.cli.precision import settle_precision
from sentrep.cli.run import bar_on_gpu
from sentrep.training.exact_resume import RECORD


def trainer(**settings: Any) -> Namespace:
    return Namespace(**{"precision": None, "plugins": None, "accelerator": "auto", "strategy": "auto", **settings})


@pytest.fixture
def products(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What torch was told about products of float32."""
    said: list[str] = []
    monkeypatch.setattr(torch, "set_float32_matmul_precision", said.append)
    return said


@pytest.mark.parametrize("bf16", [True, False, None])
@pytest.mark.parametrize(
    "settings",
    [{}, {"precision": "32-true"}, {"accelerator": "cpu"}, {"strategy": "ddp_fork"}, {"plugins": ["bf16"]}],
    ids=str,
)
def test_a_gpu_trains_in_what_it_computes_fastest(
    settings: dict[str, Any], bf16: bool | None, products: list[str], monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    """``bf16`` None: no GPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: bf16 is not None)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: bf16 or including_emulation)
    found = settle_precision(trainer(**settings), None)
    lines = capfd.readouterr().err.splitlines()
    named = settings == {"precision": "32-true"}
    if bf16 is None or (settings and not named):
        assert (found, products, lines) == ({}, [], [])
        return
    assert found == ({"precision": "bf16-mixed"} if bf16 and not named else {})
    assert products == ([] if bf16 and not named else ["high"])
    assert ("NVIDIA_TF32_OVERRIDE=0" in lines[-1]) == bool(products)
    if not named:
        assert ("bf16-mixed" if bf16 else "float32") in lines[0]
        assert "--trainer.precision" in lines[0]


@pytest.mark.parametrize("saved", ["32-true", "bf16-mixed"])
def test_a_resumed_run_keeps_its_precision_on_any_device(
    saved: str, products: list[str], monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    for gpu in (True, False):
        monkeypatch.setattr(torch.cuda, "is_available", lambda gpu=gpu: gpu)
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: True)
        checkpoint = {RECORD: {"trainer.precision": saved}}
        assert settle_precision(trainer(), checkpoint) == {"precision": saved}
        assert ("as in the checkpoint" in capfd.readouterr().err) == (gpu != (saved == "bf16-mixed"))
        assert settle_precision(trainer(precision="64-true"), checkpoint) == {}
    assert not products


@pytest.mark.parametrize("able", [{}, {"avx512_bf16": True}, {"amx_bf16": True}], ids=str)
def test_bf16_without_its_instructions_is_said_to_be_slow(
    able: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"architecture": "x86_64", **able}, raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    settle_precision(trainer(precision="bf16-mixed"), None)
    assert ("no instructions for bfloat16" in capfd.readouterr().err) == (not able)
    settle_precision(trainer(precision="32-true"), None)
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_the_precision_is_recorded_and_a_named_one_must_be_the_checkpoints(
    workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["fit", "-c", "run.yaml", "--model.scheduler=constant", "--trainer.max_steps"]
    folder = Path("runs/run/version_0")
    assert main([*words, "2", "--trainer.precision=bf16-mixed"]) == 0
    assert main([*words, "3", "--ckpt_path=last"]) == 0
    assert "bf16-mixed, as in the checkpoint" in capsys.readouterr().err
    last = torch.load(folder / "checkpoints/last.ckpt", weights_only=True)
    assert (last["global_step"], last[RECORD]["trainer.precision"]) == (3, "bf16-mixed")
    assert yaml.safe_load((folder / "config.yaml").read_text())["trainer"]["precision"] is None
    assert main([*words, "4", "--ckpt_path=last", "--trainer.precision=32-true"]) == 1
    assert "trainer.precision: 'bf16-mixed' in the checkpoint, '32-true' now" in capsys.readouterr().err


def test_the_bar_is_refreshed_seldom_where_that_waits_for_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    for gpu, rates in ((False, []), (True, [20])):
        monkeypatch.setattr(torch.cuda, "is_available", lambda gpu=gpu: gpu)
        assert [bar.refresh_rate for bar in bar_on_gpu({"trainer": {}})] == rates
        assert bar_on_gpu({"trainer": {"callbacks": "RichProgressBar"}}) == []
