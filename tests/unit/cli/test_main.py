"""The dispatcher: what it imports, how it ends."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from importlib import metadata

import pytest

from sentrep import cli
from sentrep.cli import fit
from sentrep.errors import InputError
from sentrep.version import __version__

USAGE = [
    ("", 0),
    ("--help", 0),
    *((f"{command} --help", 0) for command in cli.COMMANDS),
    *((f"{command} --no_such_flag 3", 2) for command in cli.COMMANDS),
    ("fit", 2),
    ("compare runs --margin all", 2),
    ("fit -c simcse/minilm --jobs 2", 2),
    ("fit -c no_such_recipe", 2),
    ("fit -c simcse/minilm --modle.objectives.simcse.temperature 3", 2),
    ("encode model --output out.npy --precision fp4", 2),
]


def test_help_and_usage_errors_import_nothing_heavy() -> None:
    program = (
        "import sys, contextlib, io, json; from sentrep.cli import main\n"
        "for line, status in json.loads(sys.argv[1]):\n"
        "    out, err = io.StringIO(), io.StringIO()\n"
        "    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):\n"
        "        found = main(line.split())\n"
        "    assert found == status, (line, found, err.getvalue())\n"
        "    assert (out, err)[status > 0].getvalue().strip(), line\n"
        "    heavy = {'torch', 'lightning', 'transformers', 'numpy', 'pyarrow', 'datasets'} & set(sys.modules)\n"
        "    assert not heavy, (line, heavy)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, json.dumps(USAGE)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_is_missing_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["encode"]) == 2
    assert "model, input, output" in capsys.readouterr().err


def test_the_versions(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"sentrep {__version__}",
        *(f"{package} {metadata.version(package)}" for package in cli.PACKAGES),
        f"Python {platform.python_version()}",
    ]


def test_python_m_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "sentrep", "fitt"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "sentrep: error: unknown command 'fitt'; did you mean 'fit'?\n"


def turned_into_an_exit() -> SystemExit:
    """What the trainer leaves with after Ctrl-C."""
    ending = SystemExit(1)
    ending.__context__ = KeyboardInterrupt()
    return ending


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        (InputError("corpus.csv, line 7: bad"), 1),
        (cli.UsageError("unknown key"), 2),
        (KeyboardInterrupt(), 130),
        (turned_into_an_exit(), 130),
        (SystemExit(0), 0),
        (SystemExit(None), 0),
        (SystemExit("text"), 1),
    ],
)
def test_exit_status(ending: BaseException, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(words: list[str]) -> int:
        raise ending

    monkeypatch.setattr(fit, "fit", run)
    assert cli.main(["fit"]) == status
