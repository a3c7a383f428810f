"""Two runs never meet: folders are claimed and locked, and a run that goes on remembers its best checkpoint."""

from __future__ import annotations

import multiprocessing
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from sentrep.cli import main
from sentrep.cli.runs.checkpoints import newest_intact
from sentrep.cli.runs.run_folders import LOCK, RunFolders, is_leader
from sentrep.errors import InputError
from sentrep.io.files import BusyError, hold
from support import fit, forked

RUN = Path("runs/run/version_0")


def claim(parent: Path, start: Any, numbers: Any) -> None:
    with RunFolders() as folders:
        start.wait()
        number = folders.claim_version(parent)
        (parent / f"version_{number}" / "config.yaml").touch()
        numbers.put(number)


def test_runs_that_begin_together_get_folders_of_their_own(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    start, numbers = context.Barrier(8), context.Queue()
    processes = [context.Process(target=claim, args=(tmp_path / "x", start, numbers)) for _ in range(8)]
    for process in processes:
        process.start()
    assert sorted(numbers.get(timeout=60) for _ in processes) == list(range(8))
    for process in processes:
        process.join()


@pytest.mark.slow
def test_three_fits_started_together_leave_three_complete_folders(workplace: Path) -> None:
    words = ["fit", "-c", "run.yaml", "--trainer.max_steps=2"]
    runs = [forked(main, words, said=f"said-{number}.txt") for number in range(3)]
    for number, run in enumerate(runs):
        run.join(300)
        assert run.exitcode == 0, Path(f"said-{number}.txt").read_text()
    folders = sorted(Path("runs/run").iterdir())
    assert [folder.name for folder in folders] == ["version_0", "version_1", "version_2"]
    for folder in folders:
        assert [path.name for path in folder.glob("config*.yaml")] == ["config.yaml"]
        assert [path.name for path in (folder / "checkpoints").glob("last*")] == ["last.ckpt"]
        assert len(list(folder.glob("events.*"))) == 1
        assert (folder / "model" / "model.safetensors").is_file()
        settings = yaml.safe_load((folder / "config.yaml").read_text())
        assert settings["trainer"]["logger"]["init_args"]["version"] is None  # it starts a run of its own


@pytest.mark.parametrize(
    ("words", "folder"),
    [
        (["--ckpt_path=last"], "runs/run/version_0"),
        (["--trainer.logger.version=0"], "runs/run/version_0"),
        (["--trainer.logger=false"], "."),
        (["--trainer.logger=false", "--ckpt_path=last"], "."),
        (["--checkpoint.dirpath=saved"], "saved"),
        (["--trainer.logger=CSVLogger", "--trainer.logger.save_dir=csv", "--trainer.logger.version=0"],
         "csv/lightning_logs/version_0"),
    ],
)  # fmt: skip
def test_a_folder_that_is_trained_in_is_refused(
    words: list[str], folder: str, workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    with hold(Path(folder, LOCK), "x"):
        before = sorted(workplace.rglob("*"))
        assert fit(*words) == 1
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    found = re.fullmatch(r"sentrep: error: another process is at work on the run in (.+) \(process .+\); .+", line)
    assert found
    assert Path(found[1]).resolve() == Path(folder).resolve()
    assert [path for path in sorted(workplace.rglob("*")) if path not in before and "cache" not in path.parts] == []


def test_a_run_that_wrote_nothing_leaves_no_folder(workplace: Path) -> None:
    assert fit("--data.train=nowhere.txt") == 1
    assert fit("--model.optimizer.lr=x") == 2
    assert not any(Path("runs").rglob("version_*"))
    assert fit("--trainer.fast_dev_run=true") == 0
    assert not Path("runs").exists()


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


def test_only_the_first_process_of_a_run_holds_its_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOCAL_RANK", "NODE_RANK", "RANK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert is_leader()
    for name in ("LOCAL_RANK", "NODE_RANK", "RANK"):
        with monkeypatch.context() as patch:
            patch.setenv(name, "1")
            assert not is_leader()
            with RunFolders() as folders:
                folders.hold(tmp_path / "x")
    assert not (tmp_path / "x").exists()
    with RunFolders() as folders, RunFolders() as others:
        folders.hold(tmp_path / "x")
        folders.hold(tmp_path / "x")
        with pytest.raises(BusyError):
            others.hold(tmp_path / "x")
    assert not (tmp_path / "x").exists()  # nothing was written


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


def test_a_best_that_is_gone_is_named(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = ["--trainer.max_steps=6", "--trainer.val_check_interval=2", *BEST_FIRST]
    assert fit(*steps, "--trainer.max_steps=4") == 0
    (RUN / "checkpoints" / "step=2.ckpt").unlink()
    assert fit(*steps, "--ckpt_path=last") == 0
    said = capsys.readouterr().err
    assert "does not know the best step so far, or its file is gone: the best is chosen from here on" in said
    assert chosen(str(RUN))["step"] == 6
    other = ["--checkpoint.monitor=val/sts", "--checkpoint.mode=max", "--ckpt_path=last", "--trainer.max_steps=8"]
    assert fit(*steps, *other) == 0
    assert "does not know the best val/sts so far" in capsys.readouterr().err


# --- what is damaged, and what is not ---------------------------------------------------------------------------------


def test_an_intact_checkpoint_that_cannot_be_loaded_keeps_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save({"global_step": 3, "of a plug-in": Path("x")}, tmp_path / "last.ckpt")
    torch.save({"global_step": 2}, tmp_path / "weights.ckpt")
    edited = {key: {} for key in ("sentrep", "state_dict", "loops", "optimizer_states")}
    torch.save({**edited, "global_step": "one"}, tmp_path / "edited.ckpt")
    assert newest_intact(tmp_path, tidy=True) is None
    assert {path.name for path in tmp_path.iterdir()} == {"edited.ckpt", "last.ckpt", "weights.ckpt"}
    said = capsys.readouterr().err
    assert f"{tmp_path}/last.ckpt is intact but cannot be loaded here" in said
    for name in ("weights", "edited"):
        assert f"{tmp_path}/{name}.ckpt has no state to go on from" in said


def test_a_checkpoint_that_cannot_be_opened_stops_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.save({"global_step": 3}, tmp_path / "last.ckpt")

    def refuse(path: Path, *_: Any) -> Any:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(zipfile, "ZipFile", refuse)
    with pytest.raises(InputError, match=r"last\.ckpt: cannot be read \(Permission denied\)"):
        newest_intact(tmp_path, tidy=True)
    assert [path.name for path in tmp_path.iterdir()] == ["last.ckpt"]
