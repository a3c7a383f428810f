"""Every run gets a folder of its own, and a run that resumes remembers its best checkpoint."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from jsonargparse import Namespace

from sentrep.cli import main
from sentrep.cli.layers import whole_tree
from sentrep.cli.run_folder import claim_version
from sentrep.cli.words import sort_words, split
from support import fit

RUN = Path("runs/run/version_0")


def claim(start: Any, numbers: Any) -> None:
    settings = Namespace(save_dir="runs", name="x", version=None)
    start.wait()
    claim_version(Namespace(class_path="lightning.CSVLogger", init_args=settings))
    numbers.put(settings.version)


def test_runs_that_begin_together_get_folders_of_their_own(in_folder: Path) -> None:
    context = multiprocessing.get_context("fork")
    start, numbers = context.Barrier(8), context.Queue()
    processes = [context.Process(target=claim, args=(start, numbers)) for _ in range(8)]
    for process in processes:
        process.start()
    assert sorted(numbers.get(timeout=60) for _ in processes) == list(range(8))
    for process in processes:
        process.join()


@pytest.mark.parametrize("rank", ["LOCAL_RANK", "NODE_RANK", "RANK"])
def test_only_the_first_process_of_a_run_claims_its_folder(
    rank: str, in_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv(rank, "1")
    settings = Namespace(save_dir="runs", name="x", version=None)
    assert claim_version(Namespace(class_path="lightning.CSVLogger", init_args=settings)) is None
    assert settings.version is None
    assert not Path("runs").exists()


def test_a_run_that_wrote_nothing_leaves_no_folder(workplace: Path) -> None:
    assert fit("--data.train=nowhere.txt") == 1
    assert fit("--model.optimizer.lr=x") == 2
    assert not any(Path("runs").rglob("version_*"))
    assert fit("--trainer.fast_dev_run=true") == 0
    assert not any(Path("runs").rglob("version_*"))


@pytest.mark.parametrize(
    ("words", "folder"),
    [
        (["--trainer.logger.version=mine"], "runs/run/mine"),
        (["--trainer.logger=false"], "."),
        (["--trainer.default_root_dir=root"], "root/run/version_0"),
        (["--trainer.default_root_dir=root", "--trainer.logger.save_dir=logs"], "logs/run/version_0"),
        (["--trainer.logger=[{class_path: CSVLogger, init_args: {save_dir: csv, name: x}}]"], "csv/x/version_0"),
    ],
)
def test_last_is_found_where_the_run_lies(words: list[str], folder: str, workplace: Path) -> None:
    assert fit("--trainer.max_steps=1", "--data.val=[]", "--report=null", *words) == 0
    last = Path(folder, "checkpoints", "last.ckpt")
    assert last.exists()
    layers, flags, own = sort_words(split(["-c", "run.yaml", "--ckpt_path=last", *words]))
    tree = whole_tree("fit", layers, flags, own)
    assert tree["ckpt_path"] == str(last)
    logger = tree["trainer"]["logger"]  # of a list of loggers the resumed run gets a folder of its own
    assert not isinstance(logger, dict) or logger["init_args"]["version"] == Path(folder).name


@pytest.mark.slow
def test_a_loggers_own_version_and_a_test_keep_out_of_the_way(
    workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    csv = ["--trainer.logger=CSVLogger", "--trainer.logger.save_dir=runs", "--trainer.logger.name=run"]
    assert fit(*csv) == 0
    assert (RUN / "metrics.csv").is_file()
    checkpoint = RUN / "checkpoints" / "last.ckpt"
    assert main(["test", "-c", "run.yaml", "--ckpt_path=last", "--data.test=[dev.csv]"]) == 0
    assert [folder.name for folder in Path("runs/run").iterdir()] == ["version_0"], "a test leaves no folder"
    assert main(["test", "-c", "run.yaml", "--ckpt_path=last", "--data.test=[dev.csv]", *csv]) == 0
    assert capsys.readouterr().out.endswith("log         runs/run/version_1\n")  # the record that was asked for
    assert fit("--ckpt_path=last", "--trainer.max_steps=5") == 0  # goes on with the run, not with the test
    assert torch.load(checkpoint, weights_only=True)["global_step"] == 5


# --- the best checkpoint so far ---------------------------------------------------------------------------------------

BEST_FIRST = ["--checkpoint.monitor=step", "--checkpoint.mode=min", "--checkpoint.filename=step={step}"]
"""The first validation is the best there will be."""


def chosen(folder: str) -> dict[str, Any]:
    return dict(yaml.safe_load(Path(folder, "selection.json").read_text()))


@pytest.mark.slow
def test_the_best_so_far_is_remembered_in_another_folder(workplace: Path) -> None:
    steps = ["--trainer.max_steps=6", "--trainer.val_check_interval=2", *BEST_FIRST]
    assert fit(*steps, "--trainer.logger.name=whole") == 0
    assert chosen("runs/whole/version_0")["step"] == 2
    assert fit(*steps, "--trainer.max_steps=5") == 0
    assert fit(*steps, "--trainer.logger.name=new", f"--ckpt_path={RUN}/checkpoints/last.ckpt") == 0
    found = chosen("runs/new/version_0")
    assert (found["step"], found["checkpoint"]) == (2, str(RUN / "checkpoints" / "step=2.ckpt"))
    for name in ("new", "whole"):
        assert torch.load(f"runs/{name}/version_0/checkpoints/last.ckpt", weights_only=True)["global_step"] == 6


def test_a_best_that_is_gone_is_named(workplace: Path, caplog: pytest.LogCaptureFixture) -> None:
    steps = ["--trainer.max_steps=6", "--trainer.val_check_interval=2", *BEST_FIRST]
    assert fit(*steps, "--trainer.max_steps=4") == 0
    (RUN / "checkpoints" / "step=2.ckpt").unlink()
    with caplog.at_level("INFO", logger="lightning.pytorch.utilities.rank_zero"):
        assert fit(*steps, "--ckpt_path=last") == 0
    assert "the file of the best step so far is gone: the best is chosen from here on" in caplog.text
    assert chosen(str(RUN))["step"] == 6
