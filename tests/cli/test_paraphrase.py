"""``sentrep paraphrase`` against a local server."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from stub_server import Reply, rewritings, stub_server
from words import WordTokenize

from sentrep.cli import main
from sentrep.cli.commands import augmentation
from sentrep.data import Reading, SentRepDataModule
from sentrep.data.augmentation.finished_pairs import RECORD

pytest.importorskip("openai", reason="paraphrasing needs the package openai")
KEY = "sk-very-secret-key"
SENTENCES = [f"sentence number {number} of the corpus." for number in range(60)]
SENTENCES[5] = ""
WANTED = [(text, *rewritings(text).values()) for text in SENTENCES if text]


@pytest.fixture(autouse=True)
def _workplace(in_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(augmentation, "ROWS_ASKED", 5)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    Path("corpus.txt").write_text("\n".join(SENTENCES))


def command(url: str, *more: str) -> list[str]:
    words = ["paraphrase", "--base-url", url, "--model", "some-model", "--input", "corpus.txt"]
    return [*words, "--output", "pairs.parquet", "--server.concurrency", "4", *more]


def triplets() -> list[tuple[str, ...]]:
    return [tuple(row.values()) for row in pq.read_table("pairs.parquet").to_pylist()]


def record(output: str) -> dict[str, Any]:
    return json.loads(pq.read_schema(output).metadata[RECORD])


def number_of(sentence: str) -> int:
    return int(re.findall(r"\d+", sentence)[0])


def test_triplets_counts_and_cost(capsys: pytest.CaptureFixture[str]) -> None:
    with stub_server() as stub:
        prices = ["--price.input", "1000", "--price.output", "2000", "--request.fields", '{"temperature": 0.5}']
        assert main(command(stub.url, *prices)) == 0
    assert set(stub.asked.values()) == {1}
    assert all(body["temperature"] == 0.5 and body["model"] == "some-model" for body in stub.bodies)
    assert triplets() == WANTED
    out = capsys.readouterr().out
    cells = [re.split(r"\s{2,}", line.strip()) for line in out.splitlines()]
    for row in (["kept", "59", "98.3%"], ["blank in the input", "1", "1.7%"], ["requests", "59"], ["all", "60"]):
        assert row in cells
    for row in (["input tokens", "5,900"], ["output tokens", "590"], ["cost", "7.08"]):
        assert row in cells
    about = record("pairs.parquet")
    assert about["settings"]["model"] == "some-model"
    assert about["notes"]["base_url"] == stub.url
    data = SentRepDataModule("pairs.parquet", reading=Reading(cache_dir="cache"), batch_size=4)
    data.connect(WordTokenize(), 32)
    data.setup("fit")
    batch = next(iter(data.train_dataloader()))
    assert batch.positive is not None
    assert batch.negative is not None


def test_a_server_that_goes_away_and_comes_back(capsys: pytest.CaptureFixture[str]) -> None:
    def behave(sentence: str, before: int) -> Reply:
        return Reply() if number_of(sentence) < 20 else Reply(503)

    with stub_server(behave) as stub:
        assert main(command(stub.url, "--server.retries", "0")) == 1
        error = capsys.readouterr().err
        assert re.search(r"sentrep: error: the last 12 requests got no answer \(.*status 503", error)
        first = stub.asked
        stub.behave = lambda sentence, before: Reply()
        assert main(command(stub.url, "--server.retries", "0")) == 0
    assert not any(number_of(sentence) < 20 for sentence in stub.asked - first)
    assert triplets() == WANTED


def refuse_some(sentence: str, before: int) -> Reply:
    return Reply(400) if number_of(sentence) % 20 == 10 else Reply()


def test_refused_sentences_leave_the_work_open_until_they_are_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    with stub_server(refuse_some) as stub:
        for _ in range(2):
            assert main(command(stub.url)) == 1
            error = capsys.readouterr().err
            assert "3 of 60 rows got no answer" in error
            assert "run the same command again to ask once more, or with --skip_failed true" in error
            assert not Path("pairs.parquet").exists()
        assert sum(stub.asked.values()) == 59 + 15
        assert main(command(stub.url, "--skip_failed", "true")) == 0
    assert triplets() == [triplet for triplet in WANTED if number_of(triplet[0]) % 20 != 10]
    assert record("pairs.parquet")["verdicts"]["no answer"] == 3


def test_the_key_is_written_nowhere(capfd: pytest.CaptureFixture[str]) -> None:
    with stub_server(refuse_some) as stub:
        address = stub.url.replace("http://", "http://user:password@") + "?token=hidden"
        assert main(command(address)) == 1
        files = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
        assert main(command(address, "--skip_failed", "true")) == 0
        stub.behave = lambda sentence, before: Reply(401, body=f'{{"error": {{"message": "{KEY}"}}}}'.encode())
        assert main(command(stub.url, "--output", "other.parquet")) == 1
    assert KEY in str(stub.headers[-1])
    files |= {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    assert len(files) > 10
    out, err = capfd.readouterr()
    for text in (*files.values(), out.encode(), err.encode()):
        for secret in (KEY, "password", "hidden"):
            assert secret.encode() not in text
