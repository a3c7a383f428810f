"""Going on with a run: which checkpoint, with which settings, and from where."""

from __future__ import annotations

import csv
import itertools
import json
import os
import random
import shutil
import signal
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from lightning.pytorch import Callback

from sentrep.cli import main
from sentrep.data import toy
from sentrep.training import StopOnSignal
from support import STEADY, assert_same, fit, forked, forked_ranks, write_workplace

CHECKPOINTS = Path("runs/run/version_0/checkpoints")


def weights(path: Path) -> dict[str, Any]:
    return torch.load(path, weights_only=True)["state_dict"]


@pytest.mark.parametrize(
    ("end", "epochs"),
    [
        (4, -1),
        pytest.param(3, 3, marks=pytest.mark.slow),
    ],  # at the end of an epoch of four; within it, where the steps of the epochs are counted first
)
def test_last_goes_on_in_the_folder_of_the_run(
    end: int, epochs: int, workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limit = f"--trainer.max_epochs={epochs}"
    assert fit(limit, "--trainer.max_steps=6", "--trainer.default_root_dir=whole", "--trainer.logger=false") == 0
    CHECKPOINTS.mkdir(parents=True)
    (CHECKPOINTS / ".last.ckpt.0123abcd.tmp").touch()  # of a process that was killed in its first checkpoint
    assert fit(limit, "--ckpt_path=last", f"--trainer.max_steps={end}") == 0  # nothing there yet: from the beginning
    assert "no checkpoint in runs/run/version_0/checkpoints yet" in capsys.readouterr().err
    assert torch.load(CHECKPOINTS / "last.ckpt", weights_only=True)["global_step"] == end
    assert fit(limit, "--ckpt_path=last", "--trainer.max_steps=6") == 0
    assert f"--ckpt_path last is {CHECKPOINTS / 'last.ckpt'}" in capsys.readouterr().err
    assert [path.name for path in Path("runs/run").iterdir()] == ["version_0"]
    assert_same(weights(CHECKPOINTS / "last.ckpt"), weights(Path("whole/checkpoints/last.ckpt")))


@pytest.mark.slow
def test_a_run_killed_behind_its_last_step_gets_its_last_checkpoint(workplace: Path) -> None:
    """Nothing is left to train, and ``last.ckpt`` is an older one."""
    every = ["--checkpoint.monitor=null", "--checkpoint.filename=step={step}", "--data.val=[]"]
    assert fit(*every, "--trainer.max_steps=2") == 0
    before = (CHECKPOINTS / "last.ckpt").read_bytes()
    assert fit(*every, "--ckpt_path=last") == 0
    expected = weights(CHECKPOINTS / "last.ckpt")
    (CHECKPOINTS / "last.ckpt").write_bytes(before)
    assert fit(*every, "--ckpt_path=last") == 0
    assert_same(weights(CHECKPOINTS / "last.ckpt"), expected)
    assert torch.load(CHECKPOINTS / "last.ckpt", weights_only=True)["global_step"] == 4
    assert fit(*every, "--ckpt_path=last", "--trainer.max_steps=6") == 0
    assert torch.load(CHECKPOINTS / "last.ckpt", weights_only=True)["global_step"] == 6


@pytest.mark.slow
def test_other_settings_are_listed_and_refused(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fit("--trainer.max_steps=3") == 0
    capsys.readouterr()
    backbone = {"hidden_act": "relu", "num_attention_heads": 4}  # whose weights have the same shapes
    changes = [
        f"--model.encoder.backbone={json.dumps(backbone)}",
        "--model.objectives.simcse.temperature=0.2", "--model.optimizer.lr=1e-4", "--data.batch_size=2",
        "--trainer.accumulate_grad_batches=3",
    ]  # fmt: skip
    resume = ["--ckpt_path=last", "--trainer.max_steps=6", "--data.num_workers=0", "--collapse=null"]
    assert fit(*resume, *changes) == 1
    lines = capsys.readouterr().err.splitlines()
    assert {line for line in lines if " in the checkpoint, " in line} == {
        "model.encoder.backbone.hidden_act: 'gelu' in the checkpoint, 'relu' now",
        "model.encoder.backbone.num_attention_heads: 2 in the checkpoint, 4 now",
        "model.objectives.simcse.temperature: 0.1 in the checkpoint, 0.2 now",
        "model.optimizer.lr: 3e-05 in the checkpoint, 0.0001 now",
        "data.batch_size: 4 in the checkpoint, 2 now",
        "trainer.accumulate_grad_batches: 1 in the checkpoint, 3 now",
    }
    assert "add --allow-changes" in lines[-1]
    assert fit(*resume, *changes, "--allow-changes") == 0
    warnings = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")]
    assert "model.optimizer.lr" in warnings[0]
    assert "the epoch starts again" in warnings[1]
    assert torch.load(CHECKPOINTS / "last.ckpt", weights_only=True)["global_step"] == 6
    assert fit(*resume, "--trainer.max_steps=7") == 1  # of the run that has gone on with the changes


@pytest.mark.slow
def test_a_tokenizer_that_was_changed_in_place_is_refused(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--model.encoder.tokenizer=words", "--ckpt_path=last"]
    toy.tokenizer().save_pretrained("words")
    assert fit("--trainer.max_steps=2", *words) == 0
    shutil.copytree("words", "copy")
    assert fit("--trainer.max_steps=3", "--model.encoder.tokenizer=copy", "--ckpt_path=last") == 0
    file = Path("words/tokenizer.json")
    content = json.loads(file.read_text())
    vocabulary = content["model"]["vocab"]
    (first, one), (second, two) = list(vocabulary.items())[100:102]
    vocabulary.update({first: two, second: one})
    file.write_text(json.dumps(content))
    capsys.readouterr()
    assert fit("--trainer.max_steps=4", *words) == 1
    assert "model.encoder.tokenizer" in capsys.readouterr().err.splitlines()[-1]


def test_a_text_that_was_changed_in_place_is_refused(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fit("--trainer.max_steps=3") == 0
    Path("corpus.txt").write_text("".join(reversed(Path("corpus.txt").read_text().splitlines(keepends=True))))
    assert fit("--ckpt_path=last", "--trainer.max_steps=5") == 1
    assert "--allow-changes" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "name"),
    [
        (2, ["--trainer.logger.name=mine"]),
        (3, ["--trainer.logger.name=mine"]),
        (4, []),
    ],
    ids=["after a validation", "between two", "at an epoch's end, without a name"],
)
def test_a_resumed_csv_has_every_row_under_its_step(
    end: int, name: list[str], workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logged = ["--trainer.log_every_n_steps=1", "--report=null", "--trainer.logger=CSVLogger", *name]
    assert fit(*logged, "--trainer.max_steps=6", "--trainer.logger.save_dir=whole") == 0
    logged.append("--trainer.logger.save_dir=parts")
    assert fit(*logged, f"--trainer.max_steps={end}") == 0
    assert fit(*logged, "--trainer.max_steps=6", "--ckpt_path=last") == 0
    assert "--ckpt_path last is parts/" in capsys.readouterr().err
    ((whole,), (parts,)) = (Path(folder).glob("*/version_0/metrics.csv") for folder in ("whole", "parts"))
    assert whole.read_text() == parts.read_text()
    steps = [int(row["step"]) for row in csv.DictReader(whole.open()) if row["train/loss"]]
    assert steps == [1, 2, 3, 4, 5, 6]


class Sender(Callback):
    """Sends signals to this process at chosen moments of training."""

    moments: ClassVar[dict[str, list[int]]] = {}

    def _send(self, moment: str) -> None:
        for number in self.moments.pop(moment, []):
            os.kill(os.getpid(), number)

    def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
        self._send(f"batch {trainer.fit_loop.total_batch_idx + 1}")

    def on_validation_start(self, *_: Any) -> None:
        self._send("validation")

    def on_save_checkpoint(self, trainer: Any, *_: Any) -> None:
        self._send("save")


ACCUMULATED = ["--trainer.max_steps=6", "--trainer.accumulate_grad_batches=2", "--trainer.val_check_interval=4"]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The weights of a run that no signal reached."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    write_workplace(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert fit(*ACCUMULATED, "--trainer.logger=false", "--report=null") == 0
    return weights(folder / "checkpoints/last.ckpt")


@pytest.mark.parametrize(
    ("moment", "numbers", "status", "step"),
    [
        ("batch 3", [signal.SIGTERM], 143, 2),  # the first of two micro-batches of step 2
        pytest.param("batch 3", [signal.SIGTERM, signal.SIGTERM], 143, 2, marks=pytest.mark.slow),
        pytest.param("validation", [signal.SIGTERM], 143, 2, marks=pytest.mark.slow),
        pytest.param("save", [signal.SIGINT], 130, 2, marks=pytest.mark.slow),
        ("batch 5", [signal.SIGINT, signal.SIGINT], 130, 2),  # at once: the checkpoint of the validation stands
    ],
)
def test_signals(
    moment: str,
    numbers: list[int],
    status: int,
    step: int,
    uninterrupted: dict[str, Any],
    workplace: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Sender, "moments", {moment: numbers})
    start = StopOnSignal.on_train_start

    def with_sender(self: StopOnSignal, trainer: Any, module: Any) -> None:
        start(self, trainer, module)
        trainer.callbacks.append(Sender())

    monkeypatch.setattr(StopOnSignal, "on_train_start", with_sender)
    assert fit(*ACCUMULATED) == status
    assert Sender.moments == {}
    assert max(torch.load(path, weights_only=True)["global_step"] for path in CHECKPOINTS.glob("*.ckpt")) == step
    assert fit(*ACCUMULATED, "--ckpt_path=last") == 0
    assert_same(weights(CHECKPOINTS / "last.ckpt"), uninterrupted)


# --- what a killed process leaves -------------------------------------------------------------------------------------

RUN = CHECKPOINTS.parent
WORSE = ["--model.optimizer.lr=0.01", "--checkpoint.mode=min"]  # every validation has another score
OFTEN = [
    *WORSE,
    "--model.seed=11",
    "--trainer.max_steps=6",
    "--trainer.val_check_interval=2",
    "--checkpoint.every_n_train_steps=1",
]
EPOCHS = [*WORSE, "--model.seed=11", "--trainer.max_steps=8", "--trainer.val_check_interval=1.0"]  # of four steps


def left(run: Path) -> dict[str, Any]:
    """What a run that came to its end leaves: its files by name, its metrics and its choice."""
    ignored = ("config", "events.")  # a resumed run adds its own
    files = sorted(str(path.relative_to(run)) for path in run.rglob("*") if not path.name.startswith(ignored))
    metrics = [*csv.DictReader((run / "metrics.csv").open())]
    return {"files": files, "metrics": metrics, "chosen": json.loads((run / "selection.json").read_text())}


def test_a_run_with_nothing_left_to_train_writes_its_metrics(workplace: Path) -> None:
    assert fit("--trainer.max_steps=2") == 0
    expected = (RUN / "metrics.csv").read_bytes()
    (RUN / "metrics.csv").unlink()
    assert fit("--trainer.max_steps=2", "--ckpt_path=last") == 0
    assert (RUN / "metrics.csv").read_bytes() == expected


def killed_at(number: int, words: list[str]) -> int:
    """Run a command that is killed when it begins to write or to remove its n-th file."""
    count = itertools.count(1)

    def counted(function: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            if next(count) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)

        return call

    for name in ("replace", "remove"):
        setattr(os, name, counted(getattr(os, name)))
    return main(words)


@pytest.mark.slow
def test_ten_kills_leave_what_no_kill_leaves(workplace: Path) -> None:
    words = ["fit", "-c", "run.yaml", STEADY, *OFTEN, "--ckpt_path=last", "--trainer.max_steps=32"]
    assert main(words) == 0
    expected, end = left(RUN), weights(CHECKPOINTS / "last.ckpt")
    shutil.rmtree(RUN)
    draws, statuses = random.Random(0), []
    for _ in range(10):
        running = forked(killed_at, draws.randint(2, 12), words)
        running.join()
        statuses.append(running.exitcode)
    assert statuses == [-signal.SIGKILL] * 10
    assert main(words) == 0
    assert left(RUN) == expected
    assert_same(weights(CHECKPOINTS / "last.ckpt"), end)


PLUG = """
import os, signal
from lightning.pytorch import Callback


class Plug(Callback):
    def on_validation_start(self, trainer, module):
        if str(trainer.global_step) == os.environ.get("KILL_AT") and trainer.is_global_zero:
            os.killpg(0, signal.SIGKILL)
"""
BANK = "--model.objectives.simcse.negatives.bank"
SAM = "sentrep.stability.SAM"
KILLED = {
    "workers": ["--data.num_workers=2"],
    "streaming": ["--data.streaming=true", "--data.shuffle_buffer=8", "--data.num_workers=1"],
    "SAM": [f"--model.optimizer={SAM}", "--model.optimizer.base_optimizer=torch.optim.AdamW"],
    "bf16": ["--trainer.precision=bf16-mixed"],
    "accumulated": ["--trainer.accumulate_grad_batches=2"],
    "a bank": [f"{BANK}=MemoryBank", f"{BANK}.size=8"],
    "two nodes": ["--trainer.strategy=ddp", "--trainer.num_nodes=2", "--trainer.devices=1", "--data.batch_size=2"],
}
"""Kinds of runs that are killed twice; the plain one is killed ten times, above, and from Python in
`tests/unit/training/test_default_callbacks.py`."""


def run(words: list[str], name: str, kill_at: str = "") -> int:
    """Run ``sentrep fit`` in processes of its own, which are killed when the validation of a step begins."""
    words = ["fit", "-c", "run.yaml", STEADY, *words, f"--trainer.logger.name={name}", "--ckpt_path=last"]
    if "--trainer.num_nodes=2" in words:
        process, other = forked_ranks(main, words, nodes=2, KILL_AT=kill_at)
        process.join()
        other.join(0 if process.exitcode else 60)
        other.kill()
    else:
        process = forked(main, words, said="said-0.txt", KILL_AT=kill_at)
        process.join()
    return int(process.exitcode or 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "kills"),
    [(EPOCHS, ("8", "8")), *(([*OFTEN, *words], ("2", "6")) for words in KILLED.values())],
    ids=["epochs", *KILLED],
)
def test_two_kills_leave_what_no_kill_leaves(words: list[str], kills: tuple[str, str], workplace: Path) -> None:
    """The second is in the last validation."""
    Path("plug.py").write_text(PLUG)
    words = [*words, "--trainer.callbacks=plug.Plug"]
    assert run(words, "whole") == 0, Path("said-0.txt").read_text()
    assert [run(words, "run", step) for step in kills] == [-signal.SIGKILL] * 2, Path("said-0.txt").read_text()
    (RUN / ".model.0123abcd.tmp" / "0_Transformer").mkdir(parents=True)  # of a process that was killed while it wrote
    (RUN / ".metrics.csv.0123abcd.tmp").touch()
    assert run(words, "run") == 0, Path("said-0.txt").read_text()
    whole = Path("runs/whole/version_0")
    expected = left(whole)
    scores = {int(row["step"]): float(row["val/sts"]) for row in expected["metrics"][1:] if row["val/sts"]}
    assert expected["chosen"]["step"] == min(scores, key=scores.__getitem__)  # by its own score, not an older step's
    assert len({*scores.values()}) > 1
    expected["chosen"]["checkpoint"] = expected["chosen"]["checkpoint"].replace("whole", "run")
    assert left(RUN) == expected
    assert_same(weights(CHECKPOINTS / "last.ckpt"), weights(whole / "checkpoints" / "last.ckpt"))
