from __future__ import annotations

import numpy as np

from sentrep.adaptation.neighbours import changed_neighbours

RNG = np.random.default_rng(0)
CENTRES = 10 * RNG.normal(size=(5, 8))
BEFORE = (CENTRES[:, None] + RNG.normal(size=(5, 20, 8))).reshape(100, 8)
TEXTS = [f"text {number}" for number in range(100)]


def by_hand(vectors: np.ndarray, row: int) -> tuple[str, ...]:
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return tuple(TEXTS[place] for place in np.argsort(-(unit @ unit[row])) if place != row)[:3]


def test_neighbours_are_of_texts_all_over_and_changed_ones_come_first() -> None:
    after = BEFORE.copy()
    after[:20] = after[:20][::-1]  # of one group, each has another's vector
    found = changed_neighbours(TEXTS, BEFORE, after, count=5)
    rows = [TEXTS.index(one.sentence) for one in found]
    assert sorted(row // 20 for row in rows) == [0, 1, 2, 3, 4]  # one of each group
    assert rows[0] < 20
    assert [one.before == one.after for one in found] == [False, True, True, True, True]
    for one, row in zip(found, rows, strict=True):
        assert one.before == by_hand(BEFORE, row)
        assert one.after == by_hand(after, row)
    assert found == changed_neighbours(TEXTS, BEFORE, after, count=5)


def test_a_text_is_no_neighbour_of_itself_nor_twice() -> None:
    texts = ["a", "a", "b", "b", "c"]
    vectors = np.array([[1.0, 0], [1, 0], [0.9, 0.1], [0.9, 0.1], [0, 1]])
    found = {one.sentence: one.before for one in changed_neighbours(texts, vectors, vectors)}
    assert found == {"a": ("b", "c"), "b": ("a", "c"), "c": ("b", "a")}
