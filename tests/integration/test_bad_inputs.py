"""Bad inputs: each gets one sentence, loses nothing, and ends; odd text is read as it is, and readers are fuzzed.

The table of bad inputs is ``bad_inputs/*.yaml``, with one row per kind of mistake. A row says ``what`` is wrong,
what to ``run`` (words behind ``sentrep``) or to ``call`` (a Python expression), the ``exit`` status of what runs if it
is not 1, and what the message names (``says``): the place and the key. Before, it may ``write`` files into the current
folder (name: text), and ``make`` what functions of `bad_inputs.makers` make ({name: arguments}, or a list of these).
The current folder is a copy of one with corpus.txt, dev.csv, run.yaml, a trained ``best.ckpt`` and the folder
``model``.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from integration.bad_inputs import makers
from sentrep import InputError, checks
from sentrep.cli import main
from sentrep.data import load
from sentrep.data.sets.sts import load_sts
from support import tiny_encoder

TABLES = sorted((Path(__file__).parent / "bad_inputs").glob("*.yaml"))
ROWS = [row for path in TABLES for row in yaml.safe_load(path.read_text(encoding="utf-8"))]
LONGEST = 600
"""Characters of a message."""


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What every row's folder begins with."""
    return makers.workplace(tmp_path_factory.mktemp("bad-inputs"))


@pytest.fixture
def workplace(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The current folder is a new copy of the template; what the makers patch is undone."""
    shutil.copytree(template, tmp_path / "place")
    monkeypatch.chdir(tmp_path / "place")
    monkeypatch.setenv("SENTREP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PL_GLOBAL_SEED", raising=False)
    yield
    makers.PATCH.undo()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("row", [pytest.param(row, id=row["what"]) for row in ROWS])
def test_bad_input_is_one_sentence(row: dict[str, Any], workplace: None, capfd: pytest.CaptureFixture[str]) -> None:
    for name, text in row.get("write", {}).items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")
    steps = row.get("make", [])
    for step in steps if isinstance(steps, list) else [steps]:
        for name, arguments in step.items():
            getattr(makers, name)(**arguments)
    before = contents()
    message = call(row["call"]) if "call" in row else run(row["run"], row.get("exit", 1), capfd)
    check(message, row["says"])
    after = contents()
    lost = {name for name in before if after.get(name) != before[name]}
    assert not lost, f"{lost} changed or gone; the message was: {message}"
    left = {name for name in after if name not in before and name.endswith((".tmp", ".part"))}
    assert not left, f"{left} left over"


def run(words: str, status: int, capfd: pytest.CaptureFixture[str]) -> str:
    """The message of a command that must fail: the last line of standard error."""
    capfd.readouterr()
    found = main(shlex.split(words))
    out, err = capfd.readouterr()
    last = err.strip().splitlines()[-1]
    assert (found, last[:16]) == (status, "sentrep: error: "), f"{out[-500:]} {err[-1000:]}"
    assert "Traceback" not in out + err
    return last


def call(expression: str) -> str:
    """The message of an expression that must be refused."""
    with pytest.raises(InputError) as refused:
        eval(expression, makers.NAMES)
    return str(refused.value)


def check(message: str, says: list[str]) -> None:
    """One sentence of a readable length that names these."""
    assert 10 < len(message) < LONGEST, message
    for words in says:
        assert words in message, f"no {words!r} in: {message}"


def contents() -> dict[str, str]:
    """Fingerprint of every plain file of the current folder."""
    return {str(path): hashlib.blake2b(path.read_bytes()).hexdigest() for path in Path().rglob("*") if path.is_file()}


# --- odd text ---------------------------------------------------------------------------------------------------------


def test_any_text_has_a_vector() -> None:
    encoder = tiny_encoder().eval()
    expected = encoder.encode("a dog", show_progress_bar=False)
    for text in [
        "", " ", "\n", "\0", "a\0b", "\x1b[2J", "\u200b\u200d\ufeff", "👩‍👩‍👧", "\u202eשלום", "a\r\nb\rc", "\ufffd",
        "x" * 10**6, "word " * 200_000, "\U0010ffff", "[CLS] [MASK] [PAD]", "é" * 1000,
    ]:  # fmt: skip
        vectors = encoder.encode([text, "a dog"], show_progress_bar=False)
        assert vectors.shape == (2, 32)
        assert np.isfinite(vectors).all(), repr(text[:12])
        np.testing.assert_allclose(vectors[1], expected, atol=1e-6, err_msg=repr(text[:12]))
    for nothing in ([], (), iter([]), np.array([], dtype=str)):
        assert len(encoder.encode(nothing, show_progress_bar=False)) == 0


# --- fuzzing ----------------------------------------------------------------------------------------------------------

fuzz = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)
CELLS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.lists(st.text(max_size=2))
)
PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            [b"\n", b"\r", b",", b"\t", b'"', b"text", b"label", b"score", b"{", b"}", b"\xff", b"\x00", b"1"]
        ),
        st.binary(max_size=6),
    ),
    max_size=30,
).map(b"".join)


def read_or_refuse(read: Callable[[], Any]) -> None:
    """Nothing but an `InputError` may come of any bytes."""
    with contextlib.suppress(InputError):
        read()


@pytest.mark.parametrize("ending", [".txt", ".csv", ".tsv", ".jsonl", ".parquet", ".txt.gz", ".csv.zst"])
@fuzz
@given(content=PIECES, header=st.sampled_from([b"", b"text\n", b"sent0,sent1\n", b'{"text": "a"}\n']))
def test_no_bytes_break_the_corpus(ending: str, content: bytes, header: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"a{ending}"
    path.write_bytes(header + content)
    read_or_refuse(lambda: list(load(str(path), streaming=True)))
    if ending in (".csv", ".tsv"):
        read_or_refuse(lambda: list(load(str(path), [0], streaming=True)))


@fuzz
@given(content=PIECES, rows=st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=4))
def test_no_bytes_break_a_set_of_pairs(content: bytes, rows: list[Any], tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"sentence1,sentence2,score\n" + content)
    read_or_refuse(lambda: load_sts(str(tmp_path / "a.csv")))
    records = [dict(zip(("sentence1", "sentence2", "score"), row, strict=True)) for row in rows]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    read_or_refuse(lambda: load_sts(str(tmp_path / "a.jsonl")))


@fuzz
@given(value=st.one_of(CELLS, st.floats(-2, 2), st.integers(-3, 3), st.sampled_from([math.nan, math.inf, 1e-38, 1e38])))
def test_numbers_out_of_their_range_are_refused(value: Any) -> None:
    """An argument takes the numbers of its range, and no NaN, infinity, truth value, text, list or None."""
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    ranges: dict[Callable[..., None], bool] = {
        lambda **bad: checks.positive("Owner", **bad): 1e-37 <= number <= 1e37,
        lambda **bad: checks.not_negative("Owner", **bad): 0 <= number <= 1e37,
        lambda **bad: checks.share("Owner", **bad): 0 <= number < 1,
        lambda **bad: checks.within("Owner", -1, 1, **bad): -1 <= number <= 1,
        lambda **bad: checks.within("Owner", 0, 1, open_below=True, **bad): 0 < number <= 1,
    }
    for refuse, fits in ranges.items():
        try:
            refuse(argument=value)
        except InputError as error:
            assert not fits
            check(str(error), ["Owner: argument must "])
        else:
            assert fits
