"""Texts of evaluation sets of every kind."""

from __future__ import annotations

from pathlib import Path

import pytest
from evaluation.sets import write_beir

from sentrep.data import load_sts
from sentrep.data.sets.evaluation_texts import load_evaluation_texts
from support import shared_path


def test_a_named_set() -> None:
    pairs = load_sts("toy-dev")
    texts = load_evaluation_texts("toy-dev")
    assert (texts.name, texts.texts) == ("toy-dev", [*pairs.first, *pairs.second])


def test_a_transfer_task_gives_its_test_part(tmp_path: Path) -> None:
    folder = shared_path("data/senteval")
    assert len(load_evaluation_texts("trec", folder).texts) == 500
    assert len(load_evaluation_texts("mrpc", folder).texts) == 2 * 1725
    assert len(load_evaluation_texts("mr", folder).texts) == 10662


@pytest.mark.parametrize(
    ("name", "content", "columns"),
    [
        ("pairs.csv", "sentence1,sentence2,score\na,b,1\nc,d,2\n", None),
        ("labelled.tsv", "text\tlabel\na\tx\nb\ty\nc\tx\nd\ty\n", None),
        ("plain.txt", "a\nb\nc\nd\n", None),
        ("odd.csv", "q,w\na,b\nc,d\n", ["q", "w"]),
    ],
)
def test_files(name: str, content: str, columns: list[str] | None, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    texts = load_evaluation_texts(str(tmp_path / name), columns=columns)
    assert texts.name == name.split(".")[0]
    assert sorted(texts.texts) == ["a", "b", "c", "d"]


def test_folders(tmp_path: Path) -> None:
    write_beir(tmp_path / "facts", {"d": "document"}, {"q": "query", "r": "unjudged"}, {"q": {"d": 1}})
    assert load_evaluation_texts(str(tmp_path / "facts")).texts == ["query", "document"]
    (tmp_path / "bank").mkdir()
    for split in ("train", "test"):
        (tmp_path / "bank" / f"{split}.csv").write_text(f"text,category,more\n{split} a,x,m\n{split} b,y,n\n")
    assert load_evaluation_texts(str(tmp_path / "bank")).texts == ["test a", "test b"]
    assert load_evaluation_texts(str(tmp_path / "bank"), split="train").texts == ["train a", "train b"]
    assert load_evaluation_texts(str(tmp_path / "bank"), columns=["more"]).texts == ["m", "n"]
