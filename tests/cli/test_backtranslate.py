"""``sentrep backtranslate`` with tiny random Marian models."""

from __future__ import annotations

import resource
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from marian import save_tiny_marian
from words import WordTokenize

from sentrep.cli import main
from sentrep.data import Reading, SentRepDataModule, toy
from sentrep.data.augmentation.record import read_record
from support import forked

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")

ANYTHING = ["--filter.min_ratio", "0", "--filter.max_ratio", "1000"]
"""Random models translate to random lengths."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("models")
    forward, backward = save_tiny_marian(folder / "there", seed=0), save_tiny_marian(folder / "back", seed=1)
    return ["--forward", forward, "--backward", backward]


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    sentences = toy.sentences(120)
    sentences[7] = ""
    sentences[9] = " ".join(sentences[:12])
    Path("corpus.txt").write_text("\n".join(sentences))


def command(models: list[str], output: str, *more: str) -> list[str]:
    sampling = ["--generation.sample", "true", "--batch-size", "4", "--device", "cpu", *ANYTHING]
    return ["backtranslate", "--input", "corpus.txt", "--output", output, *models, *sampling, *more]


def parts(output: str) -> list[Path]:
    return sorted(Path(f"{output}.parts").glob("part-*.arrow"))


def test_pairs_are_written_counted_and_read_without_flags(
    models: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(models, "new/pairs.parquet")) == 0
    out, err = capsys.readouterr()
    assert "120 of 120 rows; 0 of all rows were done before" in err
    table = pq.read_table("new/pairs.parquet")
    record = read_record("new/pairs.parquet")
    verdicts = record["verdicts"]
    assert sum(verdicts.values()) == record["rows"] == 120
    assert verdicts["blank in the input"] == 1
    assert verdicts["source too long"] >= 1
    assert verdicts["kept"] == len(table) > 40
    for name, count in verdicts.items():
        assert any(line.split() == [*name.split(), f"{count:,}", f"{count / 120:.1%}"] for line in out.splitlines())
    assert f"{len(table)} pairs: new/pairs.parquet" in out
    assert record["notes"]["forward"] == models[1]
    assert record["settings"]["dtype"] == "float32"
    assert record["settings"]["sample"] is True
    corpus = Path("corpus.txt").read_text().split("\n")
    assert set(table["sent0"].to_pylist()) <= set(corpus)
    assert [path.name for path in Path("new").iterdir()] == ["pairs.parquet"]

    for options in ({"train": "new/pairs.parquet"}, {"train": "corpus.txt", "pairs": "new/pairs.parquet"}):
        data = SentRepDataModule(**options, reading=Reading(cache_dir="cache"), batch_size=4)
        data.connect(WordTokenize(), 32)
        data.setup("fit")
        assert data.report()["train"].get("without a pair", 0) == (119 - len(table) if "pairs" in options else 0)
        assert next(iter(data.train_dataloader())).positive is not None


@pytest.mark.slow
def test_killed_in_the_middle_it_ends_like_an_uninterrupted_run(models: list[str]) -> None:
    assert main(command(models, "whole.parquet")) == 0
    arguments = command(models, "pairs.parquet")
    process = forked(main, arguments, said="said.txt")
    deadline = time.monotonic() + 300
    while len(parts("pairs.parquet")) < 3:
        assert process.exitcode is None, Path("said.txt").read_text()
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.kill()
    process.join()
    kept = {path: path.read_bytes() for path in parts("pairs.parquet")}
    assert 3 <= len(kept) < 30
    assert not Path("pairs.parquet").exists()

    times = {path: path.stat().st_mtime_ns for path in kept}
    assert main([*arguments, "--shard", "1/2"]) == 0  # leaves the other half open
    assert {path: path.stat().st_mtime_ns for path in kept} == times, "a finished batch was done again"
    assert main(arguments) == 0
    assert pq.read_table("pairs.parquet").equals(pq.read_table("whole.parquet"))
    assert read_record("pairs.parquet") == read_record("whole.parquet")
    assert not Path("pairs.parquet.parts").exists()
    written = Path("pairs.parquet").stat().st_mtime_ns
    assert main(arguments) == 0
    assert Path("pairs.parquet").stat().st_mtime_ns == written


def test_no_room_for_the_output(models: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A limit of the operating system on the size of a file, which the parts respect and the output does not."""
    arguments, limits = command(models, "pairs.parquet"), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6000, limits[1]))
    try:
        assert main(arguments) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert capsys.readouterr().err.splitlines()[-1] == (
        "sentrep: error: cannot write pairs.parquet: File too large; what is finished is kept in pairs.parquet.parts: "
        "mend this and run the same command again"
    )
    assert len(parts("pairs.parquet")) == 30
    assert not Path("pairs.parquet").exists()
    assert not list(Path().rglob("*.tmp"))
    assert main(arguments) == 0
    assert read_record("pairs.parquet")["rows"] == 120


def test_shards_by_torchrun(
    models: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(models, "whole.parquet")) == 0
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in ("1", "0"):
        monkeypatch.setenv("RANK", rank)
        monkeypatch.setenv("LOCAL_RANK", rank)
        assert main(command(models, "pairs.parquet")) == 0
        assert Path("pairs.parquet").exists() == (rank == "0")
    err = capsys.readouterr().err
    assert "shard 1 of 2 (by torchrun), 60 of 120 rows; 0 of all rows were done before" in err
    assert "shard 1 of 2 is done; 60 of 120 rows are left to the other shards, and the last one writes" in err
    assert "shard 0 of 2 (by torchrun), 60 of 120 rows; 60 of all rows were done before" in err
    assert pq.read_table("pairs.parquet").equals(pq.read_table("whole.parquet"))


def test_other_settings_are_refused(models: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(models, "pairs.parquet", "--shard", "0/2")) == 0
    for change, message in (
        (
            ["--generation.seed", "1"],
            "pairs.parquet.parts holds the beginning of this work with other settings (seed was 0 and is 1)",
        ),
        (["--generation.dtype", "bfloat16"], "(dtype was float32 and is bfloat16)"),
        (["--backward", models[1]], "(backward was "),
        (["--generation.max_tokens", "9"], "(max_tokens was 256 and is 9)"),
    ):
        before = len(parts("pairs.parquet"))
        assert main(command(models, "pairs.parquet", *change)) == 1
        assert message in capsys.readouterr().err
        assert len(parts("pairs.parquet")) == before
    Path("corpus.txt").write_text("something else\n")
    assert main(command(models, "pairs.parquet")) == 1
    assert "(input was " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "status", "message"),
    [
        (["--input", "bytes.txt"], 1, "bytes.txt, line 2: not valid UTF-8"),
        (["--device", "abacus"], 1, "device abacus cannot be used here"),
        (["--bema", "1"], 2, "did you mean 'generation.beams'?"),
        (["--keep-identical", "true"], 2, "; did you mean 'filter.keep_identical'"),
    ],
)
def test_bad_input_is_named(
    models: list[str], more: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """More of it is in tests/bad_inputs/augmentation.yaml."""
    Path("bytes.txt").write_bytes(b"one\nna\xefve\n")
    assert main(command(models, "pairs.parquet", *more)) == status
    assert message in capsys.readouterr().err
    assert sorted(path.name for path in Path().iterdir()) == ["bytes.txt", "corpus.txt"]
