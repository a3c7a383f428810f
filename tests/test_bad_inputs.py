"""The table of bad inputs, ``tests/bad_inputs/*.yaml``: each gets one sentence, loses nothing, and ends.

A row says ``what`` is wrong, what to ``run`` (words behind ``sentrep``) or to ``call`` (a Python expression), and which
words the message must have (``says``). Before, it may ``write`` files into the current folder (name: text, or
``{hex: ...}``, or ``{repeat: [text, times]}``, or ``{yaml: tree}``, or ``{edit: tree}`` merged over the file's YAML),
and ``make`` what functions of `bad_inputs.makers` make ({name: arguments}, or a list of these). ``$NAME`` in ``run`` is
of the environment. A row with ``each`` is a class of inputs: every example is tried in the place of ``EXAMPLE``, or,
where it is a mapping, of the mapping's keys. The current folder is a copy of one with corpus.txt, pairs.csv, dev.csv,
run.yaml, a trained ``best.ckpt`` and the folder ``model``.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bad_inputs import makers
from sentrep.cli import main
from sentrep.cli.configuration import merge
from sentrep.errors import InputError

FOLDER = Path(__file__).parent / "bad_inputs"
LONGEST = 600
"""Characters of a message."""


def rows() -> Iterator[Any]:
    """Every row of every table."""
    for table in sorted(FOLDER.glob("*.yaml")):
        for row in yaml.safe_load(table.read_text(encoding="utf-8")):
            examples = row.pop("each", [{}])
            for number, example in enumerate(examples):
                values = example if isinstance(example, dict) else {"EXAMPLE": example}
                name = f"{table.stem}: {row['what']}" + (f" ({number})" if len(examples) > 1 else "")
                yield pytest.param(filled(row, values), id=name)


def filled(tree: Any, values: dict[str, Any]) -> Any:
    """A row with these values in the places of their names; a value that is no text takes the whole place."""
    if isinstance(tree, dict):
        return {filled(key, values): filled(below, values) for key, below in tree.items()}
    if isinstance(tree, list):
        return [filled(below, values) for below in tree]
    for name, value in values.items() if isinstance(tree, str) else ():
        if tree == name:
            return value
        tree = tree.replace(name, str(value))
    return tree


ROWS = list(rows())


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What every row's folder begins with."""
    return makers.workplace(tmp_path_factory.mktemp("bad-inputs"))


@pytest.fixture
def place(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "place"
    shutil.copytree(template, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SENTREP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PL_GLOBAL_SEED", raising=False)
    yield folder
    makers.PATCH.undo()
    while makers.KEPT:
        makers.KEPT.pop().close()


def test_no_row_stands_twice() -> None:
    names = [row.id for row in ROWS]
    assert len(names) == len(set(names))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("row", ROWS)
def test_bad_input_is_one_sentence(row: dict[str, Any], place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    if "--base_url" in str(row.get("run", "")):
        pytest.importorskip("openai", reason="asking a language model needs the package openai")
    for name, content in row.get("write", {}).items():
        write(place / name, content)
    steps = row.get("make", [])
    for step in steps if isinstance(steps, list) else [steps]:
        for name, arguments in step.items():
            getattr(makers, name)(**(arguments or {}))
    before = contents(place)
    message = call(row["call"]) if "call" in row else run(row["run"], capfd)
    assert "Traceback" not in message
    assert 10 < len(message) < LONGEST, message
    for words in row["says"]:
        assert words in message
    after = contents(place)
    lost = {name for name in before if after.get(name) != before[name]}
    assert not lost, f"{lost} changed or gone; the message was: {message}"
    left = {name for name in after if name not in before and name.endswith((".tmp", ".part"))}
    assert not left, f"{left} left over"


def write(path: Path, content: Any) -> None:
    """See the module."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, str):
        path.write_text(content, encoding="utf-8")
    elif "hex" in content:
        path.write_bytes(bytes.fromhex(content["hex"]))
    elif "repeat" in content:
        text, times = content["repeat"]
        path.write_text(text * times, encoding="utf-8")
    elif "yaml" in content:
        path.write_text(yaml.safe_dump(content["yaml"]), encoding="utf-8")
    else:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
        path.write_text(yaml.safe_dump(merge(tree, content["edit"])), encoding="utf-8")


def run(words: str, capfd: pytest.CaptureFixture[str]) -> str:
    """The message of a command that must fail: the last line of standard error."""
    capfd.readouterr()
    status = main(shlex.split(os.path.expandvars(words)))
    out, err = capfd.readouterr()
    assert status in (1, 2), f"exit status {status}; {out[-500:]} {err[-500:]}"
    assert "Traceback" not in out + err
    last = err.strip().splitlines()[-1]
    assert last.startswith("sentrep: error: "), err[-1000:]
    return last


def call(expression: str) -> str:
    """The message of an expression that must be refused."""
    with pytest.raises(InputError) as caught:
        eval(expression, makers.NAMES)
    return str(caught.value)


def contents(folder: Path) -> dict[str, str]:
    """Fingerprint of every plain file that can be read."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file() and path.stat().st_size < 10**8:
            found[str(path.relative_to(folder))] = hashlib.blake2b(path.read_bytes()).hexdigest()
    return found
