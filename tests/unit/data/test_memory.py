"""Text in memory, beside the same text in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
import pandas
import pytest
from words import Words

from sentrep import SentRepDataModule
from sentrep.data import load
from sentrep.data.text import open_text
from sentrep.errors import InputError

TEXTS = ["a b c", "d", "", "e f", "g h i", "j", "k l"]
PAIRS = [(text, f"{text} too") for text in TEXTS]
FRAME = pandas.DataFrame({"id": range(7), "sent0": [t or None for t in TEXTS], "sent1": [pair[1] for pair in PAIRS]})
HELD = {
    "texts": TEXTS,
    "pairs": PAIRS,
    "triples": [[*pair, "no"] for pair in PAIRS],
    "data set": datasets.Dataset.from_dict({"text": TEXTS}),
    "selection": datasets.Dataset.from_dict({"text": ["x", *reversed(TEXTS)]}).select(range(7, 0, -1)),
    "data frame": FRAME,
}


def module(train: Any) -> SentRepDataModule:
    data = SentRepDataModule(train, batch_size=2, seed=1)
    data.connect(Words())
    data.prepare_data()
    data.setup("fit")
    return data


def batches(data: SentRepDataModule) -> list[Any]:
    loaded = ((batch.anchor, batch.positive, batch.negative) for batch in data.train_dataloader())
    return [[part.input_ids.tolist() for part in parts if part is not None] for parts in loaded]


@pytest.mark.parametrize("kind", HELD)
def test_what_is_held_trains_as_a_file_of_the_same_text(kind: str, tmp_path: Path) -> None:
    rows = {"pairs": PAIRS, "triples": HELD["triples"], "data frame": PAIRS}.get(kind, [(text,) for text in TEXTS])
    names = ["sent0", "sent1", "hard_neg"][: len(rows[0])] if len(rows[0]) > 1 else ["text"]
    file = tmp_path / "train.csv"
    pandas.DataFrame(rows, columns=names).to_csv(file, index=False)
    held, read = module(HELD[kind]), module(str(file))
    assert batches(held) == batches(read)
    mine, its = (data.report()["train"] for data in (held, read))
    assert mine.pop("source") == "the texts in memory"
    assert mine.pop("fingerprint") != its.pop("fingerprint")
    assert mine == {key: value for key, value in its.items() if key != "source"}


def test_equal_texts_have_equal_fingerprints_and_others_have_others() -> None:
    prints = [open_text(held).fingerprint for held in (TEXTS, list(TEXTS), HELD["data set"], HELD["selection"])]
    assert len(set(prints)) == 1
    changed = [*TEXTS[:-1], "k m"], TEXTS[::-1], PAIRS, HELD["data set"].select([0, 1])
    assert len({prints[0], *(open_text(held).fingerprint for held in changed)}) == 5
    columns = [open_text(FRAME, names).fingerprint for names in (["sent0"], ["sent1"], None)]
    assert len(set(columns)) == 3


def test_a_list_of_files_is_still_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my text.txt").write_text("from the file")
    assert load(["my text.txt", "my text.txt"])["anchor"][:] == ["from the file"] * 2
    with pytest.raises(InputError, match=r"missing\.txt"):
        load(["my text.txt", "missing.txt"])
    Path("plain.txt").write_text("from the file")
    with pytest.raises(InputError, match=r"'plain.txt' is a file among texts"):
        load(["plain.txt", "A man plays."])
