"""The doctor: green on the toy, and red for a seeded defect of every kind."""

from __future__ import annotations

import copy
import importlib.metadata
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
import torch

import sentrep.negatives.base
from sentrep import SentenceEncoder, SentRepModule, distributed
from sentrep.cli import main
from sentrep.cli.doctor import TINY
from sentrep.doctor import CHECKS, Subject, diagnose, diagnosis, grad_cache, machine, processes, training
from sentrep.encoder.compute import recompute

pytestmark = pytest.mark.filterwarnings("ignore")  # lightning comments on the folders and the tiny model


@pytest.fixture
def subject() -> Subject:
    return Subject(copy.deepcopy(TINY["model"]), dict(TINY["data"]), {}, seed=3)


def test_all_is_green_on_the_toy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=10**12))
    assert main(["doctor", "--output", "report.json", "--model.encoder.pooling", "cls"]) == 0
    report = json.loads(Path("report.json").read_text())
    assert report["passed"] is True
    assert [check["passed"] for check in report["checks"]] == [True] * len(CHECKS)
    assert capsys.readouterr().out.count("✓") == len(CHECKS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.json"]


def half_the_gradient(function: Callable[..., Any], *arguments: Any) -> Any:
    whole = distributed._Gather.apply

    class Half:
        @staticmethod
        def apply(x: torch.Tensor) -> torch.Tensor:
            out = whole(x)
            return out / 2 + out.detach() / 2

    distributed._Gather = Half  # type: ignore[assignment,misc]
    return function(*arguments)


def noise_of_each_rank(function: Callable[..., Any], *arguments: Any) -> Any:
    shared = distributed.step_generator

    def own(seed: int, *rest: Any) -> torch.Generator:
        return shared(seed + distributed.rank(), *rest)

    sentrep.negatives.base.step_generator = own  # type: ignore[assignment]
    return function(*arguments)


def dropout_of_all_ranks(function: Callable[..., Any], *arguments: Any) -> Any:
    distributed.seed_step = lambda seed, epoch, batch: torch.manual_seed(seed)  # type: ignore[assignment]
    return function(*arguments)


@pytest.mark.parametrize(
    ("check", "defect"),
    [
        (training.gather, half_the_gradient),
        (training.noise, noise_of_each_rank),
        (training.noise, dropout_of_all_ranks),
    ],
)
def test_a_defect_on_two_processes(
    check: Any, defect: Callable[..., Any], subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(function: Callable[..., Any], world: int, *arguments: Any) -> list[Any]:
        return processes.run_processes(defect, world, function, *arguments)

    monkeypatch.setattr(training, "run_processes", run)
    assert check(subject).passed is False


def forget_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = recompute.checkpoint
    careless = lambda run, *rest, **options: whole(run, *rest, preserve_rng_state=False, **options)  # noqa: E731
    monkeypatch.setattr(recompute, "checkpoint", careless)


def weigh_micro_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    step = SentRepModule.training_step
    monkeypatch.setattr(
        SentRepModule, "training_step", lambda self, batch, number: step(self, batch, number) * (1 + number)
    )


def forget_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.optim.Optimizer, "load_state_dict", lambda self, state: None)


def forget_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "seed_step", lambda seed, epoch, batch: None)


def round_badly(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = SentenceEncoder.embed
    factor = lambda: 1.2 if torch.is_autocast_enabled("cpu") else 1.0  # noqa: E731
    monkeypatch.setattr(SentenceEncoder, "embed", lambda *given: exact(*given) * factor())


def age_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.1")


def fill_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=10**6))


@pytest.mark.parametrize(
    ("check", "defect"),
    [
        (grad_cache.check, forget_masks),
        (training.accumulation, weigh_micro_batches),
        (training.resume, forget_moments),
        (training.resume, forget_the_seed),
        (training.precision, round_badly),
        (machine.versions, age_packages),
        (machine.disk, fill_the_disk),
    ],
)
def test_a_defect_is_red(check: Any, defect: Any, subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Subject, "device", "cpu")
    defect(monkeypatch)
    outcome = check(subject)
    assert outcome.passed is False, outcome
    assert outcome.remedy


def test_a_device_that_is_not_there(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert machine.devices(subject).passed
    subject.trainer["accelerator"] = "gpu"
    assert machine.devices(subject).passed is False


def test_too_many_devices_and_no_bf16(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    subject.trainer.update(accelerator="gpu", devices=2, precision="bf16-mixed")
    for name, value in {"is_available": True, "device_count": 1, "is_bf16_supported": False}.items():
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda number: "Old GPU")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    outcome = machine.devices(subject)
    assert outcome.passed is False
    assert outcome.measured.startswith("2 devices wanted, 1 there; no bf16; Old GPU")


def test_a_model_that_is_not_on_this_machine(subject: Subject, tmp_path: Path) -> None:
    encoder = subject.model["encoder"]
    encoder["backbone"] = str(tmp_path)
    assert machine.offline(subject).passed
    encoder["backbone"] = "nobody/nothing-of-this-name"
    outcome = machine.offline(subject)
    assert outcome.passed is False
    assert "backbone nobody/nothing-of-this-name" in outcome.remedy


def test_a_model_without_its_weights_is_not_in_the_cache(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    files = tmp_path / "models--someone--model" / "snapshots" / "0123"
    files.mkdir(parents=True)
    (tmp_path / "models--someone--model" / "refs").mkdir()
    (tmp_path / "models--someone--model" / "refs" / "main").write_text("0123")
    subject.model["encoder"] = {"backbone": "someone/model"}
    for name, missing in (
        ("config.json", "backbone someone/model, tokenizer someone/model"),
        ("tokenizer.json", "backbone someone/model"),
        ("model.safetensors", ""),
    ):
        (files / name).write_text("{}")
        outcome = machine.offline(subject)
        assert outcome.passed is not bool(missing)
        assert outcome.remedy.endswith(f"folder: {missing}")


def test_a_folder_that_cannot_be_written(subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.os, "access", lambda path, mode: False)
    subject.data["reading"] = {"cache_dir": str(tmp_path / "cache")}
    outcome = machine.disk(subject)
    assert outcome.passed is False
    assert f"{tmp_path / 'cache'} cannot be written" in outcome.measured


def test_objectives_that_draw_for_every_row_are_left_out(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "run_processes", lambda function, world, *given: [function(*given)] * world)
    subject.model["objectives"]["mlm"] = {"class_path": "MaskedLanguageModeling"}
    subject.model["weights"] = {"mlm": 0.5}
    outcome = training.gather(subject)
    assert outcome.passed
    assert "without mlm: random for every row" in outcome.measured
    subject.model["objectives"].pop("simcse")
    assert training.gather(subject).passed is None


def test_what_breaks_is_red_and_the_others_go_on(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(subject: Subject) -> Any:
        raise RuntimeError("no such\nthing")

    monkeypatch.setattr(diagnosis, "CHECKS", {"first": broken, "offline": machine.offline})
    first, second = diagnose(subject)
    assert (first.passed, first.measured) == (False, "RuntimeError: no such thing")
    assert second.passed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--output", "report.csv"], "choose one of .json, .md"),
        (["--modl.x", "1"], "unknown key 'modl'"),
        (["--print_config"], "unexpected '--print_config'"),
        (["-c", "none.yaml"], "does not exist"),
    ],
)
def test_wrong_usage(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", *words]) in (1, 2)
    assert message in capsys.readouterr().err


def test_a_red_report_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(diagnosis, "CHECKS", {"disk": machine.disk})
    fill_the_disk(monkeypatch)
    assert main(["doctor", "--output", "report.md"]) == 1
    assert "free disk: make room" in capsys.readouterr().out
    assert "\n\nfree disk: make room" in Path("report.md").read_text()
