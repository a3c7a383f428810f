"""What DenoSent's paper measures beside STS: ten classifications, four rerankings and Quora, by mteb's own tasks."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentrep.data.sets.beir import load_reranking, load_retrieval
from sentrep.data.sets.labelled import load_labelled_folder
from sentrep.encoder import SentenceEncoder
from sentrep.errors import InputError, did_you_mean
from sentrep.evaluation.mteb_adapter import MTEBEncoder
from sentrep.evaluation.results import TaskResult
from sentrep.extras import require
from sentrep.io.hub import fail_fast
from sentrep.io.paths import expanded, not_there

if TYPE_CHECKING:
    from mteb.abstasks import AbsTask

logger = logging.getLogger("sentrep")

CLASSIFICATIONS = (
    "AmazonCounterfactual", "AmazonReviews", "Banking77", "Emotion", "MassiveIntent", "MassiveScenario", "MTOPDomain",
    "MTOPIntent", "ToxicConversations", "TweetSentimentExtraction",
)  # fmt: skip
"""The ten of the paper's table 2."""
_PUBLISHED = {
    "AskUbuntuDupQuestions": {"map": 52.81, "mrr@10": 65.92},
    "MindSmallReranking": {"map": 29.81, "mrr@10": 30.76},
    "SciDocsRR": {"map": 68.17, "mrr@10": 88.27},
    "StackOverflowDupQuestions": {"map": 41.75, "mrr@10": 41.86},
    "QuoraRetrieval": {"map@1": 64.36, "mrr@1": 74.06},
}
"""The five of figure 3."""
PAPER_SETS = (*CLASSIFICATIONS, *_PUBLISHED)
"""The fifteen by mteb's names, where ``Classification`` follows in the ten."""
_KEYS = {"map": "map_at_1000", "mrr@10": "mrr_at_10", "map@1": "map_at_1", "mrr@1": "mrr_at_1"}
"""A metric's name in mteb; no list of candidates has more than 1000."""


@dataclass(frozen=True)
class PaperSet:
    """One of the sets, with its data."""

    name: str
    task: AbsTask
    """mteb's, loaded."""
    dataset: str
    """Fingerprint of local files; name and revision of what came from the hub."""


def load_paper_set(name: str, folder: str | None, optional: bool) -> PaperSet | None:
    """Read a set: from its own folder in ``folder``, or from the hub where no folder is given.

    Args:
        name: as in `PAPER_SETS`, in any spelling: ``banking77``, ``mtop_domain``, ``AskUbuntuDupQuestions``.
        folder: of the folders, which are called like the sets. A classification has train.csv and test.csv, the others
            are in BEIR's layout, the rerankings with candidates.
        optional: whether a set that is not there is only reported.

    Returns:
        The set; None for one that is not there and need not be.

    Raises:
        InputError: an unknown name, a set that is not there or cannot be read, or mteb is not installed.
    """
    require("the suite denosent", "mteb", "mteb")
    known = {_spelling(name): name for name in PAPER_SETS}
    if _spelling(name) not in known:
        hint = did_you_mean(name, PAPER_SETS) or ";"
        raise InputError(f"unknown set {name!r} of the suite denosent{hint} known are {', '.join(PAPER_SETS)}")
    name = known[_spelling(name)]
    if folder is None:
        return _from_hub(name)
    places = _places(expanded(folder))
    if not optional and name not in places:
        raise InputError(f"{folder}: no folder called {name} or {_spelling(name)} in it; add it, or leave the set out")
    if not places:
        raise InputError(
            f"{folder}: no set of the suite denosent in it; add folders such as {_spelling(PAPER_SETS[2])}"
        )
    if name not in places:
        logger.warning("%s: no folder called %s or %s in it; it is not scored", folder, name, _spelling(name))
        return None
    return _from_folder(name, places[name])


def evaluate_paper_sets(
    encoder: SentenceEncoder, sets: Sequence[PaperSet], *, batch_size: int = 64, show_progress_bar: bool | None = None
) -> list[TaskResult]:
    """Scores by mteb: mean accuracy of ten classifiers (each trained on some texts per label), or MAP and MRR@10.

    Args:
        encoder: any.
        sets: see `load_paper_set`.
        batch_size: as in `SentenceEncoder.encode`.
        show_progress_bar: likewise.

    Raises:
        InputError: vectors that are not finite or all equal.
    """
    import mteb

    how: Any = {"batch_size": batch_size, "show_progress_bar": show_progress_bar}
    model, results = MTEBEncoder(encoder), []
    for part in sets:
        with _quiet():
            found = mteb.evaluate(
                model, part.task, cache=None, encode_kwargs=how, show_progress_bar=False, co2_tracker=False
            )
        (scores,) = found.task_results[0].scores["test"]
        results.append(_result(part, scores))
    return results


def published_notes(results: Sequence[TaskResult]) -> list[str]:
    """What a reader must know who compares with the paper."""
    scored = {result.name for result in results}
    notes = [
        "Rows paper: DenoSent, BERT-base. Its mean accuracy over the ten classifications is 64.46 (SimCSE: 62.73).",
        "The paper speaks of MAP@1 and MRR@1. Quora's numbers are read so; those of the rerankings as MAP and MRR@10, "
        "which are what mteb gave for rerankings when the paper was written.",
    ]
    if missing := [name for name in PAPER_SETS if name not in scored]:
        notes.append(f"Not scored, of fifteen: {', '.join(missing)}.")
    return notes


def _spelling(name: str) -> str:
    """A name without what spellings differ in."""
    return re.sub(r"(classification|reranking|retrieval)$", "", re.sub(r"[^a-z0-9]", "", name.lower()))


def _places(folder: Path) -> dict[str, Path]:
    """The folders of sets in a folder."""
    if not folder.is_dir():
        raise not_there(folder, "folder")
    known = {_spelling(name): name for name in PAPER_SETS}
    places: dict[str, Path] = {}
    for place in sorted(folder.iterdir()):
        name = known.get(_spelling(place.name)) if place.is_dir() else None
        if name in places:
            raise InputError(f"{folder}: both {places[name].name} and {place.name} are {name}; keep one of the two")
        if name is not None:
            places[name] = place
    return places


def _task(name: str) -> AbsTask:
    """mteb's task, its test split and English alone."""
    import mteb

    full = f"{name}Classification" if name in CLASSIFICATIONS else name
    english = ["en"] if mteb.get_task(full).metadata.is_multilingual else None
    return mteb.get_task(full, eval_splits=["test"], hf_subsets=english)


def _from_hub(name: str) -> PaperSet:
    task = _task(name)
    origin = "{path}@{revision}".format(**task.metadata.dataset)
    fail_fast()
    try:
        with _quiet():
            task.load_data()
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{name}: the data set {origin} cannot be had from the hub ({type(error).__name__}); check the network, or "
            "give the folder that holds the sets' folders (folder)"
        ) from error
    return PaperSet(name, task, origin)


def _from_folder(name: str, place: Path) -> PaperSet:
    """mteb's task, given local data in the place of the hub's."""
    import datasets

    task = _task(name)
    (subset,) = task.hf_subsets
    if name in CLASSIFICATIONS:
        labelled = load_labelled_folder(place)
        columns = {split: {"text": part.texts, "label": part.labels} for split, part in labelled.splits.items()}
        tables = datasets.DatasetDict({split: datasets.Dataset.from_dict(part) for split, part in columns.items()})
        data, fingerprint = tables if subset == "default" else {subset: tables}, labelled.fingerprint
    else:
        ranking = load_retrieval(place) if name == "QuoraRetrieval" else load_reranking(place)
        if name == "MindSmallReranking" and (bad := next((q for q in ranking.queries if "_" not in q), None)):
            raise InputError(
                f"{place}: the query {bad!r} has no number after an underline, by which mteb knows the queries of one "
                "reader; keep the ids of the published set"
            )
        documents = datasets.Dataset.from_list([{"id": row, "text": text} for row, text in ranking.documents()])
        queries = datasets.Dataset.from_list([{"id": row, "text": text} for row, text in ranking.queries.items()])
        parts = {"corpus": documents, "queries": queries, "relevant_docs": dict(ranking.judgements)}
        data, fingerprint = {subset: {"test": parts | {"top_ranked": ranking.candidates}}}, ranking.fingerprint
    task.dataset = data
    with _quiet():
        task.dataset_transform()  # toxic conversations: 2,048 of the test texts
    task.data_loaded = True
    return PaperSet(name, task, fingerprint)


def _result(part: PaperSet, scores: Mapping[str, Any]) -> TaskResult:
    (subset,) = part.task.hf_subsets
    data: Any = part.task.dataset
    data = data.get(subset, data)  # without sub-sets, the splits alone
    published = _PUBLISHED.get(part.name, {})
    if part.name in CLASSIFICATIONS:
        counts, keys = {split: len(data[split]) for split in ("train", "test")}, {"accuracy": "accuracy"}
    else:
        counts = {"documents": len(data["test"]["corpus"]), "queries": len(data["test"]["queries"])}
        keys = {metric: _KEYS[metric] for metric in (*published, "map", "mrr@10")}
    prefix = "max_over_subqueries_" if part.name == "MindSmallReranking" else ""  # as in mteb's main score
    found = {metric: 100.0 * scores[prefix + key] for metric, key in keys.items()}
    return TaskResult(part.name, "MTEB", "test", counts, found, part.dataset, published=published)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without bars for moments, and without mteb's advice to take newer versions of tasks than the paper's."""
    import datasets

    log = logging.getLogger("mteb")
    level, bars = log.level, datasets.are_progress_bars_disabled()
    log.setLevel(logging.ERROR)
    datasets.disable_progress_bars()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*superseded.*")
            yield
    finally:
        log.setLevel(level)
        if not bars:
            datasets.enable_progress_bars()
