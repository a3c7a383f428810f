"""A streamed run from the command line: it ends where it is told to, and a resumed one is the uninterrupted one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sentrep.cli import main

STREAM = [
    *("--data.streaming", "true", "--data.shuffle_buffer", "8"),
    *("--data.num_workers", "1", "--data.batch_size", "3"),
]


def fit(*words: str, steps: int) -> int:
    common = ["--trainer.val_check_interval", "4", "--trainer.logger", "false"]
    common += ["--model.scheduler", "constant"]  # the course of any other rate depends on the number of steps
    common += ["--checkpoint.monitor", "null", "--checkpoint.every_n_train_steps", "4"]
    return main(["fit", "-c", "run.yaml", *STREAM, *common, "--trainer.max_steps", str(steps), *words])


def weights(folder: str) -> dict[str, torch.Tensor]:
    (path,) = Path(folder).rglob("last.ckpt")
    checkpoint = torch.load(path, weights_only=True)
    assert checkpoint["global_step"] == (8 if folder == "first" else 12)
    state: dict[str, torch.Tensor] = checkpoint["state_dict"]
    return state


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_streamed_run_resumes_exactly(workplace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """12 steps are more than two epochs of 5 batches; the checkpoint at step 8 is in the middle of the second."""
    assert fit("--trainer.default_root_dir", "whole", steps=12) == 0
    assert fit("--trainer.default_root_dir", "first", steps=8) == 0
    (path,) = Path("first").rglob("last.ckpt")
    assert fit("--trainer.default_root_dir", "second", "--ckpt_path", str(path), steps=12) == 0
    whole, resumed = weights("whole"), weights("second")
    started = weights("first")
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    assert any(not torch.equal(whole[name], started[name]) for name in whole)
    errors = capfd.readouterr().err
    assert "end of an epoch: 1 rows that fill no batch are left out, 0 blank ones skipped" in errors
    assert "TOKENIZERS_PARALLELISM" not in errors


def test_without_a_number_of_steps(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fit(steps=-1) == 1
    assert "set --trainer.max_steps" in capsys.readouterr().err
