"""What stands in examples/ runs as it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def test_the_custom_objective_runs_and_is_short(tmp_path: Path) -> None:
    script = EXAMPLES / "custom_objective.py"
    assert len(script.read_text().splitlines()) <= 40
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "max_steps=20" in done.stdout + done.stderr


def test_the_notebook_runs(tmp_path: Path) -> None:
    notebook = nbformat.read(EXAMPLES / "quickstart.ipynb", as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    difference = notebook.cells[-1].outputs[-1]["data"]["text/plain"]
    assert float(difference) < 1e-6
