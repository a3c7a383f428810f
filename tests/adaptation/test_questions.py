from __future__ import annotations

import numpy as np
import pytest

from sentrep.adaptation.questions import AMBIGUOUS, LOST, generate, judge
from sentrep.adaptation.round_trip import RoundTrip
from sentrep.data.augmentation.filters import BLANK, EMPTY, KEPT, TOO_LONG
from sentrep.data.augmentation.translation import Translation
from sentrep.data.text.corpus import CorpusRow
from sentrep.errors import InputError

WORDS = ("rain", "snow", "sun", "wind")
PASSAGES = ["rain rain falls", "snow falls", "the sun", "wind and snow", "rain rain falls"]


class BagOfWords:
    """Counts of four words."""

    device = "cpu"

    def encode(self, texts: list[str], **options: object) -> np.ndarray:
        return np.array([[text.count(word) for word in WORDS] for text in texts], dtype=np.float32)


def by_hand(question: str, passage: str, top: int) -> bool:
    texts = list(dict.fromkeys(PASSAGES))
    own, *others = BagOfWords().encode([question, *texts])
    cosines = [own @ x / max(1e-9, np.linalg.norm(own) * np.linalg.norm(x)) for x in others]
    return passage in [texts[place] for place in np.argsort(-np.array(cosines), kind="stable")[:top]]


@pytest.mark.parametrize("top", [1, 2, 9])
def test_a_question_is_kept_where_it_leads_back_to_its_passage(top: int) -> None:
    pairs = [("rain?", PASSAGES[0]), ("snow?", PASSAGES[3]), ("snow, wind?", PASSAGES[3]), ("sun?", PASSAGES[1])]
    found = judge(pairs, PASSAGES, RoundTrip(top=top), BagOfWords())  # type: ignore[arg-type]
    assert found == [KEPT if by_hand(*pair, top) else LOST for pair in pairs]
    assert {1: 2, 2: 1, 9: 0}[top] == found.count(LOST)


def test_a_question_of_several_passages_is_left_out_with_or_without_an_encoder() -> None:
    pairs = [("what?", PASSAGES[0]), ("what?", PASSAGES[1]), ("rain?", PASSAGES[0]), ("rain?", PASSAGES[4])]
    assert judge(pairs, PASSAGES, RoundTrip(), None) == [AMBIGUOUS, AMBIGUOUS, KEPT, KEPT]  # equal passages are one


def test_vectors_that_tell_nothing_are_refused() -> None:
    with pytest.raises(InputError, match="collapsed"):
        judge([("a", PASSAGES[0]), ("b", PASSAGES[1])], PASSAGES, RoundTrip(), BagOfWords())  # type: ignore[arg-type]


def test_a_sequence_to_sequence_model_is_asked_several_times() -> None:
    drawn = []

    def ask(passages: list[str], draw: tuple[int, ...]) -> list[Translation]:
        drawn.append(draw)
        texts = {"same": "always?", "silent": "", "other": f"question\n{draw[1]}?"}
        return [Translation(texts.get(p, ""), TOO_LONG if p == "long" else None) for p in passages]

    rows = [CorpusRow(7 + n, (text,)) for n, text in enumerate(["same", "", "silent", "other", "long"])]
    found = generate(rows, ask, 3)
    assert drawn == [(7, 0), (7, 1), (7, 2)]
    assert [tuple(row.values()) for row in found] == [
        ("same", "always?", KEPT),
        ("", "", BLANK),
        ("silent", "", EMPTY),
        ("other", "question 0?\nquestion 1?\nquestion 2?", KEPT),
        ("long", "", TOO_LONG),
    ]
    assert generate([CorpusRow(0, (" ",))], ask, 3)[0]["verdict"] == BLANK
