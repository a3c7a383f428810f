"""The benchmark that asks how well criteria without labels choose."""

from __future__ import annotations

import html
import importlib.util
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "label_free_selection.py"
DEV = [70.0, 74.0, 73.0, 76.0]
RETRIEVAL = [90.0, 92.0, 93.0, 91.0]
UNIFORMITY = [-1.0, -1.4, -1.2, -2.0]


@pytest.fixture(scope="module")
def script() -> object:
    spec = importlib.util.spec_from_file_location("label_free_selection", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(folder: Path, dev: list[float], retrieval: list[float], uniformity: list[float]) -> Path:
    """A run's metrics, training rows in between."""
    folder.mkdir()
    lines = ["step,val/stsb-dev,val/retrieval@1,val/uniformity,train/loss", "0,99.0,100.0,-9.0,"]
    for number, values in enumerate(zip(dev, retrieval, uniformity, strict=True)):
        lines += [f"{10 * number + 5},,,,0.5", f"{10 * number + 10},{','.join(map(str, values))},0.4"]
    (folder / "metrics.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_one_run(tmp_path: Path, script: object) -> None:
    run = script.read_run(write(tmp_path / "a", DEV, RETRIEVAL, UNIFORMITY) / "metrics.csv", "val/stsb-dev")  # type: ignore[attr-defined]
    rows = {row[0]: row[1:] for row in script.table([run], "val/stsb-dev", 200)}  # type: ignore[attr-defined]
    assert list(rows) == ["retrieval@1", "uniformity", "last step"]
    rho = scipy.stats.spearmanr(RETRIEVAL, DEV).statistic
    assert rows["retrieval@1"][1].startswith(f"{rho:.2f} [")
    assert rows["retrieval@1"][2:] == ["—", "3.00"]  # 93 is at 73, where 76 was the best
    assert rows["uniformity"][1].startswith("1.00 [")  # lower is better, and ρ is signed
    assert rows["uniformity"][3] == "0.00"
    assert rows["last step"] == ["1", "", "", "0.00"]


def test_several_runs_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    folders = []
    for number in range(4):
        noise = rng.normal(size=4)
        folders.append(write(tmp_path / str(number), list(DEV + noise), list(RETRIEVAL + noise), [-1.0] * 4))
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *map(str, folders), "--resamples", "100", "--markdown"])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    lines = html.unescape(capsys.readouterr().out).splitlines()
    rows = {line.split(" | ")[0].strip("| "): line.strip("| ").split(" | ") for line in lines}
    low, high = map(float, rows["retrieval@1"][2].split("[")[1].rstrip("]").split(","))
    assert low <= float(rows["retrieval@1"][2].split()[0]) <= high
    assert "[" in rows["retrieval@1"][3]
    assert rows["uniformity"][2:4] == ["—", "—"]  # never changes


@pytest.mark.parametrize(("name", "message"), [("none", "does not exist"), ("bare", "data.held_out")])
def test_a_folder_without_what_is_needed_is_named(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "metrics.csv").write_text("step,val/stsb-dev\n10,70.0\n")
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(tmp_path / name)])
    with pytest.raises(SystemExit, match=message) as caught:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert str(tmp_path / name) in str(caught.value)
