from __future__ import annotations

from pathlib import Path

import datasets
import pytest

from sentrep.data import open_corpus
from sentrep.errors import InputError


def sentences(*args, **kwargs) -> list[tuple[str, ...]]:
    return [row.sentences for row in open_corpus(*args, **kwargs).rows()]


def test_globs_and_lists_are_read_in_order_with_rows_counted_over_all_files(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("three\n")
    (tmp_path / "a.txt").write_text("one\n\ntwo\n")
    rows = list(open_corpus(str(tmp_path / "*.txt")).rows())
    assert [(row.number, row.sentences, row.blank) for row in rows] == [
        (0, ("one",), False),
        (1, ("",), True),
        (2, ("two",), False),
        (3, ("three",), False),
    ]
    assert sentences([tmp_path / "b.txt", tmp_path / "a.txt"])[0] == ("three",)


@pytest.mark.parametrize("name", ["file:b.txt", "a::b.txt", "~nobody.txt", "memory:b.txt"])
def test_a_file_is_the_one_of_this_name_whatever_else_it_could_mean(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b.txt").write_text("another\n")
    with pytest.raises(InputError, match="no such file"):
        open_corpus("file:b.txt")
    (tmp_path / name).write_text("itself\n")
    assert sentences(name) == sentences(tmp_path / name) == [("itself",)]
    assert open_corpus(name).stamp == open_corpus(tmp_path / name).stamp
    assert open_corpus(name).fingerprint != open_corpus("b.txt").fingerprint


@pytest.mark.parametrize("kind", ["dataset", "dict"])
def test_folder_of_save_to_disk(tmp_path: Path, kind: str) -> None:
    data = datasets.Dataset.from_dict({"text": ["one", None, "two"], "id": [1, 2, 3]})
    (data if kind == "dataset" else datasets.DatasetDict({"train": data})).save_to_disk(str(tmp_path / "saved"))
    corpus = open_corpus(tmp_path / "saved")
    assert [row.sentences for row in corpus.rows()] == [("one",), ("",), ("two",)]
    assert corpus.fingerprint == open_corpus(tmp_path / "saved").fingerprint
    if kind == "dict":
        with pytest.raises(InputError, match=r"no split 'trian'; found train; did you mean 'train'\?"):
            open_corpus(tmp_path / "saved", split="trian")


def test_toy_is_a_word_unless_a_file_has_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_corpus("toy").name == "toy"
    assert len(sentences("toy")) >= 10_000
    assert open_corpus("toy").fingerprint == open_corpus("toy").fingerprint
    Path("toy").mkdir()
    with pytest.raises(InputError, match="toy: a folder that `save_to_disk` did not write"):
        open_corpus("toy")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    asked: list[str] = []

    def refuse(name: str, split: str) -> None:
        asked.append(name)
        raise ConnectionError(f"Couldn't reach '{name}' on the Hub\nand so on")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    return asked


@pytest.mark.parametrize(
    "spec", ["wiki.txt", "no/wiki.csv.gz", "./wiki", "/no/wiki", "~/no_such_wiki", "no/*", "a/b/c", "a b"]
)
def test_what_looks_like_a_path_is_never_looked_up_on_the_hub(spec: str, hub: list[str]) -> None:
    with pytest.raises(InputError, match=r": no such file or folder"):
        open_corpus(spec)
    assert not hub


def test_hub_without_network_is_one_sentence(hub: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        open_corpus("princeton-nlp/datasets-for-simcse")
    assert hub == ["princeton-nlp/datasets-for-simcse"]
    assert "princeton-nlp/datasets-for-simcse: no such local file" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_fingerprint_depends_on_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("sent0,sent1\na,b\n")
    prints = {open_corpus(tmp_path / "a.csv", columns).fingerprint for columns in (None, ["sent0"], ["sent1"], [0, 1])}
    assert len(prints) == 4


def test_positions_as_digits(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a\tb\nc\td\n")
    assert (
        sentences(tmp_path / "a.tsv", ["0", "1"]) == sentences(tmp_path / "a.tsv", [0, 1]) == [("a", "b"), ("c", "d")]
    )
