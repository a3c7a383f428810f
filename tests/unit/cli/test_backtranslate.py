"""``sentrep backtranslate`` with tiny random Marian models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from marian import save_tiny_marian
from words import Words

from sentrep.cli import backtranslate, main
from sentrep.data import SentRepDataModule, toy
from sentrep.data.augmentation.finished_pairs import RECORD, FinishedShards

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("models")
    forward, backward = save_tiny_marian(folder / "there", seed=0), save_tiny_marian(folder / "back", seed=1)
    return ["--forward", forward, "--backward", backward]


@pytest.fixture(autouse=True)
def _workplace(in_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backtranslate, "ROWS", 16)
    sentences = toy.sentences(60)
    sentences[7] = ""
    sentences[9] = " ".join(sentences[:12])
    Path("corpus.txt").write_text("\n".join(sentences))


def command(models: list[str], output: str, *more: str) -> list[str]:
    how = ["--beams", "2", "--batch-size", "16", "--device", "cpu"]
    return ["backtranslate", "--input", "corpus.txt", "--output", output, *models, *how, *more]


def record(output: str) -> dict[str, Any]:
    return json.loads(pq.read_schema(output).metadata[RECORD])


def parts(output: str) -> list[Path]:
    return sorted(Path(f"{output}.parts").glob("part-*"))


def test_pairs_are_written_counted_and_read_without_flags(
    models: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(models, "new/pairs.parquet")) == 0
    out = capsys.readouterr().out
    table = pq.read_table("new/pairs.parquet")
    about = record("new/pairs.parquet")
    verdicts = about["verdicts"]
    assert sum(verdicts.values()) == 60
    assert verdicts["blank in the input"] == 1
    assert verdicts["source too long"] >= 1
    assert verdicts["kept"] == len(table) > 5
    for name, count in verdicts.items():
        assert any(line.split() == [*name.split(), f"{count:,}", f"{count / 60:.1%}"] for line in out.splitlines())
    assert f"{len(table)} pairs: new/pairs.parquet" in out
    assert about["notes"]["forward"] == models[1]
    assert about["settings"]["dtype"] == "float32"
    assert about["settings"]["beams"] == 2
    corpus = Path("corpus.txt").read_text().split("\n")
    assert set(table["sent0"].to_pylist()) <= set(corpus)
    assert [path.name for path in Path("new").iterdir()] == ["pairs.parquet"]

    for options in ({"train": "new/pairs.parquet"}, {"train": "corpus.txt", "pairs": "new/pairs.parquet"}):
        data = SentRepDataModule(**options, batch_size=4)
        data.connect(Words(32))
        data.setup("fit")
        assert data.report()["train"].get("without a pair", 0) == (59 - len(table) if "pairs" in options else 0)
        assert next(iter(data.train_dataloader())).positive is not None


def test_other_settings_are_refused(
    models: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(FinishedShards, "put_together", lambda *_: 1 / 0)
        assert main(command(models, "pairs.parquet")) == 1
    for change, message in (
        (["--beams", "1"], "pairs.parquet.parts holds rows of other settings (beams was 2 and is 1)"),
        (["--backward", models[1]], "(backward was "),
        (["--max_tokens", "9"], "(max_tokens was 256 and is 9)"),
    ):
        before = len(parts("pairs.parquet"))
        assert main(command(models, "pairs.parquet", *change)) == 1
        assert message in capsys.readouterr().err
        assert len(parts("pairs.parquet")) == before
    Path("corpus.txt").write_text("something else\n")
    assert main(command(models, "pairs.parquet")) == 1
    assert "(text was " in capsys.readouterr().err
    assert main(command(models, "pairs.parquet", "--overwrite", "true")) == 0
