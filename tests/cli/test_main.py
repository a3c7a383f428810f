"""The dispatcher: what it imports, how it ends."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from sentrep import cli
from sentrep.errors import InputError
from sentrep.version import __version__


@pytest.mark.parametrize("words", [["--help"], ["--version"], []])
def test_help_imports_no_heavy_library(words: list[str]) -> None:
    program = (
        "import sys; from sentrep.cli import main; status = main(sys.argv[1:]);"
        "heavy = {'torch', 'lightning', 'transformers', 'jsonargparse', 'numpy'} & set(sys.modules);"
        "sys.exit(f'imported {heavy}' if heavy else status)"
    )
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"sentrep {__version__}" if words == ["--version"] else "evaluate" in done.stdout


def test_python_m_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "sentrep", "fitt"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "sentrep: error: unknown command 'fitt'; did you mean 'fit'?\n"


def test_without_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["-c", "run.yaml"]) == 2
    assert capsys.readouterr().err == "sentrep: error: no command given; 'sentrep --help' lists the commands\n"


@pytest.mark.parametrize(
    "words",
    [
        ["-c", "a.yaml", "fit", "--x", "1"],
        ["fit", "-c", "a.yaml", "--x", "1"],
        ["--config", "a.yaml", "fit", "--x", "1"],
    ],
)
def test_the_file_may_stand_before_the_command(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    _replace_command(monkeypatch, lambda command, rest: seen.append((command, rest)) or 0)
    assert cli.main(words) == 0
    assert seen == [("fit", [("--config" if words[0] == "--config" else "-c"), "a.yaml", "--x", "1"])]


def _interrupted_inside_lightning() -> None:
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        sys.exit(1)  # as the trainer leaves


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        (InputError("corpus.csv, line 7: bad"), 1),
        (cli.UsageError("unknown key"), 2),
        (KeyboardInterrupt(), 130),
        (SystemExit(0), 0),
        (SystemExit(None), 0),
        (SystemExit("text"), 1),
    ],
)
def test_exit_status(ending: BaseException, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: str, rest: list[str]) -> int:
        raise ending

    _replace_command(monkeypatch, run)
    assert cli.main(["fit"]) == status


def test_an_interrupt_that_lightning_turned_into_an_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    _replace_command(monkeypatch, lambda command, rest: _interrupted_inside_lightning())
    assert cli.main(["fit"]) == 130


def test_bad_input_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(command: str, rest: list[str]) -> int:
        raise InputError("first line\n  second line " + "x" * 1000)

    _replace_command(monkeypatch, run)
    cli.main(["fit"])
    error = capsys.readouterr().err
    assert error.startswith("sentrep: error: first line second line x")
    assert error.count("\n") == 1
    assert len(error) < 450


def test_other_exceptions_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: str, rest: list[str]) -> int:
        raise RuntimeError("a bug")

    _replace_command(monkeypatch, run)
    with pytest.raises(RuntimeError, match="a bug"):
        cli.main(["fit"])


def _replace_command(monkeypatch: pytest.MonkeyPatch, run: object) -> None:
    monkeypatch.setattr(cli, "import_module", lambda name: SimpleNamespace(run=run))
