"""fit, validate, test and predict, on a tiny model and in this process."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from lightning.pytorch import Callback

from sentrep.cli import main
from support import fit, forked, write_workplace


def saved_config(folder: Path, version: int = 0, name: str = "run") -> dict:
    return yaml.safe_load((folder / f"runs/{name}/version_{version}/config.yaml").read_text())


def error_of(capsys: pytest.CaptureFixture[str]) -> str:
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("sentrep: error: ")]
    assert len(lines) == 1
    return lines[0].removeprefix("sentrep: error: ")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of a finished run."""
    folder = tmp_path_factory.mktemp("trained")
    write_workplace(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert fit("--report=null") == 0
    return folder / "runs/run/version_0/checkpoints/last.ckpt"


def test_fit_keeps_the_best_and_the_last_checkpoint_beside_the_config(workplace: Path) -> None:
    assert fit() == 0
    folder = workplace / "runs/run/version_0"
    names = sorted(path.name for path in (folder / "checkpoints").iterdir())
    assert len(names) == 2
    assert names[0] == "last.ckpt"
    assert names[1].startswith("step=")
    assert "-sts=" in names[1]
    assert json.loads((folder / "selection.json").read_text())["labels"] == ["dev"]
    config = saved_config(workplace)
    assert config["trainer"]["use_distributed_sampler"] is False
    assert config["trainer"]["check_val_every_n_epoch"] is None  # so that val_check_interval counts across epochs
    assert config["seed_everything"] == 42
    told = yaml.safe_load((folder / "hparams.yaml").read_text())  # what any logger is told
    expected = {
        "model.objectives.simcse": "Contrastive",
        "model.objectives.simcse.temperature": 0.1,
        "data.batch_size": 4,
    }
    assert expected.items() <= told.items()
    assert {"seed_everything", "trainer.max_steps", "data.fingerprint", "model.encoder.pooling"} <= told.keys()
    assert not any(key.startswith("trainer.logger") for key in told)  # which may hold a password
    assert not any("init_args" in key or isinstance(value, dict) for key, value in told.items())


def test_loggers_by_the_override_that_ships(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Weights & Biases, the last of its loggers, is not here, which is said before anything is trained."""
    assert fit("-c", "overrides/loggers") == 1
    assert re.search(r"wandb\S* not met", error_of(capsys))


def test_the_saved_config_runs_again_as_it_is(workplace: Path) -> None:
    assert fit("--model.objectives.gone=null", "--model.optimizer.lr", "1e-4", "--model.warmup_steps", "0.5") == 0
    first = workplace / "runs/run/version_0/config.yaml"
    assert main(["fit", "--config", str(first)]) == 0
    assert saved_config(workplace, version=1) == saved_config(workplace)
    states = [
        torch.load(workplace / f"runs/run/version_{version}/checkpoints/last.ckpt", weights_only=True)["state_dict"]
        for version in (0, 1)
    ]
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


EVERY_STEP = ["--checkpoint.every_n_train_steps=1", "--trainer.log_every_n_steps=1"]


@pytest.mark.parametrize(
    ("monitor", "words", "labels"), [("val/dev/alignment", [], ["dev"]), ("train/loss", EVERY_STEP, [])]
)
def test_the_monitor_gives_the_name_of_the_checkpoint(
    monitor: str, words: list[str], labels: list[str], workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fit(f"--checkpoint.monitor={monitor}", "--checkpoint.mode=min", *words) == 0
    settings = saved_config(workplace)["checkpoint"]["init_args"]
    assert (settings["monitor"], settings["mode"]) == (monitor, "min")
    folder = workplace / "runs/run/version_0"
    (best,) = (path.name for path in (folder / "checkpoints").glob("step=*.ckpt"))
    assert f"-{monitor.removeprefix('val/').replace('/', '-')}=" in best
    selection = json.loads((folder / "selection.json").read_text())
    assert selection["labels"] == labels
    assert selection["reason"] in capsys.readouterr().out
    assert (folder / "metrics.csv").read_text().startswith("step,")


class Steps(Callback):
    """A callback of a user, with a score of its own."""

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        pl_module.log("val/steps", float(trainer.global_step))


@pytest.mark.slow
def test_a_checkpoint_is_chosen_by_a_callback_of_the_user(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    callback = [f"--trainer.callbacks={__name__}.Steps", "--checkpoint.monitor=val/steps", "--report=null"]
    assert fit(*callback) == 1
    assert error_of(capsys) == "checkpoint.monitor val/steps: say which way is better: checkpoint.mode max or min"
    assert fit(*callback, "--checkpoint.mode=min") == 0


def test_a_checkpoint_is_scored_without_its_config_and_original_model(
    trained: Path, workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(trained), "--output", "folder"]) == 0
    assert fit("--model.encoder.backbone=folder", "--model.encoder.tokenizer=null") == 0
    shutil.rmtree(workplace / "folder")
    checkpoint = workplace / "runs/run/version_0/checkpoints/last.ckpt"
    options = ["--ckpt_path", str(checkpoint), "--trainer.accelerator=cpu"]
    capsys.readouterr()
    assert main(["test", *options, "--data.test=[dev.csv]"]) == 0
    assert main(["validate", *options, "--data.val=[dev.csv]"]) == 0
    out, err = capsys.readouterr()
    assert "dev" in out
    assert "val/sts" in out
    assert "warning" not in err


def test_predict_writes_a_row_for_every_line(
    trained: Path, workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (workplace / "lines.txt").write_text("one\n\nthree\n")
    options = ["--data.predict=lines.txt", "--data.batch_size=2", "--trainer.accelerator=cpu"]
    assert main(["predict", "--ckpt_path", str(trained), *options]) == 0
    path = workplace / "runs/default/version_0/predictions.npy"
    assert f"3 embeddings: {path.relative_to(workplace)}" in capsys.readouterr().out
    assert np.load(path).shape == (3, 32)


def test_resume_without_a_config_takes_the_model_of_the_checkpoint(
    trained: Path, workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--data.train=corpus.txt", "--data.batch_size=4", "--trainer.max_steps=5", "--trainer.accelerator=cpu"]
    assert main(["fit", "--ckpt_path", str(trained), *words]) == 0
    assert "warning" not in capsys.readouterr().err
    model = saved_config(Path(), name="default")["model"]
    assert model["objectives"]["simcse"]["init_args"]["temperature"] == 0.1


def test_a_class_of_the_user_with_the_name_of_the_recipes_class_is_built(workplace: Path) -> None:
    """In a process of its own, where two classes of one name disturb no other test."""
    Path("mine.py").write_text(
        "import torch\nfrom sentrep import objectives\n"
        "class Contrastive(objectives.Objective):\n"
        "    def forward(self, views, batch):\n        return views.anchor.square().mean()\n"
        "class AdamW(torch.optim.SGD):\n    pass\n"
    )
    words = ["--model.objectives.simcse=mine.Contrastive", "--model.optimizer=mine.AdamW", "--report=null"]
    process = forked(main, ["fit", "-c", "run.yaml", *words], said="said.txt")
    process.join()
    assert process.exitcode == 0, Path("said.txt").read_text()
    model = saved_config(workplace)["model"]
    assert model["objectives"]["simcse"]["class_path"] == "mine.Contrastive"
    assert model["optimizer"]["class_path"] == "mine.AdamW"
    content = torch.load(workplace / "runs/run/version_0/checkpoints/last.ckpt", weights_only=True)
    assert not any("exp_avg" in state for state in content["optimizer_states"][0]["state"].values())  # not AdamW's
    process = forked(main, ["fit", "-c", "run.yaml", "--ckpt_path=last", "--trainer.max_steps=6"], said="said.txt")
    process.join()
    assert process.exitcode == 1
    said = Path("said.txt").read_text()
    assert "model.objectives.simcse: 'mine.Contrastive' in the checkpoint, 'Contrastive' now" in said
    assert "model.optimizer: 'mine.AdamW' in the checkpoint, 'AdamW' now" in said
