"""Folders of runs: finding them, and reading settings and metrics."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from sentrep.errors import InputError
from sentrep.evaluation.runs import find_runs


def make_run(folder: Path, seed: int = 1, temperature: float = 0.05, metrics: str = "step,val/sts\n0,1\n") -> Path:
    folder.mkdir(parents=True)
    simcse = {"class_path": "Contrastive", "init_args": {"temperature": temperature}}
    config = {
        "seed_everything": seed,
        "model": {"objectives": {"simcse": simcse}, "seed": seed},
        "data": {"seed": seed, "train": "toy"},
        "trainer": {"logger": {"init_args": {"save_dir": str(folder)}}},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    (folder / "metrics.csv").write_text(metrics)
    return folder


def test_runs_are_found_below_a_folder_and_the_newest_version_of_a_seed_counts(tmp_path: Path) -> None:
    for version in (0, 1):
        run = make_run(tmp_path / "a" / "seed-1" / "x" / f"version_{version}")
        os.utime(run, (version, version))
    make_run(tmp_path / "b" / "x" / "version_0")
    make_run(tmp_path / "b" / "x" / "version_1")
    found = find_runs([tmp_path])
    assert [one.path.relative_to(tmp_path).as_posix() for one in found] == [
        "a/seed-1/x/version_1", "b/x/version_0", "b/x/version_1",
    ]  # fmt: skip
    assert [one.label for one in found] == ["a/seed-1/x/version_1", "b/x/version_0", "b/x/version_1"]
    assert [one.label for one in find_runs([tmp_path / "b" / "x"])] == ["version_0", "version_1"]
    (one,) = find_runs([tmp_path / "b/x/version_1", tmp_path / "b/x/version_1"])
    assert one.label == "x/version_1"


def test_settings_by_key_with_and_without_init_args(tmp_path: Path) -> None:
    (run,) = find_runs([make_run(tmp_path / "run", temperature=0.3)])
    for key in ("model.objectives.simcse.temperature", "model.objectives.simcse.init_args.temperature"):
        assert run.setting(key) == 0.3
    for key, message in (
        ("model.objectives.simcse.temprature", "did you mean 'temperature'"),
        ("model.encoder.pooling", "there is no 'encoder'"),
        ("data.train.x", "there is no 'x'"),
    ):
        with pytest.raises(InputError, match=message):
            run.setting(key)


def test_runs_that_differ_in_seeds_and_places_have_the_same_settings(tmp_path: Path) -> None:
    a, b, c = (
        find_runs([make_run(tmp_path / name, seed, temperature)])[0]
        for name, seed, temperature in (("a", 1, 0.1), ("b", 2, 0.1), ("c", 1, 0.2))
    )
    key = "model.objectives.simcse.temperature"
    assert a.settings_but("no.such.key") == b.settings_but("no.such.key") != c.settings_but("no.such.key")
    assert a.settings_but(key) == c.settings_but(key)
    assert a.setting(key) == 0.1  # nothing was taken from the run itself


def test_metrics_of_the_report_and_of_the_csv_logger(tmp_path: Path) -> None:
    report = make_run(tmp_path / "report", metrics="step,train/loss,val/sts\n0,,5.5\n10,0.5,\n20,0.25,6\n")
    logger = make_run(tmp_path / "logger", metrics="epoch,step,train/loss,val/sts\n0,9,0.5,\n0,19,,6\n0,19,0.25,\n")
    one, two = find_runs([report, logger])
    assert one.course("val/sts").to_dict() == {0: 5.5, 20: 6.0}
    assert two.course("val/sts").to_dict() == {20: 6.0}
    for run in (one, two):
        assert run.course("train/loss").to_dict() == {10: 0.5, 20: 0.25}
        assert list(run.metrics) == ["train/loss", "val/sts"]
