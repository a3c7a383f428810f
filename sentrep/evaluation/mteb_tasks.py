"""Classification, clustering and all other tasks of mteb, from the hub or from your own tables."""

from __future__ import annotations

import logging
import random
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sentrep.data.sets.labelled import LabelledSet, load_labelled_file, load_labelled_folder
from sentrep.encoder import SentenceEncoder
from sentrep.errors import InputError
from sentrep.evaluation.mteb_adapter import MTEBEncoder
from sentrep.evaluation.results import TaskResult
from sentrep.extras import require
from sentrep.io.hub import fail_fast
from sentrep.io.paths import expanded

if TYPE_CHECKING:
    from mteb.abstasks import AbsTask

_SUBQUERIES = "max_over_subqueries_"
"""Begins the names of MindSmallReranking's scores."""
_SHOWN = (
    "accuracy",
    "f1",
    "v_measure",
    "map_at_1",
    "map_at_1000",
    "mrr_at_1",
    "mrr_at_10",
    "ndcg_at_10",
    "recall_at_10",
)
"""Scores of mteb that a report shows beside a task's main score."""


@dataclass(frozen=True)
class LoadedTask:
    """A task with its data."""

    name: str
    task: AbsTask
    dataset: str
    """Fingerprint of local files; name and revision of what came from the hub."""


def load_task(name: str, columns: Sequence[str | int] | None = None) -> LoadedTask:
    """A task of mteb's by its name, from the hub, on its test split and, of several languages, in English.

    A folder with ``train.csv`` and ``test.csv`` of text and label is a classification, a file of them a clustering.

    Args:
        name: as ``mteb`` has it, or a path.
        columns: of text and label in own tables; None looks for the usual names.

    Raises:
        InputError: an unknown name, data that cannot be downloaded or read, or mteb is not installed.
    """
    require("the suite mteb", "mteb", "mteb")
    path = expanded(name)
    if path.is_dir():
        return _local_task(load_labelled_folder(path, columns), "Classification", "accuracy", ("text", "label"))
    if path.exists():
        labelled = LabelledSet(path.name.split(".")[0], {"test": load_labelled_file(path, columns)})
        return _local_task(labelled, "Clustering", "v_measure", ("sentences", "labels"))
    return _hub_task(name)


def evaluate_tasks(
    encoder: SentenceEncoder,
    tasks: Sequence[LoadedTask],
    *,
    batch_size: int = 64,
    show_progress_bar: bool | None = None,
) -> list[TaskResult]:
    """Scores by mteb, under its protocol.

    Args:
        encoder: any.
        tasks: see `load_task`.
        batch_size: as in `SentenceEncoder.encode`.
        show_progress_bar: likewise.

    Raises:
        InputError: vectors that are not finite or all equal.
    """
    import mteb

    how: Any = {"batch_size": batch_size, "show_progress_bar": show_progress_bar}
    model, results = MTEBEncoder(encoder), []
    for one in tasks:
        # mteb goes on drawing where the last evaluation ended; every evaluation must draw the same samples
        one.task.rng_state, one.task.np_rng = random.Random(one.task.seed), np.random.default_rng(one.task.seed)
        with _quiet():
            found = mteb.evaluate(
                model, one.task, cache=None, encode_kwargs=how, show_progress_bar=False, co2_tracker=False
            )
        ((split, (scores, *_)),) = found.task_results[0].scores.items()
        main = one.task.metadata.main_score
        shown = dict.fromkeys([main, *(key for key in scores if key.removeprefix(_SUBQUERIES) in _SHOWN)])
        values = {key: 100.0 * scores[key] for key in shown}
        results.append(TaskResult(one.name, "MTEB", split, {}, values, one.dataset))
    return results


def _hub_task(name: str) -> LoadedTask:
    import mteb

    try:
        with _quiet():
            metadata = mteb.get_task(name).metadata
            # mteb's protocol for some tasks has a validation split as well, which papers do not print
            splits = ["test"] if "test" in metadata.eval_splits else None
            english = ["en"] if metadata.is_multilingual and "en" in metadata.eval_langs else None
            task = mteb.get_task(name, eval_splits=splits, hf_subsets=english)
            fail_fast()
            task.load_data()
    except KeyError as error:
        hint = str(error.args[0]).removeprefix("KeyError: ")
        raise InputError(f"mteb has no task {name!r} ({hint}); give a task's name, a folder or a file") from error
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{name}: mteb's data cannot be downloaded from the Hub ({type(error).__name__}); check the network"
        ) from error
    return LoadedTask(name, task, "{path}@{revision}".format(**metadata.dataset))


def _local_task(
    labelled: LabelledSet, kind: Literal["Classification", "Clustering"], main_score: str, columns: tuple[str, str]
) -> LoadedTask:
    """A task of mteb of this kind over texts and labels, in the columns that mteb expects."""
    import datasets
    from mteb import abstasks
    from mteb.abstasks.task_metadata import TaskMetadata

    metadata = TaskMetadata(
        name=labelled.name,
        type=kind,
        main_score=main_score,
        description="local",
        dataset={"path": labelled.name, "revision": labelled.fingerprint},
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
    )
    text, label = columns
    names = sorted({name for part in labelled.splits.values() for name in part.labels})
    classes = {name: number for number, name in enumerate(names)}  # F1 of two classes wants 0 and 1
    members = {"metadata": metadata, "max_fraction_of_documents_to_embed": None}
    task = type("LocalTask", (getattr(abstasks, f"AbsTask{kind}"),), members)()
    task.dataset = datasets.DatasetDict(
        {
            split: datasets.Dataset.from_dict({text: part.texts, label: [classes[name] for name in part.labels]})
            for split, part in labelled.splits.items()
        }
    )
    task.data_loaded = True
    return LoadedTask(labelled.name, task, labelled.fingerprint)


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide short-lived bars, and mteb's advice to take newer versions of tasks."""
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
