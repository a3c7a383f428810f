from __future__ import annotations

import pytest

from sentrep.data.augmentation.filters import EMPTY, IDENTICAL, KEPT, LENGTH, SCRIPT, PairFilter
from sentrep.data.text.tables import TableFile
from support import shared_path


@pytest.mark.parametrize(
    ("sentence", "rewriting", "verdict"),
    [
        ("The cat sat.", "A cat was sitting.", KEPT),
        ("The cat sat.", " \t", EMPTY),
        ("The cat sat.", "the CAT  sat!", IDENTICAL),
        ("Straße 5", "STRASSE, 5", IDENTICAL),
        ("...", "!!!", KEPT),
        ("...", "...", IDENTICAL),
        ("The cat sat.", "The 猫猫 sat.", SCRIPT),
        ("The cat sat on the mat in the sun.", "The cat sat on a mat in the sun (λ).", KEPT),
        ("Кошка сидела.", "Сидела кошка.", KEPT),
        ("Кошка сидела.", "Koshka sidela.", SCRIPT),
        ("猫は座った。", "猫が座っていた。", KEPT),
        ("1914-1918", "from 1914 to 1918", KEPT),
        ("twelve chars", "six ch", KEPT),
        ("twelve chars", "five!", LENGTH),
        ("twelve chars", "x" * 24, KEPT),
        ("twelve chars", "x" * 25, LENGTH),
        ("twelve chars", "  twelve  \U0001f600", KEPT),
    ],
)
def test_verdicts(sentence: str, rewriting: str, verdict: str) -> None:
    assert PairFilter()(sentence, rewriting) == verdict


def test_every_condition_can_be_switched_off() -> None:
    assert PairFilter(keep_identical=True)("a cat", "A CAT") == KEPT
    assert PairFilter(check_script=False)("a cat", "猫猫猫") == KEPT
    assert PairFilter(min_ratio=0, max_ratio=100)("a cat", "x" * 500) == KEPT


def test_real_back_translations_are_mostly_kept() -> None:
    """3,201 machine-translated tweets with emoji, mentions and links."""
    pairs = [row.cells for row in TableFile(shared_path("data/pairs/backtranslated_tweets.tsv")).rows([0, 1])]
    verdicts = [PairFilter()(*pair) for pair in pairs]
    assert verdicts.count(KEPT) > 0.97 * len(pairs)
