"""The doctor: green on the toy, and red for a seeded defect of every kind."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

from sentrep import SentRepModule, distributed
from sentrep.cli import main
from sentrep.cli.commands.doctor import QUICK
from sentrep.cli.config.configuration import parse_request, with_flags
from sentrep.doctor import CHECKS, Outcome, Subject, diagnose, diagnosis, processes

pytestmark = pytest.mark.filterwarnings("ignore")  # lightning comments on the folders and the tiny model


@pytest.fixture
def subject() -> Subject:
    request = parse_request(QUICK)
    tree = with_flags(request.tree, request.flags)
    return Subject(tree["model"], tree["data"], "cpu", seed=3)


def test_all_is_green_on_the_toy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
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


def test_a_defect_on_two_processes(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(function: Callable[..., Any], world: int, *arguments: Any) -> list[Any]:
        return processes.run_processes(half_the_gradient, world, function, *arguments)

    monkeypatch.setattr(diagnosis, "run_processes", run)
    assert diagnosis.gather(subject).passed is False


def forget_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.optim.Optimizer, "load_state_dict", lambda self, state: None)


def forget_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "step_draws", lambda seed, epoch, batch: nullcontext())


def round_badly(monkeypatch: pytest.MonkeyPatch) -> None:
    factor = lambda: 1.2 if torch.is_autocast_enabled("cpu") else 1.0  # noqa: E731
    monkeypatch.setattr(SentRepModule, "_log", lambda self, terms: self.log("train/loss", terms.loss * factor()))


def age_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: ["torch>=99"])


@pytest.mark.parametrize(
    ("check", "defect"),
    [
        (diagnosis.resume, forget_moments),
        (diagnosis.resume, forget_the_seed),
        (diagnosis.first_step, round_badly),
        (diagnosis.versions, age_packages),
    ],
)
def test_a_defect_is_red(
    check: Callable[[Subject], Outcome], defect: Any, subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    defect(monkeypatch)
    outcome = check(subject)
    assert outcome.passed is False, outcome
    assert outcome.remedy


def test_a_device_that_is_not_there_is_red(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    subject.accelerator = "cuda"
    monkeypatch.setattr(diagnosis, "CHECKS", (diagnosis.first_step,))
    (outcome,) = diagnose(subject)
    assert outcome.passed is False
    assert "CUDA" in outcome.measured


def test_objectives_that_draw_for_every_row_are_left_out(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "run_processes", lambda function, world, *given: [function(*given)] * world)
    subject.model["objectives"]["mlm"] = {"class_path": "MaskedLanguageModeling"}
    subject.model["weights"] = {"mlm": 0.5}
    outcome = diagnosis.gather(subject)
    assert outcome.passed
    assert "without mlm: random for every row" in outcome.check
    subject.model["objectives"].pop("simcse")
    assert diagnosis.gather(subject).passed is None


def test_what_breaks_is_red_and_the_others_go_on(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(subject: Subject) -> Any:
        raise RuntimeError("no such\nthing")

    monkeypatch.setattr(diagnosis, "CHECKS", (broken, diagnosis.versions))
    first, second = diagnose(subject)
    assert (first.passed, first.measured) == (False, "RuntimeError: no such thing")
    assert second.passed


def test_a_red_report_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(diagnosis, "CHECKS", (diagnosis.versions,))
    age_packages(monkeypatch)
    Path("report.md").write_text("mine")
    assert main(["doctor", "--output", "report.md"]) == 1
    assert "report.md: is there already; name another output, or replace it" in capsys.readouterr().err
    assert Path("report.md").read_text() == "mine"
    assert main(["doctor", "--output", "report.md", "--overwrite", "true"]) == 1
    assert "versions: install with the tested versions" in capsys.readouterr().out
    assert "\n\nversions: install" in Path("report.md").read_text()
