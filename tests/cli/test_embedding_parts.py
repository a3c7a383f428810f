"""`sentrep encode` into a folder: shards, restarts, number types, addresses."""

from __future__ import annotations

import json
import os
import shutil
import time
from contextlib import AbstractContextManager
from pathlib import Path

import fsspec
import numpy as np
import pytest
from filelock import FileLock

from sentrep.cli import encode as encode_command
from sentrep.cli import main
from sentrep.cli.embedding_parts import EmbeddingParts, quantize
from sentrep.encoder import SentenceEncoder, StoredEmbeddings
from sentrep.errors import InputError
from support import forked, tiny_encoder, toy_sentences

LINES = [*toy_sentences(24), "", "the last one"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    tiny_encoder(pooling="mean").save_pretrained(folder)
    return str(folder)


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(encode_command, "CHUNK", 3)
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    Path("lines.txt").write_text("\n".join(LINES) + "\n")


def telling(words: list[str], name: str) -> int:
    """`sentrep` that writes what it encodes into a file."""
    encode_command.CHUNK = 3
    encode = SentenceEncoder.encode
    with open(name, "w") as file:
        SentenceEncoder.encode = lambda self, texts, *a, **k: (  # type: ignore[method-assign]
            print(*texts, sep="\n", file=file) or encode(self, texts, *a, **k)
        )
        return main(words)


def words(model: str, output: str = "out", *more: str) -> list[str]:
    rows = ["--input", "lines.txt", "--stored.rows_per_file", "7", "--device", "cpu"]
    return ["encode", model, "--output", output, *rows, *more]


def run(model: str, output: str = "out", *more: str) -> int:
    return main(words(model, output, *more))


def whole(folder: str = "out") -> np.ndarray:
    return np.concatenate(list(StoredEmbeddings(folder)))


def expected(model: str) -> np.ndarray:
    return SentenceEncoder.from_pretrained(model).encode(LINES)  # type: ignore[return-value]


def content(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_parts_hold_every_row_in_order(model: str, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(model, "new/out", "--stored.file_format", kind) == 0
    stored = StoredEmbeddings("new/out")
    assert stored.shape == (26, 32)
    assert len(stored) == 26
    assert [(part["first_row"], part["rows"], part["blank"]) for part in stored.manifest["parts"]] == [
        (0, 7, 0), (7, 7, 0), (14, 7, 0), (21, 5, 1),
    ]  # fmt: skip
    np.testing.assert_allclose(whole("new/out"), expected(model), atol=1e-6)
    assert "26 sentences (1 of them blank) in 4 parts: new/out" in capsys.readouterr().err
    names = {f"part-0000{part}.{ending}" for part in range(4) for ending in (kind, "json")}
    assert set(content("new/out")) == names | {"manifest.json", "settings.json"}


def test_shards_together_are_one_process(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(model, "one") == run(model, "two", "--shard", "1/2") == 0
    assert "shard 1 of 2 is done; 14 of 26 sentences are left to other processes" in capsys.readouterr().err
    with pytest.raises(InputError, match=r"two: no manifest of embeddings .* is it finished"):
        StoredEmbeddings("two")
    assert run(model, "two", "--shard", "0/2") == 0
    assert content("one") == content("two")


@pytest.mark.parametrize(
    ("settings", "rank"),
    [
        ({"WORLD_SIZE": "2"}, "RANK"),
        (
            {"SLURM_JOB_NAME": "x", "SLURM_NTASKS": "2", "SLURM_NTASKS_PER_NODE": "1", "SLURM_LOCALID": "0"},
            "SLURM_PROCID",
        ),
    ],
)
def test_shards_of_launchers(
    settings: dict, rank: str, model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """torchrun, and srun on two nodes of one task each: as Lightning reads SLURM's environment."""
    for number in ("0", "1"):
        for name, value in {**settings, rank: number}.items():
            monkeypatch.setenv(name, value)
        assert run(model) == 0
    assert "shard 0 of 2 is done; 12 of 26 sentences are left" in capsys.readouterr().err
    np.testing.assert_allclose(whole(), expected(model), atol=1e-6)


def counting(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sentences that are encoded from now on."""
    encoded: list[str] = []
    encode = SentenceEncoder.encode
    monkeypatch.setattr(
        SentenceEncoder, "encode", lambda self, texts, *a, **k: encoded.extend(texts) or encode(self, texts, *a, **k)
    )
    return encoded


@pytest.fixture(scope="module")
def finished(model: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an uninterrupted run."""
    place = tmp_path_factory.mktemp("finished")
    (place / "lines.txt").write_text("\n".join(LINES) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode_command, "CHUNK", 3)  # the batches are part of the last bits
        assert run(model, str(place / "out"), "--input", str(place / "lines.txt")) == 0
    return place / "out"


@pytest.mark.parametrize("kind", ["npy", "parquet"])
@pytest.mark.parametrize("harm", ["no record", "missing", "cut", "longer"])
def test_a_part_that_is_not_as_its_record_says_is_made_again(
    kind: str, harm: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(model, "out", "--stored.file_format", kind) == 0
    before, part = content("out"), Path(f"out/part-00002.{kind}")
    if harm == "no record":  # as a kill between the part and its record leaves it
        for name in ("manifest.json", "part-00002.json"):
            Path("out", name).unlink()
        Path(f"out/.{part.name}.123-a.tmp").write_bytes(b"left by a kill")
    elif harm == "missing":
        part.unlink()
    else:
        os.truncate(part, part.stat().st_size + (100 if harm == "longer" else -100))
    encoded = counting(monkeypatch)
    assert run(model, "out", "--stored.file_format", kind) == 0
    assert encoded == LINES[14:21]
    assert content("out") == before


def test_the_input_is_known_by_its_text(
    model: str, finished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(finished, "out")
    for name in ("manifest.json", "part-00002.json"):
        Path("out", name).unlink()
    encoded = counting(monkeypatch)
    Path("lines.txt").rename("renamed.txt")
    assert run(model, "out", "--input", "renamed.txt") == 0
    assert encoded == LINES[14:21]
    assert content("out") == (before := content(str(finished)))

    text = "\n".join(LINES) + "\n"
    for number, changed in {
        0: text.replace(LINES[2], LINES[2][::-1]),  # of the same size
        3: text.replace("the last one\n", ""),
        1: "".join(f"{line}\n" for line in [*LINES[:7], "one more", *LINES[7:]]),
    }.items():
        Path("lines.txt").write_text(changed)
        assert run(model) == 1
        assert f"out: part {number} was made from another text than the input has now" in capsys.readouterr().err
    Path("lines.txt").write_text("\n".join(LINES[:21]) + "\n")
    assert run(model) == 1
    assert "out: holds part-00003.json beyond the end of the input" in capsys.readouterr().err
    assert content("out") == before


def test_two_processes_with_different_inputs_finish_nothing(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(model, "out", "--shard", "0/2") == 0
    Path("lines.txt").write_text("\n".join(reversed(LINES)) + "\n")
    assert run(model, "out", "--shard", "1/2") == 1
    assert "was made from another text" in capsys.readouterr().err
    assert not Path("out/manifest.json").exists()


@pytest.mark.slow
def test_killed_and_started_again(model: str) -> None:
    """kill -9 as soon as the first part is on record; finished parts stay, untouched, and the result is the same."""
    Path("lines.txt").write_text("\n".join(LINES * 60) + "\n")
    assert run(model, "one") == 0
    process = forked(telling, words(model), "encoded.txt")
    while not Path("out/part-00002.json").exists():
        assert process.exitcode is None, "ended before it could be killed"
        time.sleep(0.01)
    process.kill()
    process.join()
    assert not Path("out/manifest.json").exists()
    done = {path: path.stat().st_mtime_ns for path in Path("out").glob("part-*.json")}
    assert len(done) >= 3
    assert run(model) == 0
    assert {path: path.stat().st_mtime_ns for path in done} == done
    assert content("out") == content("one")


def test_what_a_kill_leaves_beside_finished_parts_is_removed(model: str, finished: Path) -> None:
    """Killed behind a part's record its lock stays, killed while the manifest is written its temporary file."""
    shutil.copytree(finished, "out")
    Path("out/manifest.json").unlink()
    Path("out/part-00000.lock").touch()
    Path("out/.manifest.json.1-abc.tmp").write_text("{")
    assert run(model) == 0
    assert content("out") == content(str(finished))


def test_a_part_that_another_process_is_at_is_left_to_it(
    model: str, finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("out").mkdir()
    with FileLock("out/part-00001.lock"):
        assert run(model) == 0
        assert "shard 0 of 1 is done; 7 of 26 sentences are left to other processes" in capsys.readouterr().err
        assert {path.name for path in Path("out").glob("part-*.json")} == {
            "part-00000.json", "part-00002.json", "part-00003.json",
        }  # fmt: skip
    assert run(model) == 0
    assert content("out") == content(str(finished))


def test_a_part_that_was_finished_meanwhile_is_not_done_again(
    model: str, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the folder and the claim of the part, another process does it."""
    claim = EmbeddingParts.claim

    def late(self: EmbeddingParts, part: int) -> AbstractContextManager[bool]:
        for name in ("part-00001.npy", "part-00001.json"):
            shutil.copy(finished / name, f"out/{name}")
        return claim(self, part)

    monkeypatch.setattr(EmbeddingParts, "claim", late)
    encoded = counting(monkeypatch)
    assert run(model) == 0
    assert encoded == [*LINES[:7], *LINES[14:]]
    assert content("out") == content(str(finished))


def test_the_same_shard_twice_at_the_same_time(model: str) -> None:
    """Every sentence is encoded once, by one or the other."""
    Path("lines.txt").write_text("\n".join(f"{line} {i}" for i in range(20) for line in LINES) + "\n")
    assert run(model, "one") == 0
    processes = [forked(telling, words(model), f"encoded-{number}.txt") for number in range(2)]
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    encoded = [line for number in range(2) for line in Path(f"encoded-{number}.txt").read_text().splitlines()]
    assert sorted(encoded) == sorted(Path("lines.txt").read_text().splitlines())
    assert content("out") == content("one")


def test_number_types_and_dimensions(model: str) -> None:
    full = expected(model)[:, :5]
    full = full / np.linalg.norm(full, axis=1, keepdims=True)
    cut = ["--stored.truncate_dim", "5", "--normalize", "true"]
    assert (
        run(model, "half", "--stored.dtype", "float16", *cut)
        == run(model, "half.npy", "--stored.dtype", "float16", *cut)
        == 0
    )
    assert np.load("half/part-00000.npy").dtype == np.load("half.npy").dtype == np.float16
    for found in (whole("half"), np.load("half.npy")):
        np.testing.assert_allclose(found, full, atol=1e-3)
    assert run(model, "half.parquet", "--stored.dtype", "float16", *cut) == 0


def test_int8_error_is_at_most_half_a_step_and_so_is_its_cosine(model: str) -> None:
    assert run(model, "out", "--stored.dtype", "int8") == 0
    parts, vectors = StoredEmbeddings("out").manifest["parts"], expected(model)
    for part, found in zip(parts, StoredEmbeddings("out"), strict=True):
        assert np.load(f"out/{part['file']}").dtype == np.int8
        true, scale = vectors[part["first_row"] :][: part["rows"]], np.array(part["scale"])
        np.testing.assert_allclose(scale, np.abs(true).max(0) / 127, rtol=1e-4)
        assert np.all(np.abs(found - true) <= scale / 2 + 1e-5)
        norms = np.linalg.norm(true, axis=1)
        # a vector turns by at most asin(half a step / its length)
        turn = np.arcsin(np.linalg.norm(scale) / 2 / norms)
        exact = true @ true.T / norms[:, None] / norms
        lengths = np.linalg.norm(found, axis=1)
        cosine = found @ found.T / lengths[:, None] / lengths
        assert np.all(
            np.abs(np.arccos(cosine.clip(-1, 1)) - np.arccos(exact.clip(-1, 1))) <= turn[:, None] + turn + 1e-3
        )
        assert np.abs(cosine - exact).max() < 0.01


def test_quantize_keeps_zeros_and_extremes(tmp_path: Path) -> None:
    vectors = np.array([[0, -2, 1], [0, 1, 0.5], [0, 2, -0.25]], np.float32)
    np.save("wide.npy", vectors)
    scale = quantize("wide.npy", "narrow.npy", rows=2)
    assert scale == pytest.approx([1, 2 / 127, 1 / 127])
    assert np.load("narrow.npy").tolist() == [[0, -127, 127], [0, 64, 64], [0, 127, -32]]


def test_addresses_of_input_and_output(model: str) -> None:
    with fsspec.open("memory://in/lines.txt", "wt") as file:
        file.write("\n".join(LINES) + "\n")
    there = ["--input", "memory://in/lines.txt"]
    for kind in ("float32", "int8"):
        assert run(model, f"memory://{kind}", "--stored.dtype", kind, *there) == 0
        np.testing.assert_allclose(whole(f"memory://{kind}"), expected(model), atol=0.05 if kind == "int8" else 1e-6)
    assert run(model, "memory://out/one.npy", *there) == 0
    with fsspec.open("memory://out/one.npy", "rb") as file:
        np.testing.assert_allclose(np.load(file), expected(model), atol=1e-6)
    assert run(model, "memory://float32", *there) == 0  # finished: nothing to do


def test_other_settings_or_another_format_are_not_mixed(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(model) == 0
    before = content("out")
    assert run(model, "out", "--stored.dtype", "float16") == 1
    assert "out holds parts with other settings (dtype was float32 and is float16)" in capsys.readouterr().err
    assert content("out") == before
    manifest = json.loads(Path("out/manifest.json").read_text())
    Path("out/manifest.json").write_text(json.dumps({**manifest, "format": "another"}))
    with pytest.raises(InputError, match="written by another version"):
        StoredEmbeddings("out")
