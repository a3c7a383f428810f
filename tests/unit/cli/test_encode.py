"""`sentrep encode`: every row in its place, resumed after a kill, refused with other settings, and the same on Ray."""

from __future__ import annotations

import ast
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow.parquet as pq
import pytest

from sentrep.cli import encode, main
from sentrep.encoder import SentenceEncoder
from sentrep.io.files import hold
from support import toy_sentences

LINES = [*toy_sentences(24), "", "the last one"]


@pytest.fixture(autouse=True)
def _workplace(in_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode, "BLOCK", 7)
    Path("lines.txt").write_text("\n".join(LINES) + "\n")


def run(model: str, *more: str, output: str = "out.npy") -> int:
    return main(["encode", model, "--output", output, "--input", "lines.txt", "--device", "cpu", *more])


def expected(model: str, **options: Any) -> np.ndarray:
    return SentenceEncoder.from_pretrained(model).encode(LINES, **options)  # type: ignore[return-value]


def stop_after(monkeypatch: pytest.MonkeyPatch, rows: int) -> list[str]:
    """Let the encoder fail when it has encoded so many sentences; returns those that it is given from now on."""
    encoded: list[str] = []
    inner = SentenceEncoder.encode

    def limited(self: SentenceEncoder, texts: list[str], *arguments: Any, **options: Any) -> Any:
        if len(encoded) >= rows:
            raise RuntimeError("pulled the plug")
        encoded.extend(texts)
        return inner(self, texts, *arguments, **options)

    monkeypatch.setattr(SentenceEncoder, "encode", limited)
    return encoded


def left() -> set[str]:
    """The files of the current folder but the input."""
    return {path.name for path in Path().iterdir() if path.name != "lines.txt"}


def test_every_line_has_its_row(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(model, output="new/out.npy") == 0
    np.testing.assert_allclose(np.load("new/out.npy"), expected(model), atol=1e-6)
    assert np.load("new/out.npy").dtype == np.float32
    assert "26 sentences: new/out.npy" in capsys.readouterr().err
    assert [path.name for path in Path("new").iterdir()] == ["out.npy"]
    rows = [f'{row},"{line}"\n' for row, line in enumerate(LINES)]
    Path("table.csv").write_text("".join(["id,words\n", *rows]))
    assert run(model, "--input", "table.csv", "--column", "words", "--precision", "bf16") == 0
    assert np.load("out.npy").dtype == np.float32
    assert 0 < np.abs(np.load("out.npy") - expected(model)).max() < 0.05


def test_prompts_and_lengths_are_those_of_sentence_transformers(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(model, "model")
    file = Path("model/config_sentence_transformers.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), "prompts": {"query": "dog: "}}))
    assert run("model", "--prompt_name", "query", "--normalize", "true") == 0
    found = np.load("out.npy")
    np.testing.assert_allclose(found, expected("model", prompt="dog: ", normalize_embeddings=True), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)
    assert run("model", "--prompt_name", "querry", output="other.npy") == 1
    assert "querry" in capsys.readouterr().err


def test_what_is_done_is_not_done_again(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(model, output="whole.npy") == 0
    with monkeypatch.context() as patch:
        stop_after(patch, 14)
        assert run(model) == 1
    (part,) = left() - {"whole.npy"}
    with Path(part).open("ab") as file:  # a block that a kill has cut off
        file.write(b"12345")
    with monkeypatch.context() as patch:
        encoded = stop_after(patch, 100)
        Path("lines.txt").rename("renamed.txt")
        assert run(model, "--input", "renamed.txt") == 0
    assert encoded == LINES[7:]  # all but the last block, which a lost machine may have left without content
    assert Path("out.npy").read_bytes() == Path("whole.npy").read_bytes()
    assert left() == {"whole.npy", "out.npy", "renamed.txt"}


@pytest.mark.parametrize("change", ["--normalize", "--precision", "--pooling", "text", "model"])
def test_unfinished_work_of_other_settings_is_not_used(
    change: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal weights compute other vectors with another number of heads."""
    shutil.copytree(model, "model")
    with monkeypatch.context() as patch:
        stop_after(patch, 14)
        assert run("model") == 1
    words = {"--normalize": "true", "--precision": "bf16", "--pooling": "max"}
    more = [change, words[change]] if change in words else []
    if change == "text":
        Path("lines.txt").write_text("\n".join([*LINES[:-1], "another"]) + "\n")
    if change == "model":
        config = json.loads(Path("model/config.json").read_text())
        Path("model/config.json").write_text(json.dumps({**config, "num_attention_heads": 4}))
    encoded = stop_after(monkeypatch, 100)
    assert run("model", *more) == 0
    assert len(encoded) == len(LINES)
    assert left() == {"model", "out.npy"}


def test_what_is_there_is_replaced_only_when_that_is_asked_for(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("out.npy").write_text("mine")
    assert run(model) == 1
    assert "out.npy: is there already" in capsys.readouterr().err
    assert Path("out.npy").read_text() == "mine"
    Path("bytes.txt").write_bytes(b"1\n2\n3\n4\n5\n6\n7\n8\nna\xefve\n")
    assert run(model, "--overwrite", "true", "--input", "bytes.txt") == 1
    assert Path("out.npy").read_text() == "mine"
    assert run(model, "--overwrite", "true") == 0
    assert run(model, output="out.txt") == 1
    assert "out.txt: it must end in .npy" in capsys.readouterr().err


def test_of_two_commands_with_one_output_one_works(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    with hold(Path(".out.npy.lock"), "x"):
        assert run(model) == 1
    assert "at work on encode into out.npy" in " ".join(capsys.readouterr().err.split())


def test_text_from_an_address_and_an_output_in_the_home_folder(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with fsspec.open("memory://in/lines.txt", "wt") as file:
        file.write("\n".join(LINES) + "\n")
    monkeypatch.setenv("HOME", str(Path.cwd() / "home"))
    assert run(model, "--input", "memory://in/lines.txt", output="~/vectors.npy") == 0
    np.testing.assert_allclose(np.load("home/vectors.npy"), expected(model), atol=1e-6)


# --- Ray --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two workers' room on this machine, and one for the reader."""
    import ray

    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # which writes into the home folder
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    ray.init(num_cpus=3, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.mark.slow
def test_workers_of_ray_of_which_one_is_killed_write_what_one_process_writes(
    cluster: None, model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from sentrep.cli import encode_on_ray

    Path("pids").mkdir()
    pids = str(Path("pids").resolve())

    class OnceKilled(encode_on_ray.Worker):  # a local class travels to the workers with its code
        def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
            first = not any(Path(pids).iterdir())
            Path(f"{pids}/{os.getpid()}").touch()
            if first:
                os.kill(os.getpid(), signal.SIGKILL)
            return encode_on_ray.Worker.__call__(self, batch)

    assert run(model) == 0
    monkeypatch.setattr(encode_on_ray, "Worker", OnceKilled)
    assert run(model, "--engine", "ray", output="folder") == 0
    table = pq.read_table("folder")
    assert table["sentence"].to_pylist() == LINES
    np.testing.assert_allclose(np.stack(table["embedding"].to_numpy()), np.load("out.npy"), atol=1e-6)
    assert len(list(Path(pids).iterdir())) >= 2
    Path("lines.csv").write_text("".join(f"{line}\n" for line in ["words", "007", "8", "NA"]))
    assert run(model, "--engine", "ray", "--input", "lines.csv", "--column", "words", output="of-csv") == 0
    assert pq.read_table("of-csv")["sentence"].to_pylist() == ["007", "8", "NA"]
    assert run(model, "--engine", "ray", output="folder") == 1
    assert "folder" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.slow
def test_the_command_does_without_lightning(model: str) -> None:
    """Its import, with matplotlib and torchmetrics, takes a third of the command's start."""
    words = ["encode", model, "--input", "lines.txt", "--output", "v.npy", "--device", "cpu"]
    code = f"import sys; from sentrep.cli import main; main({words!r}); print([*sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ast.literal_eval(done.stdout.splitlines()[-1]))
    assert "transformers" in loaded
    assert not loaded & {"lightning", "matplotlib", "torchmetrics", "tensorboard"}
