"""A corpus and a file of pairs, joined by sentence."""

from __future__ import annotations

import logging
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from words import Words

from sentrep.data import SentRepDataModule
from sentrep.data.files import is_blank, sentences_of
from sentrep.data.pairing import joined
from sentrep.data.text import open_text

CORPUS = ["first one", "", "second  one", "third one", "first one", "vierte \U0001f600 Zeile"]
PAIRS = [
    ("second one", "number two"),
    ("unknown", "not in the corpus"),
    ("first one", "number one"),
    ("first one", "a later pair of the same sentence"),
    ("third one", ""),
    ("", "no sentence"),
    ("vierte \U0001f600 Zeile", "fourth 行"),
]
JOINED = [
    (("first one", "number one"), True),
    (("", ""), False),
    (("second  one", "number two"), True),
    (("third one", "third one"), False),
    (("first one", "number one"), True),
    (("vierte \U0001f600 Zeile", "fourth 行"), True),
]


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    (tmp_path / "corpus.txt").write_text("\n".join(CORPUS))
    return str(tmp_path / "corpus.txt")


@pytest.fixture
def pairs(tmp_path: Path) -> str:
    columns = {"a": [a for a, _ in PAIRS], "other": [0] * len(PAIRS), "b": [b for _, b in PAIRS]}
    pq.write_table(pa.table(columns), tmp_path / "pairs.parquet")
    return str(tmp_path / "pairs.parquet")


def test_rows_keep_their_place_and_get_their_first_positive(corpus: str, pairs: str) -> None:
    rows = list(joined(open_text(corpus), open_text(pairs, ["a", "b"])).rows)
    assert [(sentences_of(row), not row["unpaired"]) for row in rows if not is_blank(sentences_of(row))] == [
        row for row in JOINED if row[0][0]
    ]
    assert len(rows) == len(CORPUS)


def test_equal_to_a_dictionary_on_many_rows(tmp_path: Path) -> None:
    draw = random.Random(3)
    sentences = [f"sentence {draw.randrange(3000)}" for _ in range(2000)]
    table = [(f"sentence {draw.randrange(3000)}", "é" * draw.randrange(1, 9) + str(number)) for number in range(9000)]
    (tmp_path / "corpus.txt").write_text("\n".join(sentences))
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in table))
    first = dict(reversed(table))
    text = joined(open_text(tmp_path / "corpus.txt"), open_text(tmp_path / "pairs.tsv", [0, 1]))
    assert list(map(sentences_of, text.rows)) == [(sentence, first.get(sentence, sentence)) for sentence in sentences]


def test_the_data_module_joins_counts_and_says_so(corpus: str, pairs: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "sentrep")
    data = SentRepDataModule(corpus, pairs=pairs, pair_columns=["a", "b"], batch_size=5)
    data.connect(Words())
    data.setup("fit")
    (batch,) = data.train_dataloader()
    assert sorted(batch.rows.tolist()) == [0, 2, 3, 4, 5]
    assert caplog.messages[0] == (
        f"{corpus} with the pairs of {pairs}: 5 rows (6 read, 1 blank and skipped, 1 without a pair and "
        "their own positive, 0 sentences cut to 8 tokens)"
    )
    assert data.report()["train"]["without a pair"] == 1


def test_the_fingerprint_follows_both_texts_and_the_columns(corpus: str, pairs: str) -> None:
    def fingerprint(*columns: str) -> str:
        return joined(open_text(corpus), open_text(pairs, columns)).fingerprint

    found = [fingerprint("a", "b"), fingerprint("b", "a")]
    assert fingerprint("a", "b") == found[0]
    pq.write_table(pa.table({"a": ["first one"], "b": ["other"]}), pairs)
    found.append(fingerprint("a", "b"))
    Path(corpus).write_text("first one\nsomething else\n")
    assert len({*found, fingerprint("a", "b"), open_text(corpus).fingerprint}) == 5
