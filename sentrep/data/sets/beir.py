"""Retrieval sets in BEIR's layout: ``corpus.jsonl``, ``queries.jsonl``, ``qrels/``, and candidates to rerank."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentrep.data.text.cells import label_cell, number_cell, text_cell
from sentrep.data.text.fingerprints import hash_files, hash_of
from sentrep.data.text.tables import TableFile
from sentrep.errors import InputError
from sentrep.io.paths import expanded, not_there

logger = logging.getLogger("sentrep")

Judgements = dict[str, dict[str, int]]
"""By query: the grade of each judged document; above 0 is relevant."""


@dataclass
class RankingSet:
    """Queries, their relevant documents, and the place of the corpus."""

    name: str
    split: str
    queries: dict[str, str]
    """Text of every query that has at least one relevant document, by id."""
    judgements: Judgements
    """The judgements of these queries."""
    document_ids: list[str]
    """Every document of the corpus, in its order."""
    corpus: Path
    fingerprint: str
    """Hash of corpus, queries, judgements and candidates."""
    candidates: dict[str, list[str]] | None = None
    """By query: ids of the documents to rerank; None for retrieval from the whole corpus."""

    def documents(self) -> Iterator[tuple[str, str]]:
        """Id and text (with the title, if any) of every document, streamed from the disk."""
        table = TableFile(self.corpus)
        title = ["title"] if "title" in table.columns(["title"]) else []
        for where, (identity, *parts) in table.rows(["_id", *title, "text"]):
            yield str(identity).strip(), " ".join(filter(None, (text_cell(part, where).strip() for part in parts)))


def load_retrieval(folder: str | Path, split: str = "test") -> RankingSet:
    """Read a folder in BEIR's layout. The corpus is looked through for its ids; its text stays on the disk.

    Args:
        folder: with ``corpus.jsonl`` (objects with ``_id``, ``text`` and perhaps ``title``), ``queries.jsonl``
            (``_id``, ``text``) and ``qrels/SPLIT.tsv`` (header ``query-id  corpus-id  score``).
        split: which judgements.

    Raises:
        InputError: a file is missing or cannot be read, an id occurs twice, a judged query has no text.
    """
    folder = expanded(folder)
    if not folder.is_dir():
        raise not_there(folder, "folder")
    corpus, queries, qrels = folder / "corpus.jsonl", folder / "queries.jsonl", folder / "qrels" / f"{split}.tsv"
    for file in (corpus, queries):
        if not file.is_file():
            raise InputError(f"{folder}: no {file.name} in it; BEIR's layout is corpus.jsonl, queries.jsonl and qrels/")
    if not qrels.is_file():
        found = sorted(file.stem for file in qrels.parent.glob("*.tsv"))
        raise InputError(f"{qrels}: no such file; splits found: {', '.join(found) or 'none'}")
    ids = list(_read_ids(corpus))
    judgements = _read_judgements(qrels, set(ids))
    texts = dict(_read_queries(queries))
    if missing := [query for query in judgements if query not in texts]:
        raise InputError(f"{qrels}: the query {missing[0]!r} is judged but not in {queries.name}; complete the queries")
    wanted = {query: texts[query] for query in judgements}
    digest = hash_files("beir", [str(corpus), str(queries), str(qrels)])
    return RankingSet(folder.resolve().name, split, wanted, judgements, ids, corpus, digest)


def load_reranking(folder: str | Path, split: str = "test") -> RankingSet:
    """Like `load_retrieval`, with the candidates of each query.

    Candidates are read from ``top_ranked/SPLIT.jsonl`` (objects with ``query-id`` and ``corpus-ids``); without this
    file they are the documents judged for the query, relevant or not.

    Raises:
        InputError: as there; a query without candidates, a candidate that is not in the corpus, or candidates that
            are all relevant, which no ranking can get wrong.
    """
    ranking = load_retrieval(folder, split)
    file = ranking.corpus.parent / "top_ranked" / f"{split}.jsonl"
    if file.is_file():
        ranking.candidates = _read_candidates(file, ranking)
        ranking.fingerprint = hash_of(ranking.fingerprint, hash_files("top_ranked", [str(file)]))
    else:
        corpus = set(ranking.document_ids)
        ranking.candidates = {
            query: [document for document in judged if document in corpus]
            for query, judged in ranking.judgements.items()
        }
    pairs = [(query, document) for query, documents in ranking.candidates.items() for document in documents]
    if all(ranking.judgements[query].get(document, 0) > 0 for query, document in pairs):
        raise InputError(
            f"{folder}: every candidate is relevant, so there is nothing to rerank; list the candidates of each query "
            f"in top_ranked/{split}.jsonl (query-id, corpus-ids)"
        )
    return ranking


def _read_ids(corpus: Path) -> Iterator[str]:
    seen: set[str] = set()
    for where, (identity,) in TableFile(corpus).rows(["_id"]):
        yield _new_id(identity, where, seen)
    if not seen:
        raise InputError(f"{corpus}: no document in it; a corpus has one in every line (_id, title, text)")


def _new_id(identity: Any, where: str, seen: set[str]) -> str:
    """An id that was not seen before."""
    name = label_cell(identity, where)
    if not name or name in seen:
        what = f"the id {name!r} occurs a second time" if name else "no _id"
        raise InputError(f"{where}: {what}; every row needs its own")
    seen.add(name)
    return name


def _read_queries(file: Path) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for where, (identity, text) in TableFile(file).rows(["_id", "text"]):
        yield _new_id(identity, where, seen), text_cell(text, where)


def _read_judgements(file: Path, documents: set[str]) -> Judgements:
    judgements: Judgements = defaultdict(dict)
    unknown = 0
    for where, (query, document, grade) in TableFile(file).rows(["query-id", "corpus-id", "score"]):
        number = number_cell(grade, where)
        if number != int(number):
            raise InputError(f"{where}: the score {grade!r} is not a whole number")
        if judgements[str(query)].setdefault(str(document), int(number)) != int(number):
            raise InputError(f"{where}: {query!r} and {document!r} occur a second time, with another score")
        unknown += document not in documents
    if unknown and unknown == sum(map(len, judgements.values())):
        raise InputError(f"{file}: no judged document is in the corpus; do corpus.jsonl and qrels belong together?")
    if unknown:
        logger.warning("%s: %d judged documents are not in the corpus; they count as not found", file, unknown)
    relevant = {query: grades for query, grades in judgements.items() if max(grades.values()) > 0}
    if len(relevant) < len(judgements):
        left = len(judgements) - len(relevant)
        logger.warning("%s: %d queries without a relevant document are left out", file, left)
    if not relevant:
        raise InputError(f"{file}: no query with a relevant document (a score above 0)")
    return relevant


def _read_candidates(file: Path, ranking: RankingSet) -> dict[str, list[str]]:
    corpus = set(ranking.document_ids)
    candidates: dict[str, list[str]] = {}
    for where, (query, documents) in TableFile(file).rows(["query-id", "corpus-ids"]):
        if not isinstance(documents, list):
            raise InputError(f"{where}: corpus-ids is {documents!r}; expected a list of ids")
        if str(query) not in ranking.queries:
            continue  # of another split, or without a relevant document
        if str(query) in candidates:
            raise InputError(f"{where}: the query {query!r} has a list already; put its candidates into one")
        listed = list(dict.fromkeys(map(str, documents)))
        if unknown := [document for document in listed if document not in corpus]:
            raise InputError(f"{where}: the candidate {unknown[0]!r} is not in the corpus")
        candidates[str(query)] = listed
    if missing := [query for query in ranking.queries if not candidates.get(query)]:
        raise InputError(f"{file}: no candidates for the query {missing[0]!r}; list some for every judged query")
    return candidates
