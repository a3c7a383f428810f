"""Back-translation, with translators that are functions."""

from __future__ import annotations

import random
from collections.abc import Sequence

from sentrep.data.augmentation.backtranslation import BLANK, EMPTY, back_translate, in_batches
from sentrep.data.augmentation.finished_pairs import KEPT
from sentrep.data.augmentation.translation import TOO_LONG, UNFINISHED, Translation


def test_rows_come_back_in_order_from_batches_of_like_lengths() -> None:
    draw = random.Random(1)
    corpus = [" ".join(draw.choices(["one", "three", "seventeen"], k=draw.randint(0, 9))) for _ in range(100)]
    lengths: list[int] = []

    def finish(batch: Sequence[str]) -> list[dict[str, str]]:
        lengths.extend(map(len, batch))
        return [{"sentence": sentence} for sentence in batch]

    assert [row["sentence"] for row in in_batches(corpus, 7, finish)] == corpus
    assert lengths == sorted(map(len, corpus), reverse=True)


def test_every_verdict() -> None:
    answers = {
        "kept": "this was kept", "same": "Same.", "gone": "", "white": " \t", "long": None, "loop": "loop loop",
        "way out": "back", "no pivot": "x",
    }  # fmt: skip
    problems = {"long": TOO_LONG, "no pivot": UNFINISHED}

    def forward(sentences: Sequence[str]) -> list[Translation]:
        return [Translation("" if text == "way out" else f"<{text}>", problems.get(text)) for text in sentences]

    def backward(sentences: Sequence[str]) -> list[Translation]:
        assert not {"<long>", "<no pivot>", ""} & set(sentences)
        back = [answers[text[1:-1]] or "" for text in sentences]
        return [Translation(text, UNFINISHED if text == "loop loop" else None) for text in back]

    found = back_translate([*answers, " "], forward, backward)
    assert [row["verdict"] for row in found] == [
        KEPT, KEPT, EMPTY, EMPTY, TOO_LONG, UNFINISHED, EMPTY, UNFINISHED, BLANK,
    ]  # fmt: skip
    assert found[0] == {"sent0": "kept", "sent1": "this was kept", "verdict": "kept"}
