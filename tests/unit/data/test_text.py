from __future__ import annotations

import os
from pathlib import Path

import datasets
import pytest

from sentrep.data import load
from sentrep.data.files import sentences_of
from sentrep.data.text import open_text
from sentrep.errors import InputError


def sentences(*args, **kwargs) -> list[tuple[str, ...]]:
    """Of both ways to read."""
    streamed, read = (list(map(sentences_of, load(*args, **kwargs, streaming=how))) for how in (True, False))
    assert streamed == read
    return read


def test_globs_and_lists_are_read_in_order(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("three\n")
    (tmp_path / "a.txt").write_text("one\n\ntwo\n")
    assert sentences(str(tmp_path / "*.txt")) == [("one",), ("",), ("two",), ("three",)]
    assert sentences([tmp_path / "b.txt", tmp_path / "a.txt"])[0] == ("three",)


@pytest.mark.parametrize("name", ["file:b.txt", "a::b.txt", "~nobody.txt", "memory:b.txt"])
def test_a_file_is_the_one_of_this_name_whatever_else_it_could_mean(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b.txt").write_text("another\n")
    with pytest.raises(InputError, match="no such file"):
        load("file:b.txt")
    (tmp_path / name).write_text("itself\n")
    assert sentences(name) == sentences(tmp_path / name) == [("itself",)]
    assert open_text(name).fingerprint != open_text("b.txt").fingerprint


@pytest.mark.parametrize("kind", ["dataset", "dict"])
def test_folder_of_save_to_disk(tmp_path: Path, kind: str) -> None:
    data = datasets.Dataset.from_dict({"text": ["one", None, "two"], "id": [1, 2, 3]})
    (data if kind == "dataset" else datasets.DatasetDict({"train": data})).save_to_disk(str(tmp_path / "saved"))
    assert sentences(tmp_path / "saved") == [("one",), ("",), ("two",)]
    assert open_text(tmp_path / "saved").fingerprint == open_text(tmp_path / "saved").fingerprint
    if kind == "dict":
        with pytest.raises(InputError, match=r"no split 'trian'; found train; did you mean 'train'\?"):
            load(tmp_path / "saved", split="trian")


def test_toy_is_a_word_unless_a_file_has_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_text("toy").name == "toy"
    assert len(sentences("toy")) >= 10_000
    assert open_text("toy").fingerprint == open_text("toy").fingerprint
    Path("toy").mkdir()
    with pytest.raises(InputError, match=r"toy: cannot be read .Directory toy is neither a `Dataset` directory"):
        load("toy")


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
        load(spec)
    assert not hub


def test_hub_without_network_is_one_sentence(hub: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        load("princeton-nlp/datasets-for-simcse")
    assert hub == ["princeton-nlp/datasets-for-simcse"]
    assert "princeton-nlp/datasets-for-simcse: no such local file" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_parts_of_other_widths_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / "b.csv").write_text("sent0,sent1\na,b\n")
    with pytest.raises(InputError, match=r"b.csv: 2 columns of sentences, the first file has 1; name the `columns`"):
        load([str(tmp_path / "a.txt"), str(tmp_path / "b.csv")])
    with pytest.raises(InputError, match=r"data.train: .*; expected a list of one or more files"):
        load([str(tmp_path / "a.txt"), "toy"])


def test_a_file_edited_under_the_same_time_and_size_is_read_again(tmp_path: Path) -> None:
    """`datasets`' own readers tell files apart by their times: they would give the first rows again."""
    path = tmp_path / "a.txt"
    path.write_text("one\n")
    os.utime(path, (1, 1))
    assert load(str(path))["anchor"][:] == ["one"]
    path.write_text("two\n")
    os.utime(path, (1, 1))
    assert load(str(path))["anchor"][:] == ["two"]


def test_a_transform_is_refused() -> None:
    """It was ignored: the rows below it were read."""
    data = datasets.Dataset.from_dict({"text": ["one"]}).with_transform(lambda batch: {"text": ["two"]})
    with pytest.raises(InputError, match=r"a transform .* is not applied; use `map`"):
        load(data)
