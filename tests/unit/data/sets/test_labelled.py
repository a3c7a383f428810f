"""Text and label, from SentEval's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentrep.data import TRANSFER_NAMES, load_transfer
from sentrep.data.sets import transfer
from sentrep.errors import InputError
from support import shared_path


@pytest.mark.slow
@pytest.mark.parametrize("name", TRANSFER_NAMES)
def test_real_tasks_are_complete(name: str) -> None:
    task = load_transfer(name, shared_path("data/senteval"))
    assert {split: len(part) for split, part in task.splits.items()} == transfer._TASKS[name].sizes
    labels = {label for part in task.splits.values() for label in part.labels}
    assert labels == ({"ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"} if name == "trec" else {"0", "1"})
    assert all((part.second is not None) == (name == "mrpc") for part in task.splits.values())


def write_trec(folder: Path, train: bytes, test: bytes = b"NUM:dist How  far ?\n") -> None:
    (folder / "TREC").mkdir(exist_ok=True)
    (folder / "TREC" / "train_5500.label").write_bytes(train)
    (folder / "TREC" / "TREC_10.label").write_bytes(test)


def test_latin_1_and_completeness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_trec(tmp_path, b"LOC:city Where is K\xf6ln ?\r\nHUM:ind Who ?\r\n")
    with pytest.raises(InputError, match=r"TREC: 2 rows of trec train where 5452 are expected; is it complete\?"):
        load_transfer("trec", tmp_path)
    monkeypatch.setitem(transfer._TASKS, "trec", transfer._TASKS["trec"]._replace(sizes={"train": 2, "test": 1}))
    task = load_transfer("trec", tmp_path)
    assert task.splits["train"].texts == ["Where is Köln ?", "Who ?"]
    assert task.splits["train"].labels == ["LOC", "HUM"]
    assert task.splits["test"].texts == ["How far ?"]
    before = task.fingerprint
    write_trec(tmp_path, b"LOC:city Where is K\xf6ln ?\nHUM:ind Whom ?\n")
    assert load_transfer("trec", tmp_path).fingerprint != before


def test_blank_lines_are_texts_as_in_senteval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "CR").mkdir()
    (tmp_path / "CR" / "custrev.pos").write_text("good  one \n\n")
    (tmp_path / "CR" / "custrev.neg").write_text("bad\n")
    monkeypatch.setitem(transfer._TASKS, "cr", transfer._TASKS["cr"]._replace(sizes={"all": 3}))
    part = load_transfer("cr", tmp_path).splits["all"]
    assert (part.texts, part.labels) == (["good one", "", "bad"], ["1", "1", "0"])


def test_real_rows() -> None:
    """TREC's file is latin-1; MRPC's columns are found by their places."""
    folder = shared_path("data/senteval")
    trec = load_transfer("trec", folder).splits
    assert (trec["test"].texts[0], trec["test"].labels[0]) == ("How far is it from Denver to Aspen ?", "NUM")
    latin_1 = [text for text in trec["train"].texts if not text.isascii()]
    assert latin_1
    assert not any("\ufffd" in text for text in latin_1)
    mrpc = load_transfer("mrpc", folder).splits["test"]
    assert mrpc.second is not None
    assert mrpc.texts[0].startswith("PCCW 's chief operating officer")
    assert mrpc.second[0].startswith("Current Chief Operating")
    assert mrpc.labels[0] == "1"
