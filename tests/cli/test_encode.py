"""`sentrep encode`: parts, restarts, shards, number types, addresses, and what is put together from parts."""

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
import pytest

from sentrep.cli import main, models
from sentrep.data import StoredEmbeddings
from sentrep.data.stored_embeddings import open_array
from sentrep.encoder import SentenceEncoder
from sentrep.errors import InputError
from support import forked, toy_sentences

SMALL = ["--stored.rows_per_file", "40", "--device", "cpu"]
LINES = [*toy_sentences(24), "", "the last one"]


@pytest.fixture(autouse=True)
def _workplace(in_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "CHUNK", 3)
    Path("lines.txt").write_text("\n".join(LINES) + "\n")


def run(model: str, output: str = "out", *more: str) -> int:
    rows = ["--input", "lines.txt", "--stored.rows_per_file", "7", "--device", "cpu"]
    return main(["encode", model, "--output", output, *rows, *more])


def whole(folder: str = "out") -> np.ndarray:
    return np.concatenate(list(StoredEmbeddings(folder)))


def expected(model: str) -> np.ndarray:
    return SentenceEncoder.from_pretrained(model).encode(LINES)  # type: ignore[return-value]


def content(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def part(folder: str, number: int) -> Path:
    (path,) = Path(folder).glob(f"part-{number:05d}-*.npy")
    return path


def counting(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sentences that are encoded from now on."""
    encoded: list[str] = []
    encode = SentenceEncoder.encode
    monkeypatch.setattr(
        SentenceEncoder, "encode", lambda self, texts, *a, **k: encoded.extend(texts) or encode(self, texts, *a, **k)
    )
    return encoded


@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_parts_hold_every_row_in_order_and_a_file_is_put_together_from_them(
    model: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(model, "new/out", "--stored.file_format", kind) == 0
    assert StoredEmbeddings("new/out").shape == (26, 32)
    assert len(StoredEmbeddings("new/out")) == 26
    np.testing.assert_allclose(whole("new/out"), expected(model), atol=1e-6)
    assert "26 sentences (1 of them blank): new/out" in capsys.readouterr().err
    manifest, *parts = sorted(content("new/out"))
    assert (manifest, [name[:10] for name in parts]) == ("manifest.json", [f"part-0000{part}" for part in range(4)])
    assert StoredEmbeddings("new/out").manifest["parts"] == parts

    assert run(model, f"new/one.{kind}") == 0
    found = np.load("new/one.npy") if kind == "npy" else open_array("new/one.parquet")
    np.testing.assert_array_equal(found, whole("new/out"))
    assert {path.name for path in Path("new").iterdir()} == {"out", f"one.{kind}"}


def test_the_current_folder_takes_the_parts(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("new").mkdir()
    monkeypatch.chdir("new")
    assert run(model, ".", "--input", "../lines.txt") == 0
    assert StoredEmbeddings(".").shape == (26, 32)


def test_shards_together_are_one_process(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(model, "one") == run(model, "two", "--shard", "1/2") == 0
    assert "shard 1 of 2 is done; 2 of 4 parts are left to other processes" in capsys.readouterr().err
    with pytest.raises(InputError, match=r"two: part-00000-\w+\.npy is missing; the command that began"):
        StoredEmbeddings("two")
    assert run(model, "two", "--shard", "0/2") == 0
    assert content("one") == content("two")
    assert run(model, "two.npy", "--shard", "0/2") == 1
    assert "2 processes (--shard) write a folder of parts" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "rank"),
    [
        ({"WORLD_SIZE": "2"}, "RANK"),
        (
            {"SLURM_JOB_NAME": "x", "SLURM_NTASKS": "2", "SLURM_NTASKS_PER_NODE": "1", "SLURM_LOCALID": "0"},
            "SLURM_PROCID",
        ),
        ({"SLURM_JOB_NAME": "x", "SLURM_NTASKS": "2", "SLURM_LOCALID": "0"}, "SLURM_PROCID"),
    ],
    ids=["torchrun", "srun by tasks of a node", "srun -n 2"],
)
def test_shards_of_launchers(settings: dict, rank: str, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """torchrun, and srun with the number of tasks for each node or for all nodes together."""
    for number in ("0", "1"):
        for name, value in {**settings, rank: number}.items():
            monkeypatch.setenv(name, value)
        assert run(model) == 0
        assert any(Path("out").glob("part-00001-*.npy")) == (number == "1")
    np.testing.assert_allclose(whole(), expected(model), atol=1e-6)


def test_what_is_missing_is_made_again_and_nothing_else(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(model) == 0
    before = content("out")
    part("out", 2).unlink()
    Path("out/.part-00001.npy.0123abcd.tmp").write_bytes(b"left by a kill")
    encoded = counting(monkeypatch)
    Path("lines.txt").rename("renamed.txt")
    assert run(model, "out", "--input", "renamed.txt") == 0
    assert encoded == LINES[14:21]
    assert content("out") == before


def test_what_is_there_is_replaced_only_when_that_is_asked_for(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(model) == run(model, "out.npy") == 0
    parts, file = content("out"), Path("out.npy").read_bytes()
    assert run(model, "out.npy") == 1
    assert "out.npy: is there already" in capsys.readouterr().err
    assert run(model, "out", "--stored.dtype", "float16") == 1
    assert "out holds parts that were made otherwise (dtype was float32 and is float16)" in capsys.readouterr().err
    assert run(model, "out", "--stored.file_format", "parquet") == 1
    assert "(ending was .npy and is .parquet)" in capsys.readouterr().err
    Path("lines.txt").write_text("\n".join(LINES[:-1]) + "\n")
    assert run(model) == 1
    assert "out holds parts that were made otherwise (text was" in capsys.readouterr().err
    assert (content("out"), Path("out.npy").read_bytes()) == (parts, file)
    assert run(model, "out", "--overwrite", "true") == run(model, "out.npy", "--overwrite", "true") == 0
    assert whole().shape == np.load("out.npy").shape == (25, 32)
    Path("out/mine.txt").write_text("mine")
    assert run(model, "out", "--stored.normalize", "true", "--overwrite", "true") == 0
    assert Path("out/mine.txt").read_text() == "mine"
    Path("mine").mkdir()
    Path("mine/mine.txt").write_text("mine")
    assert run(model, "mine", "--overwrite", "true") == 1
    assert "mine: holds mine.txt, which is no part" in capsys.readouterr().err


def test_after_a_failure_without_a_part_other_settings_are_free(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_: Any, **__: Any) -> None:
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr("sentrep.cli.models.embed", no_memory)
        assert run(model) == 1
        assert run(model, "out.npy") == 1
    assert run(model, "out", "--stored.dtype", "float16") == run(model, "out.npy", "--stored.dtype", "float16") == 0
    assert np.load("out.npy").dtype == np.float16


def test_parts_of_a_model_with_other_settings_are_not_gone_on_with(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Equal weights compute other vectors with another number of heads."""
    shutil.copytree(model, "model")
    assert run("model") == 0
    part("out", 2).unlink()
    config = json.loads(Path("model/config.json").read_text())
    Path("model/config.json").write_text(json.dumps({**config, "num_attention_heads": 4}))
    assert run("model") == 1
    assert "out holds parts that were made otherwise (model was " in capsys.readouterr().err
    Path("model/config.json").write_text(json.dumps({**config, "_name_or_path": "elsewhere"}))
    assert run("model") == 0


def test_a_file_whose_parts_are_there_is_put_together_again(model: str) -> None:
    """As a kill between the file and the end of its parts leaves it."""
    assert run(model) == run(model, "out.npy") == 0
    Path("out").rename("out.npy.parts")
    assert run(model, "out.npy") == 0
    assert not Path("out.npy.parts").exists()


def test_an_output_in_the_home_folder(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(Path.cwd() / "home"))
    assert run(model, "~/vectors.npy") == run(model, "~/parts") == 0
    np.testing.assert_array_equal(np.load("home/vectors.npy"), whole("home/parts"))


def test_number_types_and_dimensions(model: str) -> None:
    full = expected(model)[:, :5]
    full = full / np.linalg.norm(full, axis=1, keepdims=True)
    cut = ["--stored.truncate_dim", "5", "--stored.normalize", "true", "--stored.dtype", "float16"]
    assert run(model, "half", *cut) == run(model, "half.npy", *cut) == run(model, "half.parquet", *cut) == 0
    assert np.load(part("half", 0)).dtype == np.load("half.npy").dtype == np.float16
    for found in (whole("half"), np.load("half.npy")):
        np.testing.assert_allclose(found, full, atol=1e-3)


def test_addresses_of_input_and_output(model: str) -> None:
    with fsspec.open("memory://in/lines.txt", "wt") as file:
        file.write("\n".join(LINES) + "\n")
    there = ["--input", "memory://in/lines.txt"]
    for _ in range(2):  # the second time there is nothing to do
        assert run(model, "memory://vectors", *there) == 0
        np.testing.assert_allclose(whole("memory://vectors"), expected(model), atol=1e-6)
    assert run(model, "memory://vectors", "--stored.normalize", "true", *there) == 1
    assert run(model, "memory://vectors", "--stored.normalize", "true", "--overwrite", "true", *there) == 0
    assert run(model, "memory://out/one.npy", *there) == 0
    with fsspec.open("memory://out/one.npy", "rb") as file:
        np.testing.assert_allclose(np.load(file), expected(model), atol=1e-6)


@pytest.mark.slow
def test_two_commands_with_one_output_write_the_vectors_of_one_model(model: str) -> None:
    """Both replace what is there, and differ in the pooling; each in a process of its own, at the same time."""
    Path("lines.txt").write_text("\n".join(toy_sentences(400) * 10))
    words = {"mean": ["--overwrite", "true"], "cls": ["--overwrite", "true", "--pooling", "cls"]}
    running = {
        name: forked(main, ["encode", model, "--output", "v.npy", "--input", "lines.txt", *SMALL, *more], said=name)
        for name, more in words.items()
    }
    for process in running.values():
        process.join()
    done = [name for name, process in running.items() if process.exitcode == 0]
    said = "".join(Path(name).read_text() for name in running)
    assert len(done) == 1, said
    assert "has taken it over" in said or "has gone" in said
    whole = SentenceEncoder.from_pretrained(model, pooling=done[0]).encode(toy_sentences(400) * 10)
    np.testing.assert_allclose(np.load("v.npy"), whole, atol=1e-6)
    assert not list(Path().glob("v.npy.*"))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two workers' room on this machine."""
    import ray

    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # which writes into the home folder
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    ray.init(num_cpus=2, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.mark.slow
def test_two_workers_of_ray_of_which_one_is_killed_are_one_process(
    cluster: None, model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("pids").mkdir()
    embed = models.embed

    def embed_once_killed(*arguments: Any, **options: Any) -> Any:
        first = not any(Path("pids").iterdir())
        Path(f"pids/{os.getpid()}").touch()
        if first:
            os.kill(os.getpid(), signal.SIGKILL)
        return embed(*arguments, **options)

    monkeypatch.setattr(models, "CHUNK", 4096)  # as in the workers
    assert run(model, "one") == 0
    monkeypatch.setattr(models, "embed", embed_once_killed)
    assert run(model, "two", "--engine", "ray") == 0
    assert content("one") == content("two")
    assert len(list(Path("pids").iterdir())) >= 3

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise InputError("no such model on this machine")

    monkeypatch.setattr(models, "embed", refuse)
    part("two", 1).unlink()
    capsys.readouterr()
    assert run(model, "two", "--engine", "ray") == 1
    assert "error: no such model on this machine" in capsys.readouterr().err


@pytest.mark.parametrize("address", ["127.0.0.1:9", "nobody.invalid:6379"])
def test_a_cluster_that_does_not_answer_is_said_at_once(
    address: str, model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_ADDRESS", address)
    assert run(model, "out", "--engine", "ray") == 1
    assert f"RAY_ADDRESS={address}: no Ray cluster answers there" in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_does_without_lightning(model: str) -> None:
    """Its import, with matplotlib and torchmetrics, takes a third of the command's start."""
    words = ["encode", model, "--input", "lines.txt", "--output", "v.npy", "--device", "cpu"]
    code = f"import sys; from sentrep.cli import main; main({words!r}); print([*sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ast.literal_eval(done.stdout.splitlines()[-1]))
    assert "transformers" in loaded
    assert not loaded & {"lightning", "matplotlib", "torchmetrics", "tensorboard", "sklearn"}
