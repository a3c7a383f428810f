"""What stands in examples/ runs as it is."""

from __future__ import annotations

import runpy
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from support import forked

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def run_example(script: str) -> None:
    runpy.run_path(script, run_name="__main__")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        pytest.param("custom_objective", "max_steps=20", marks=pytest.mark.slow),
        pytest.param("flow", "max_steps=20", marks=pytest.mark.slow),
        pytest.param("moco", "max_steps=20", marks=pytest.mark.slow),
        pytest.param("lora", "parameters are trained", marks=pytest.mark.slow),
        pytest.param("matryoshka", "(16,)", marks=pytest.mark.slow),
    ],
)
def test_a_script_runs_and_is_short(name: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "lora":
        pytest.importorskip("peft")
    script = EXAMPLES / f"{name}.py"
    assert len(script.read_text().splitlines()) <= 40
    monkeypatch.chdir(tmp_path)
    process = forked(run_example, str(script), said="said.txt")
    process.join(300)
    said = Path("said.txt").read_text()
    assert process.exitcode == 0, said
    assert says in said


def test_every_script_is_run() -> None:
    (marker,) = (mark for mark in test_a_script_runs_and_is_short.pytestmark if mark.name == "parametrize")
    names = {getattr(case, "values", case)[0] for case in marker.args[1]}
    assert names == {path.stem for path in EXAMPLES.glob("*.py")}


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path) -> None:
    notebook = nbformat.read(EXAMPLES / "quickstart.ipynb", as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    difference = notebook.cells[-1].outputs[-1]["data"]["text/plain"]
    assert float(difference) < 1e-6
