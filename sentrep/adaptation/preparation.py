"""From documents to files: the training pairs, and the tasks that choose and judge."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sentrep.adaptation.budget import SAMPLE, Budget
from sentrep.adaptation.mining import mine_hard_negatives
from sentrep.adaptation.pairs import Pair, make_pairs, write_columns
from sentrep.adaptation.questions import one_line
from sentrep.adaptation.splitting import Split
from sentrep.data.sets.proxy_tasks import write_proxy_tasks
from sentrep.data.text.documents import Document, count_tokens, split_passages
from sentrep.encoder import SentenceEncoder
from sentrep.encoder.encode import encode
from sentrep.functional.similarity import cosine_similarity_matrix

logger = logging.getLogger("sentrep")

PAIRS, PASSAGES, SENTENCES = "pairs.parquet", "passages.parquet", "sentences.parquet"
"""Files of the training text."""
CHOOSE, JUDGE = "choose", "judge"
"""Folders of tasks: to choose by, to judge by."""
_NEAR = 3
"""Passages of other documents nearest to each query that chooses, which it is likely to confuse."""
_MANY = 200
"""The encoding of so many texts is logged, with a bar."""
_FEW = 500
"""Distractors of the choice, which are read many times."""

Cut = Sequence[tuple[str, ...]]


class Remembered:
    """Vectors of texts by a model that does not change: no text is encoded twice.

    Args:
        encoder: the model.
        bf16: compute its products in bfloat16.
    """

    def __init__(self, encoder: SentenceEncoder, bf16: bool = False) -> None:
        self.encoder, self.bf16 = encoder, bf16
        self._known: dict[str, Tensor] = {}

    def __call__(self, texts: Sequence[str]) -> Tensor:
        """(n, D) float32, on the CPU."""
        new = list(dict.fromkeys(text for text in texts if text not in self._known))
        if new:
            many = len(new) >= _MANY
            if many:
                logger.info("encoding %s texts", f"{len(new):,}")
            with torch.autocast(self.encoder.device.type, torch.bfloat16, enabled=self.bf16):
                vectors = encode(self.encoder, new, show_progress_bar=None if many else False)
            self._known.update(zip(new, vectors, strict=True))
        return torch.stack([self._known[text] for text in texts])


def prepare(
    documents: Sequence[Document],
    split: Split,
    start: Remembered,
    folder: Path,
    minutes: float,
    most: int = 10_000,
    seed: int = 0,
    questions: Sequence[tuple[str, ...]] = (),
) -> tuple[int, int]:
    """Write passages, pairs with hard negatives, sentences, and the tasks.

    Args:
        documents: all of them.
        split: the held-out documents.
        start: the untouched model, which mines.
        folder: of the files.
        minutes: of training; `Budget` says how much of the text can be read and trained on in these minutes.
        most: passages to train on and to search in; from a larger text so many are drawn, as whole documents.
        seed: of every draw.
        questions: further pairs of question and passage; if the passage is not trained on, skipped and counted.

    Returns:
        The numbers of passages and of pairs to train on.
    """
    cut = functools.partial(_passages, documents, start.encoder)
    trained = cut(split.train)
    budget = Budget.of(folder, start, _texts(_drawn(trained, SAMPLE, seed)[0]), minutes)
    chosen, judged = cut(split.choose[: budget.choose]), cut(split.judge[: budget.judge])
    passages, owners = _drawn(trained, min(most, budget.passages), seed)
    texts = _texts(passages)
    training = {owner: documents[owner] for owner in owners}
    pairs = make_pairs(training, list(zip(owners, passages, strict=True)), seed)
    rng = np.random.default_rng(np.random.SeedSequence([seed, 4]))
    reached = [pairs[number] for number in sorted(rng.permutation(len(pairs))[: budget.pairs])]
    reached += _asked(questions, texts)
    logger.info(
        "%d of %d pairs, from %d passages of %d documents, to train on; %d documents to choose by and %d to judge by "
        "are held out%s",
        *(len(reached), len(pairs), len(passages), len(training), len(chosen), len(judged)),
        f" ({split.copies} were not, as another is nearly the same)" if split.copies else "",
    )
    titles = [document.title or document.sentences[-1] for document, _ in chosen.values()]
    queries = [pair.query for pair in reached]
    start([*texts, *titles, *queries])  # one reading, with one bar
    vectors = start(texts)
    negatives = mine_hard_negatives(start(queries), vectors, [pair.number for pair in reached], owners, seed)
    answers = [pair.passage for pair in reached]
    write_columns(folder / PAIRS, {"sent0": queries, "sent1": answers, "hard_neg": [texts[n] for n in negatives]})
    write_columns(folder / PASSAGES, {"text": texts})
    write_columns(folder / SENTENCES, {"text": [sentence for passage in passages for sentence in passage]})

    ids = [f"{owner}.t{place}" for place, owner in enumerate(owners)]
    everywhere = rng.permutation(len(texts))
    near = cosine_similarity_matrix(start(titles), vectors).topk(min(_NEAR, len(texts)), dim=1).indices
    hard = list(dict.fromkeys([*rng.permutation(near.flatten().unique().numpy()).tolist(), *everywhere.tolist()]))
    few = hard[: min(_FEW, 2 * len(chosen))]
    write_proxy_tasks(folder / CHOOSE, chosen, {ids[n]: texts[n] for n in few}, seed)
    write_proxy_tasks(folder / JUDGE, judged, {ids[n]: texts[n] for n in everywhere[: budget.distractors]}, seed)
    return len(texts), len(reached)


def write_sentences(documents: Sequence[Document], folder: Path) -> int:
    """Write the sentences of all documents, for a text without a structure; return their number."""
    sentences = [sentence for document in documents for sentence in document.sentences]
    write_columns(folder / SENTENCES, {"text": sentences})
    return len(sentences)


def _asked(questions: Sequence[tuple[str, ...]], passages: Sequence[str]) -> list[Pair]:
    numbers = {one_line(passage): number for number, passage in enumerate(passages)}
    found = [
        Pair(question, passage, numbers[one_line(passage)])
        for question, passage, *_ in questions
        if one_line(passage) in numbers and question.strip()
    ]
    if questions:
        logger.info("%d of %d questions are about passages that are trained on", len(found), len(questions))
    return found


def _passages(
    documents: Sequence[Document], encoder: SentenceEncoder, numbers: Sequence[int]
) -> dict[int, tuple[Document, Cut]]:
    """By number: a document and its passages, each within the length of the model."""
    tokenize = encoder.tokenize
    limits = [limit for limit in (encoder.max_seq_length, tokenize.limit) if limit is not None]
    room = min(limits, default=512) - len(tokenize([""], None)[0][0])
    found = [documents[number] for number in numbers]
    cut = (split_passages(*each, room) for each in zip(found, count_tokens(found, tokenize), strict=True))
    return dict(zip(numbers, zip(found, cut, strict=True), strict=True))


def _drawn(
    documents: Mapping[int, tuple[Document, Cut]], most: int, seed: int
) -> tuple[list[tuple[str, ...]], list[int]]:
    """At most ``most`` passages of whole documents, in the order of the text, and the numbers of their documents."""
    order = np.random.default_rng(np.random.SeedSequence([seed, 5])).permutation(list(documents)).tolist()
    counts = np.cumsum([len(documents[number][1]) for number in order])
    taken = set(order[: np.searchsorted(counts, most) + 1])  # the last one reaches the limit
    rows = [(passage, number) for number, (_, split) in documents.items() if number in taken for passage in split]
    return [passage for passage, _ in rows[:most]], [owner for _, owner in rows[:most]]


def _texts(passages: Sequence[tuple[str, ...]]) -> list[str]:
    return [" ".join(sentences) for sentences in passages]
