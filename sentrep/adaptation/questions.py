"""Questions about every passage of a text, written by a model, as pairs to train on.

A language model or a sequence-to-sequence model writes the questions (GPL, Wang et al. 2022; InPars, Bonifacio et al.
2022). An encoder keeps the questions that find their passage among all others (Promptagator, Dai et al. 2022). Instead,
GPL weighs the pairs by a cross-encoder, and InPars keeps the most likely questions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from sentrep.adaptation.round_trip import RoundTrip
from sentrep.data.augmentation.backtranslation import Translate
from sentrep.data.augmentation.filters import BLANK, EMPTY, KEPT
from sentrep.data.augmentation.finished_pairs import VERDICT, tables
from sentrep.data.parts import Parts
from sentrep.data.text.cells import PAIR
from sentrep.data.text.corpus import CorpusRow
from sentrep.encoder import SentenceEncoder
from sentrep.evaluation.retrieval import BLOCK, TopK
from sentrep.evaluation.vectors import encode_texts, refuse_collapse
from sentrep.io.files import write_text
from sentrep.io.paths import writing

ASKED = ("passage", "questions")
"""Columns of the answers: the passage, and its questions, one per line."""
LONGEST = 64
"""The most tokens of a question by a sequence-to-sequence model; a longer question repeats itself."""
LOST = "passage not found again"
AMBIGUOUS = "asked of several passages"


def generate(rows: Sequence[CorpusRow], translate: Translate, count: int) -> list[dict[str, Any]]:
    """Rows with questions by a sequence-to-sequence model, each drawn anew.

    Args:
        rows: with passages.
        translate: gives one question per passage: a `Translator`.
        count: questions per passage.

    Examples:
        >>> from sentrep.data.augmentation.translation import Translation
        >>> def ask(passages, draw):
        ...     return [Translation(f"what is {passage} {draw[1]}?", None) for passage in passages]
        >>> [row["questions"] for row in generate([CorpusRow(0, ("rain",)), CorpusRow(1, ("",))], ask, 2)]
        ['what is rain 0?\\nwhat is rain 1?', '']
    """
    asked = [row for row in rows if not row.blank]
    first = min(row.number for row in rows)
    passages = [row.sentences[0] for row in asked]
    draws = [translate(passages, (first, draw)) for draw in range(count if asked else 0)]
    found: dict[int, tuple[str, str]] = {}
    for row, answers in zip(asked, zip(*draws, strict=True), strict=True):
        lines = [" ".join(answer.text.split()) for answer in answers if answer.problem is None]
        text = "\n".join(filter(None, dict.fromkeys(lines)))
        found[row.number] = text, KEPT if text else answers[0].problem or EMPTY
    return [
        {"passage": row.sentences[0], "questions": text, VERDICT: verdict}
        for row in rows
        for text, verdict in [found.get(row.number, ("", BLANK))]
    ]


def read_questions(parts: Parts) -> Iterator[tuple[str, str]]:
    """(question, passage) from finished parts with the columns `ASKED`; each passage on one line."""
    for table in tables(parts):
        for passage, questions in zip(*(table[name].to_pylist() for name in ASKED), strict=True):
            yield from ((question, one_line(passage)) for question in filter(None, questions.split("\n")))


def one_line(passage: str) -> str:
    """A passage on one line, for the pairs, which are a table with tabs."""
    return " ".join(passage.split())


def judge(
    pairs: Sequence[tuple[str, str]], passages: Sequence[str], how: RoundTrip, encoder: SentenceEncoder | None
) -> list[str]:
    """A verdict on every pair: `KEPT`, asked of several passages (`AMBIGUOUS`) or `LOST`.

    Args:
        pairs: (question, passage).
        passages: all passages, with those of the pairs; equal passages count as one.
        how: the condition.
        encoder: None checks only for questions of several passages.

    Raises:
        InputError: vectors that are not finite or all equal.
    """
    owners: dict[str, set[str]] = {}
    for question, passage in pairs:
        owners.setdefault(question, set()).add(passage)
    found = np.ones(len(pairs), bool) if encoder is None else _found_again(pairs, passages, how, encoder)
    return [
        AMBIGUOUS if len(owners[question]) > 1 else KEPT if again else LOST
        for (question, _), again in zip(pairs, found, strict=True)
    ]


def write_question_pairs(path: str, pairs: Sequence[tuple[str, str]]) -> None:
    """Write pairs as a table with tabs, with the columns `PAIR`; whole or not at all.

    Raises:
        InputError: a place that cannot be written.
    """
    with writing(path):
        write_text(path, "".join(f"{first}\t{second}\n" for first, second in (PAIR, *pairs)))


def _found_again(
    pairs: Sequence[tuple[str, str]], passages: Sequence[str], how: RoundTrip, encoder: SentenceEncoder
) -> np.ndarray:
    """(Q,) whether the question finds its passage among the first ones."""
    numbers = {passage: number for number, passage in enumerate(dict.fromkeys(passages))}
    texts = list(numbers)
    asked = encode_texts(encoder, [question for question, _ in pairs], "questions", how.batch_size, None)
    refuse_collapse(asked, "questions")
    best = TopK(torch.from_numpy(asked).to(encoder.device), how.top)
    for start in range(0, len(texts), BLOCK):
        vectors = encode_texts(encoder, texts[start : start + BLOCK], "passages", how.batch_size, None)
        best.add(torch.from_numpy(vectors), torch.arange(start, start + len(vectors)))
    own = torch.tensor([numbers[passage] for _, passage in pairs])
    return (best.order == own[:, None]).any(dim=1).numpy()
