"""The boundary of the command line: one line on the terminal, the traceback of an unexpected error in a file."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sentrep.cli import main
from sentrep.cli.errors import keep_traceback, report
from sentrep.errors import InputError

BROKEN = """
from sentrep import Objective


class Broken(Objective):
    def forward(self, views, batch):
        return views.anchor @ views.anchor
"""


def deep_inside() -> RuntimeError:
    """An error of a library, as it is caught."""
    try:
        raise RuntimeError("first line\n  second line")
    except RuntimeError as error:
        return error


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SENTREP_CACHE", str(tmp_path / "cache"))


def test_an_unexpected_error_is_one_line_that_names_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(deep_inside()) == 1
    said = capsys.readouterr().err
    line = r"(?:\S+test_errors.py, line \d+: )?RuntimeError: first line second line; the traceback is in (\S+)"
    found = re.fullmatch(f"sentrep: error: {line}\n", said)
    assert found, said
    text = Path(found[1]).read_text()
    assert text.startswith("Traceback")
    assert "in deep_inside" in text


def test_debug_prints_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(deep_inside(), debug=True) == 1
    said = capsys.readouterr().err
    assert said.startswith("Traceback")
    assert "in deep_inside" in said


def test_our_own_sentence_needs_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(InputError("corpus.csv, line 7: bad")) == 1
    assert capsys.readouterr().err == "sentrep: error: corpus.csv, line 7: bad\n"
    assert report(InputError("x" * 1000)) == 1
    assert len(capsys.readouterr().err) < 450
    assert not (tmp_path / "cache").exists()


def test_where_no_file_can_be_written_debug_is_named(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("in the way")
    assert keep_traceback(deep_inside()).endswith("add --debug to see it")


def test_an_error_in_the_users_own_file_names_its_line_and_the_traceback(
    workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (workplace / "own_mistake.py").write_text(BROKEN)
    assert main(["fit", "-c", "run.yaml", "--model.objectives.mine", "own_mistake.Broken"]) == 1
    said = capsys.readouterr().err
    (path,) = (workplace / "cache").glob("traceback-*.txt")
    assert said.splitlines()[-1].startswith("sentrep: error: own_mistake.py, line 7: RuntimeError: ")
    assert said.splitlines()[-1].endswith(f"the traceback is in {path}")
    assert "Traceback" not in said
    assert "in forward" in path.read_text()
    assert not [*workplace.glob("runs/*/version_*")]  # a failed start leaves no run


def test_a_closed_pipe_ends_a_command_quietly() -> None:
    done = subprocess.run(
        [
            shutil.which("bash") or "sh",
            "-c",
            f"{sys.executable} -m sentrep recipes | head -n 1; exit ${{PIPESTATUS[0]}}",
        ],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) in ((0, ""), (141, ""))
    assert len(done.stdout.splitlines()) == 1
