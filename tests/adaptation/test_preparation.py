"""The files of an adaptation: nothing that judges or chooses is trained on."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from adaptation.texts import documents
from sentrep.adaptation.preparation import CHOOSE, JUDGE, PAIRS, PASSAGES, SENTENCES, Remembered, prepare
from sentrep.adaptation.splitting import Split
from sentrep.data.sets.proxy_tasks import load_proxy_tasks
from sentrep.data.text.corpus import open_corpus
from support import tiny_encoder


def test_what_is_held_out_is_nowhere_in_training(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "sentrep")
    made = documents(120)
    split = Split(train=list(range(40)), choose=list(range(40, 75)), judge=list(range(75, 120)), copies=0)
    own, other = made[0].text, made[80].text
    asked = [("what is it", own), ("what is it not", other)]
    start = Remembered(tiny_encoder(pooling="mean", max_seq_length=64))
    counts = prepare(made, split, start, tmp_path, 15.0, questions=asked)
    pairs, passages, sentences = (pq.read_table(tmp_path / name) for name in (PAIRS, PASSAGES, SENTENCES))
    assert counts == (len(passages), len(pairs))
    row = next(iter(open_corpus(tmp_path / PAIRS).rows()))  # is read as a training text
    assert row.sentences == tuple(pairs[name][0].as_py() for name in ("sent0", "sent1", "hard_neg"))
    assert "1 of 2 questions are about passages that are trained on" in caplog.text
    trained = " ".join(
        text for table in (pairs, passages, sentences) for column in table.columns for text in column.to_pylist()
    )
    tasks = {name: load_proxy_tasks(tmp_path / name) for name in (CHOOSE, JUDGE)}
    for name, held in ((CHOOSE, split.choose), (JUDGE, split.judge)):
        assert {int(re.split("[.-]", query)[0]) for query in tasks[name].queries} <= set(held)
        for own_passages in tasks[name].answers.values():
            assert {int(answer.split(".")[0]) for answers in own_passages.values() for answer in answers} <= set(held)
        for query in tasks[name].queries.values():
            assert query not in trained
    distractors = {p for name in tasks for p, text in tasks[name].passages.items() if ".t" in p}
    assert {int(p.split(".")[0]) for p in distractors} == set(split.train)
    assert sum(pair == "what is it" for pair in pairs["sent0"].to_pylist()) == 1
    for query, negative in zip(pairs["sent0"].to_pylist(), pairs["hard_neg"].to_pylist(), strict=True):
        assert query not in negative


def test_the_encoding_of_many_texts_shows_a_bar(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO", "sentrep")
    monkeypatch.setattr("sentrep.adaptation.preparation._MANY", 3)
    model = Remembered(tiny_encoder(pooling="mean"))
    model(["nobody", "the old house"])
    assert capsys.readouterr().err == ""
    model(["nobody", "a field", "a field of wheat", "a field of rye"])
    assert re.search(r"Encoding .* 3/3 .* left", capsys.readouterr().err)
    assert "encoding 3 texts" in caplog.text


def test_texts_are_read_in_bfloat16_where_asked() -> None:
    encoder = tiny_encoder(pooling="mean")
    texts = ["the old house", "a field of wheat and rye", "nobody"]
    exact, short = Remembered(encoder)(texts), Remembered(encoder, bf16=True)(texts)
    assert short.dtype == torch.float32
    assert not torch.equal(exact, short)
    assert torch.cosine_similarity(exact, short).min() > 0.999
