from __future__ import annotations

from pathlib import Path

import datasets
import pytest

from sentrep.data import PairsFile, load_sts
from sentrep.data.sets import sts
from sentrep.errors import InputError
from support import shared_path


@pytest.mark.parametrize("name", sts._SETS)
def test_real_sets_are_complete(name: str) -> None:
    pairs = load_sts(name, shared_path("data/senteval"))
    assert pairs.name == name
    assert len(pairs) == len(pairs.first) == len(pairs.second) == sts._SETS[name].pairs
    assert pairs.protocol == ("MTEB (train + dev + test)" if name == "sickr-all" else "SentEval (all)")
    assert all(0 <= score <= 5 for score in pairs.scores)
    assert not any("\r" in text or "\n" in text or "\t" in text or not text for text in pairs.first + pairs.second)


def test_real_alignment() -> None:
    folder = shared_path("data/senteval")
    dev = load_sts("stsb-dev", folder)
    first = (dev.first[0], dev.second[0], dev.scores[0])
    assert first == ("A man with a hard hat is dancing.", "A man wearing a hard hat is dancing.", 5.0)
    sick = load_sts("SICKR", folder)
    assert (sick.name, sick.first[0], sick.scores[0]) == (
        *("sickr", "There is no boy playing outdoors and there is no man smiling", 3.3),
    )


@pytest.mark.parametrize("part", ["", "STS", "SICK"])
def test_the_folder_of_one_set_finds_its_sibling(part: str) -> None:
    folder = shared_path("data/senteval") / part
    assert len(load_sts("sickr-dev", folder)) == 500
    assert len(load_sts("stsb-dev", folder)) == 1500


@pytest.mark.parametrize("folder", ["missing", "my_sets", "STS/missing"])
def test_no_set_but_that_of_the_folder_is_scored(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_year(tmp_path)
    (tmp_path / "my_sets").mkdir()
    monkeypatch.setitem(sts._SETS, "sts12", sts._SETS["sts12"]._replace(pairs=2))
    assert len(load_sts("sts12", tmp_path / "STS")) == 2
    with pytest.raises(InputError, match=f"{folder}: no (such folder|STS/STS12-en-test in it for sts12)"):
        load_sts("sts12", tmp_path / folder)


def make_year(folder: Path, gold: str = "3.5\n\n1\n", sentences: str = "a\tb\textra\nc\td\ne\tf\n") -> None:
    year = folder / "STS" / "STS12-en-test"
    year.mkdir(parents=True, exist_ok=True)
    (year / "STS.input.surprise.X.txt").write_text(sentences)
    (year / "STS.gs.surprise.X.txt").write_text(gold)


def test_pairs_without_gold_are_left_out_in_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_year(tmp_path)
    with pytest.raises(InputError, match=r"2 scored pairs of sts12 where 3108 are expected; is it complete\?"):
        load_sts("sts12", tmp_path)
    monkeypatch.setitem(sts._SETS, "sts12", sts._SETS["sts12"]._replace(pairs=2))
    pairs = load_sts("STS12", tmp_path)
    assert (pairs.first, pairs.second, pairs.scores) == (["a", "e"], ["b", "f"], [3.5, 1.0])


def test_pairs_files(tmp_path: Path) -> None:
    path = tmp_path / "my.pairs.csv"
    path.write_text('sentence1,sentence2,score\n"a, b",c,3\n,d,1\ne,f,0.5\n')
    pairs = load_sts(str(path))
    assert (pairs.name, pairs.first, pairs.second, pairs.scores) == ("my", ["a, b", "e"], ["c", "f"], [3.0, 0.5])
    headless = tmp_path / "b.tsv"
    headless.write_text("2\tx\ty\n1\tv\tw\n")
    pairs = load_sts(PairsFile(str(headless), columns=("1", "2", "0"), name="mine"))
    assert (pairs.name, pairs.first, pairs.second, pairs.scores) == ("mine", ["x", "v"], ["y", "w"], [2.0, 1.0])


def test_hub_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def load(name: str, split: str) -> datasets.Dataset:
        asked.append((name, split))
        return datasets.Dataset.from_dict({"sentence1": ["a"] * 1500, "sentence2": ["b"] * 1500, "score": [1.0] * 1500})

    monkeypatch.setattr(datasets, "load_dataset", load)
    pairs = load_sts("stsb-dev")
    assert (len(pairs), pairs.protocol, asked) == (1500, "MTEB", [("mteb/stsbenchmark-sts", "validation")])
    with pytest.raises(InputError, match=r"mteb/sts12-sts: 1500 scored pairs of sts12 where 3108 are expected"):
        load_sts("sts12")
    with pytest.raises(InputError, match=r"sickr: the Hub has sickr-all only; give the folder"):
        load_sts("sickr")
