"""Retrieval tasks that need no labels: a text's own structure says which passages belong together.

A folder of them is in BEIR's layout, so that everything that reads BEIR reads it, with one file of judgements a task:
``qrels/title-to-text.tsv``, ``sentence-to-rest.tsv`` and ``text-to-neighbour.tsv``. ``proxy.json`` tells it from a
labelled set.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sentrep.data.sets.beir import Judgements, load_retrieval
from sentrep.data.text.documents import Document
from sentrep.errors import InputError
from sentrep.io.files import atomic_folder, write_text
from sentrep.io.paths import expanded

TASKS = ("title-to-text", "sentence-to-rest", "text-to-neighbour")
"""A title finds its text; a sentence finds the document that it was taken out of; a passage finds the others."""
FEWEST_QUERIES = 30
"""A task with fewer is left out."""
_RECORD = "proxy.json"
_SENTENCES = 6
"""Taken out of a document at most, and never more than half of it."""
_FEWEST_WORDS = 5
"""Words that a sentence needs to be a query."""


@dataclass  # not frozen: it is a batch, which Lightning copies
class ProxyTasks:
    """Queries and passages, and which belong together by the text's own structure."""

    name: str
    passages: dict[str, str]
    """Every passage that is searched, by id."""
    queries: dict[str, str]
    """The queries of all tasks, by id. A query with the id of a passage is this passage, which it must not find."""
    answers: dict[str, Judgements]
    """By task: the passages of each query's own document."""

    def __len__(self) -> int:
        return len(self.queries)

    def overlap(self, task: str) -> float:
        """Mean share of a query's words that stand in its answers: how far word matching alone gets."""
        shares = []
        for query, answers in self.answers[task].items():
            words = words_of(self.queries[query])
            found = set().union(*(words_of(self.passages[answer]) for answer in answers))
            shares.append(len(words & found) / max(1, len(words)))
        return float(np.mean(shares))


class _Query(NamedTuple):
    identity: str
    text: str
    answers: list[str]


def words_of(text: str) -> set[str]:
    """The different words of a text, in lower case."""
    return set(re.findall(r"\w+", text.lower()))


def document_of(identity: str) -> str:
    """The document that a query or a passage is of."""
    return re.split(r"[.-]", identity)[0]


def is_judgeable(document: Document) -> bool:
    """Whether a document's structure gives a query."""
    return document.title is not None or len(document.sentences) >= 3


def is_proxy(spec: object) -> bool:
    """Whether an entry of ``data.val`` is a folder of these tasks."""
    return isinstance(spec, str) and (expanded(spec) / _RECORD).is_file()


def write_proxy_tasks(
    folder: str | Path,
    documents: Mapping[int, tuple[Document, Sequence[Sequence[str]]]],
    distractors: Mapping[str, str],
    seed: int = 0,
) -> None:
    """Make the tasks of held-out documents.

    Sentences that become queries are taken out of their passages, and a title that the text repeats out of the text,
    so that no answer contains its query. A sentence that its document says twice is no query.

    Args:
        folder: to be written.
        documents: by number: a held-out document and its passages (sentences each).
        distractors: passages of other documents, by id.
        seed: of the choice of sentences.

    Raises:
        InputError: no task has enough queries.
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed, 1]))
    queries: dict[str, list[_Query]] = {task: [] for task in TASKS}
    passages: dict[str, str] = {}
    for number, (document, split) in documents.items():
        asked = _sentences(document, rng)
        rest = {
            f"{number}.{place}": text
            for place, sentences in enumerate(split)
            if (text := _without(document.title, [s for s in sentences if s not in asked]))
        }
        if not rest:
            continue
        passages |= rest
        if document.title is not None:
            queries[TASKS[0]].append(_Query(f"{number}-title", document.title, list(rest)))
        queries[TASKS[1]] += [_Query(f"{number}-s{place}", said, list(rest)) for place, said in enumerate(asked)]
        if len(rest) > 1:
            own = str(rng.choice(list(rest)))
            queries[TASKS[2]].append(_Query(own, rest[own], [answer for answer in rest if answer != own]))
    kept = {task: found for task, found in queries.items() if len(found) >= FEWEST_QUERIES}
    if not kept:
        raise InputError(
            f"the text's own structure gives fewer than {FEWEST_QUERIES} held-out queries: nothing can be judged"
        )
    _write(Path(folder), {**passages, **distractors}, kept)


def load_proxy_tasks(folder: str | Path) -> ProxyTasks:
    """Read what `write_proxy_tasks` wrote.

    Raises:
        InputError: the folder is damaged.
    """
    path = expanded(folder)
    sets = {task: load_retrieval(path, task) for task in TASKS if (path / "qrels" / f"{task}.tsv").is_file()}
    if not sets:
        raise InputError(f"{path}: no task in it; write it again")
    passages = dict(next(iter(sets.values())).documents())
    queries = {query: text for ranking in sets.values() for query, text in ranking.queries.items()}
    return ProxyTasks(path.name, passages, queries, {task: ranking.judgements for task, ranking in sets.items()})


def _sentences(document: Document, rng: np.random.Generator) -> list[str]:
    """Those that become queries."""
    said = document.sentences
    fit = [s for s in dict.fromkeys(said) if len(s.split()) >= _FEWEST_WORDS and document.text.count(s) == 1]
    count = min(_SENTENCES, (len(said) - 1) // 2, len(fit)) if len(said) >= 3 else 0
    return [fit[place] for place in sorted(rng.choice(len(fit), count, replace=False))] if count else []


def _without(title: str | None, sentences: Sequence[str]) -> str:
    text = " ".join(sentences)
    if title is not None and title.lower() in text.lower():
        text = " ".join(re.sub(re.escape(title), " ", text, flags=re.IGNORECASE).split())
    return text if words_of(text) else ""


def _write(folder: Path, passages: Mapping[str, str], queries: Mapping[str, Sequence[_Query]]) -> None:
    asked = {query.identity: query.text for found in queries.values() for query in found}
    with atomic_folder(folder) as place:
        (place / "qrels").mkdir()
        for name, texts in (("corpus", passages), ("queries", asked)):
            rows = (json.dumps({"_id": key, "text": text}, ensure_ascii=False) for key, text in texts.items())
            write_text(place / f"{name}.jsonl", "".join(f"{row}\n" for row in rows))
        for task, found in queries.items():
            rows = (f"{query.identity}\t{answer}\t1\n" for query in found for answer in query.answers)
            write_text(place / "qrels" / f"{task}.tsv", "query-id\tcorpus-id\tscore\n" + "".join(rows))
        counts = {task: len(found) for task, found in queries.items()}
        write_text(place / _RECORD, json.dumps({"labels": "none", "queries": counts, "passages": len(passages)}) + "\n")
