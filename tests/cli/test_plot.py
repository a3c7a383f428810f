"""``sentrep plot``: every kind on real runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentrep.cli import main


def pictures(stem: str) -> list[bool]:
    return [Path(f"{stem}{ending}").stat().st_size > 1000 for ending in (".png", ".svg")]


def test_curves_and_a_sweep_of_runs(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fit = ["fit", "-c", "run.yaml", "--trainer.log_every_n_steps", "1"]
    for seed in (1, 2):
        words = ["--seed_everything", str(seed), "--model.objectives.simcse.temperature", str(seed / 10)]
        assert main([*fit, *words, "--trainer.logger.save_dir", f"runs/{seed}"]) == 0
    capsys.readouterr()
    assert main(["plot", "curves", "runs/1", "runs/2", "--metrics", "train/loss", "val/sts", "--smooth", "2"]) == 0
    assert capsys.readouterr().out == "curves.png and curves.svg\n"
    words = [
        "--x",
        "model.objectives.simcse.temperature",
        "--y",
        "val/dev",
        "--take",
        "last",
        "--output",
        "new/sweep.png",
    ]
    assert main(["plot", "sweep", "[runs]", *words]) == 0
    for stem in ("curves", "new/sweep"):
        assert pictures(stem) == [True, True]


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["curvs"], 2, "plot: no 'curvs'; did you mean 'curves'?"),
        (["curves"], 2, "runs"),
        (["curves", "nowhere"], 1, "nowhere: no such folder of a run"),
        (["sweep", "nowhere"], 2, "x"),
    ],
)
def test_refusals(words: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", *words]) == status
    assert message in capsys.readouterr().err


def test_help_lists_the_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", "--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {kind}" in out for kind in ("curves", "sweep"))
