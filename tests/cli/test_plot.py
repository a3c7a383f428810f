"""``sentrep plot``: every kind on real runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from evaluation.test_runs import make_run

from sentrep.cli import main


def pictures(stem: str) -> list[bool]:
    return [Path(f"{stem}{ending}").stat().st_size > 1000 for ending in (".png", ".svg")]


def test_curves_and_a_sweep_of_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for seed in (1, 2):
        make_run(Path(f"runs/{seed}"), seed, seed / 10, "step,train/loss,val/sts\n1,2.5,\n2,2.0,20\n3,1.5,30\n")
    assert main(["plot", "curves", "runs/1", "runs/2", "--metrics", "train/loss", "val/sts", "--smooth", "2"]) == 0
    assert capsys.readouterr().out == "curves.png and curves.svg\n"
    words = ["--x", "model.objectives.simcse.temperature", "--y", "val/sts", "--take", "last"]
    assert main(["plot", "sweep", "[runs]", *words, "--output", "new/sweep.png"]) == 0
    for stem in ("curves", "new/sweep"):
        assert pictures(stem) == [True, True]
    assert main(["plot", "curves", "runs"]) == 1
    assert "curves.png: is there already; name another output" in capsys.readouterr().err
    assert main(["plot", "curves", "runs", "--overwrite", "true"]) == 0
