"""Back-translation, with translators that are functions."""

from __future__ import annotations

import random
from collections.abc import Sequence

from sentrep.data.augmentation.backtranslation import BLANK, EMPTY, back_translate, in_batches
from sentrep.data.augmentation.finished_pairs import KEPT
from sentrep.data.augmentation.translation import TOO_LONG, UNFINISHED, Translation

Draw = tuple[int, ...]


def corpus(count: int) -> list[tuple[int, str]]:
    draw = random.Random(count)
    texts = [" ".join(draw.choices(["one", "three", "seventeen"], k=draw.randint(1, 9))) for _ in range(count)]
    return [(number, "" if number % 11 == 5 else text) for number, text in enumerate(texts)]


def test_rows_come_back_in_order_from_batches_of_like_lengths() -> None:
    batches: list[list[int]] = []

    def finish(rows: Sequence[tuple[int, str]]) -> list[dict[str, int]]:
        batches.append([len(sentence) for _, sentence in rows])
        return [{"row": number} for number, _ in rows]

    found = in_batches(corpus(100), 7, finish)
    assert [row["row"] for row in found] == list(range(100))
    lengths = [len(sentence) for _, sentence in corpus(100)]
    assert [length for batch in batches for length in batch] == sorted(lengths, reverse=True)


def test_a_batch_draws_from_its_first_row_and_the_direction() -> None:
    drawn: list[Draw] = []

    def translate(sentences: Sequence[str], draw: Draw) -> list[Translation]:
        drawn.append(draw)
        return [Translation(text.upper(), None) for text in sentences]

    back_translate(corpus(9)[3:5], translate, translate)
    assert drawn == [(3, 0), (3, 1)]


def test_every_verdict() -> None:
    answers = {
        "kept": "this was kept", "same": "Same.", "gone": "", "white": " \t", "long": None, "loop": "loop loop",
        "way out": "back", "no pivot": "x",
    }  # fmt: skip
    problems = {"long": TOO_LONG, "no pivot": UNFINISHED}

    def forward(sentences: Sequence[str], draw: Draw) -> list[Translation]:
        return [Translation("" if text == "way out" else f"<{text}>", problems.get(text)) for text in sentences]

    def backward(sentences: Sequence[str], draw: Draw) -> list[Translation]:
        assert not {"<long>", "<no pivot>", ""} & set(sentences)
        back = [answers[text[1:-1]] or "" for text in sentences]
        return [Translation(text, UNFINISHED if text == "loop loop" else None) for text in back]

    rows = [(number, text) for number, text in enumerate([*answers, " "])]
    found = back_translate(rows, forward, backward)
    assert [row["verdict"] for row in found] == [
        KEPT, KEPT, EMPTY, EMPTY, TOO_LONG, UNFINISHED, EMPTY, UNFINISHED, BLANK,
    ]  # fmt: skip
    assert found[0] == {"sent0": "kept", "sent1": "this was kept", "verdict": "kept"}
