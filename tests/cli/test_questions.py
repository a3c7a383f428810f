"""``sentrep questions`` against a local server, and with a tiny random model."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from marian import save_tiny_marian
from stub_server import Reply, stub_server
from words import WordTokenize

from sentrep.cli import main
from sentrep.cli.commands import augmentation
from sentrep.data import Reading, SentRepDataModule, toy

PASSAGES = toy.sentences(30)
PASSAGES[3] = ""
OFF = {PASSAGES[number]: PASSAGES[number + 1] for number in (5, 10, 20)}
"""Passages of which the third question is about another one."""


@pytest.fixture(autouse=True)
def _workplace(in_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(augmentation, "ROWS_ASKED", 4)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    rows = [{"title": f"title {n}", "text": text.replace(" ", "\n\t", 1)} for n, text in enumerate(PASSAGES)]
    Path("corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))


def command(*more: str, output: str = "pairs.tsv") -> list[str]:
    return ["questions", "--input", "corpus.jsonl", "--column", "text", "--output", output, *more]


def questions(passage: str) -> list[str]:
    """What the server says: the passage itself in capitals, something general, and what may lead elsewhere."""
    text = " ".join(passage.split())
    return [text.upper(), "what is this?", f"maybe {OFF[text]}" if text in OFF else f"but {text}"]


def answer(passage: str, before: int) -> Reply:
    return Reply(content=json.dumps({"questions": questions(passage)}))


def table() -> list[list[str]]:
    return [line.split("\t") for line in Path("pairs.tsv").read_text(encoding="utf-8").splitlines()]


def test_pairs_of_a_language_model_that_goes_away_and_comes_back(
    teacher: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("openai", reason="asking a language model needs the package openai")
    gone = {text.replace(" ", "\n\t", 1) for text in PASSAGES[20:]}
    with stub_server(lambda passage, before: Reply(503) if passage in gone else answer(passage, before)) as stub:
        words = command("--base-url", stub.url, "--model", "m", "--server.retries", "0", "--server.concurrency", "1")
        assert main(words) == 1
        assert "got no answer" in capsys.readouterr().err
        assert not Path("pairs.tsv").exists()
        stub.behave = answer
        assert main(words) == 0
        assert {text: n for text, n in stub.asked.items() if n > 1 and text not in gone} == {}
        out = capsys.readouterr().out
        asked = len(stub.sentences)

        wanted = [[questions(text)[place], text] for text in PASSAGES if text for place in (0, 2)]
        assert table() == [["sent0", "sent1"], *wanted]
        for cells in (["kept", "58", "66.7%"], ["asked of several passages", "29", "33.3%"], ["requests", "29"]):
            assert cells in [re.split(r"\s{2,}", line.strip()) for line in out.splitlines()]
        assert "passages: blank in the input" in out
        assert "58 pairs: pairs.tsv" in out

        assert main([*words, "--round_trip.encoder", teacher, "--round_trip.top", "1"]) == 0  # another filter
        assert len(stub.sentences) == asked  # which asks for nothing again
    assert table()[1:] == [[question, text] for question, text in wanted if not question.startswith("maybe")]
    assert "passage not found again" in capsys.readouterr().out
    data = SentRepDataModule("pairs.tsv", reading=Reading(cache_dir="cache"), batch_size=4)
    data.connect(WordTokenize(), 32)
    data.setup("fit")
    assert next(iter(data.train_dataloader())).positive is not None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
def test_pairs_of_a_sequence_to_sequence_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = save_tiny_marian(tmp_path / "model", seed=0)
    for output, size in (("pairs.tsv", "4"), ("again.tsv", "4")):
        assert main(command("--model", model, "--batch-size", size, "--count", "2", output=output)) == 0
    assert Path("pairs.tsv").read_bytes() == Path("again.tsv").read_bytes()
    rows = table()[1:]
    assert len(rows) > 10
    per_passage = [sum(passage == text for _, passage in rows) for text in PASSAGES if text]
    assert max(per_passage) == 2
    assert main(command("--model", model, "--count", "3")) == 1
    assert "pairs.tsv.parts holds parts that were made otherwise (count was 2 and is 3)" in " ".join(
        capsys.readouterr().err.split()
    )
