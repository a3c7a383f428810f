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


def test_the_custom_objective_runs_and_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = EXAMPLES / "custom_objective.py"
    assert len(script.read_text().splitlines()) <= 40
    monkeypatch.chdir(tmp_path)
    process = forked(run_example, str(script), said="said.txt")
    process.join(300)
    said = Path("said.txt").read_text()
    assert process.exitcode == 0, said
    assert "max_steps=20" in said


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path) -> None:
    notebook = nbformat.read(EXAMPLES / "quickstart.ipynb", as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    difference = notebook.cells[-1].outputs[-1]["data"]["text/plain"]
    assert float(difference) < 1e-6
