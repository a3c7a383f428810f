"""``sentrep plot``: every kind on real runs and a tiny model."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentrep.cli import main
from sentrep.data import toy
from support import tiny_encoder


def pictures(stem: str) -> list[bool]:
    return [Path(f"{stem}{ending}").stat().st_size > 1000 for ending in (".png", ".svg")]


def test_curves_plane_and_sweep_of_runs(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fit = ["fit", "-c", "run.yaml", "--trainer.log_every_n_steps", "1"]
    for seed in (1, 2):
        words = ["--seed_everything", str(seed), "--model.objectives.simcse.temperature", str(seed / 10)]
        assert main([*fit, *words, "--trainer.logger.save_dir", f"runs/{seed}"]) == 0
    capsys.readouterr()
    assert main(["plot", "curves", "runs/1", "runs/2", "--metrics", "train/loss", "val/sts", "--smooth", "2"]) == 0
    assert capsys.readouterr().out == "curves.png and curves.svg\n"
    assert main(["plot", "plane", "runs", "--path", "false", "--output", "new/plane.png"]) == 0
    words = ["--x", "model.objectives.simcse.temperature", "--y", "val/dev", "--take", "last"]
    assert main(["plot", "sweep", "[runs]", *words]) == 0
    for stem in ("curves", "new/plane", "sweep"):
        assert pictures(stem) == [True, True]
    assert main(["plot", "cosines", "runs"]) == 1
    assert "add CosineMonitor to trainer.callbacks" in capsys.readouterr().err
    for folder in ("1", "2"):
        (version,) = Path("runs", folder).glob("*/version_0")
        rows = [
            f"{step},{kind},{left},{left + 1},3\n"
            for step in (1, 2)
            for kind in ("positive", "negative")
            for left in (-1, 0)
        ]
        (version / "cosines.csv").write_text("step,kind,left,right,count\n" + "".join(rows))
    assert main(["plot", "cosines", "runs"]) == 0
    assert pictures("cosines") == [True, True]


def test_projection_negatives_and_scores_of_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    tiny_encoder(pooling="mean").save_pretrained(tmp_path / "model")
    rows = [f'"{text}",{"AB"[number % 2]}\n' for number, text in enumerate(toy.sentences(20))]
    Path("texts.csv").write_text("title,topic\n" + "".join(rows))
    words = ["model", "--texts", "texts.csv", "--column", "title", "--labels", "topic", "--device", "cpu"]
    assert main(["plot", "projection", *words, "--method", "tsne", "--limit", "15"]) == 0
    assert main(["plot", "projection", *words, "--output", "pca", "--pooling", "cls", "--seed", "3"]) == 0
    assert "A" in Path("pca.svg").read_text()
    capsys.readouterr()
    words = ["model", "--texts", "texts.csv", "--column", "title", "--device", "cpu", "--batches", "3"]
    assert main(["plot", "negatives", *words, "--batch_sizes", "5", "12"]) == 0
    table = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert table[0] == ["batch", "size", "nearest", "2nd", "3rd", "4th"]
    assert [line[0] for line in table[2:4]] == ["5", "12"]
    assert main(["plot", "negatives", *words, "--batch_sizes", "[5,12]", "--output", "again"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()][:4] == table[:4]
    assert main(["plot", "negatives", *words, "--output", "usual"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.strip()][2] == "16"
    rows = [f'"{text}",a b,{number}\n' for number, text in enumerate(toy.sentences(9))]
    Path("pairs.csv").write_text("one,two,gold\n" + "".join(rows))
    assert main(["plot", "scores", "model", "--set", "pairs.csv", "--columns", "[one,two,gold]"]) == 0
    assert main(["plot", "scores", "model", "--set", "toy-dev", "--output", "toy"]) == 0
    for stem in ("projection", "pca", "negatives", "usual", "scores", "toy"):
        assert pictures(stem) == [True, True]


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["curvs"], 2, "plot: no 'curvs'; did you mean 'curves'?"),
        (["curves"], 2, "runs"),
        (["curves", "nowhere"], 1, "nowhere: no such folder of a run"),
        (["sweep", "nowhere"], 2, "x"),
        (["projection", "nowhere", "--texts", "nothing.txt"], 1, "nothing.txt: no such file"),
    ],
)
def test_refusals(words: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", *words]) == status
    assert message in capsys.readouterr().err


def test_help_lists_the_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", "--help"]) == 0
    out = capsys.readouterr().out
    assert all(
        f"  {kind}" in out for kind in ("curves", "cosines", "plane", "sweep", "projection", "negatives", "scores")
    )
