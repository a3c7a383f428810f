"""Transfer tasks: a linear classifier on frozen vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sentrep.data.sets.labelled import LabelledSet, LabelledTexts
from sentrep.encoder import SentenceEncoder
from sentrep.evaluation.classification import (
    Features,
    Labels,
    cross_validated,
    nested_cross_validation,
    validated,
)
from sentrep.evaluation.results import TaskResult
from sentrep.evaluation.vectors import Vectors, check_vectors


def evaluate_transfer(
    encoder: SentenceEncoder,
    sets: Sequence[LabelledSet],
    *,
    batch_size: int = 64,
    folds: int = 10,
    show_progress_bar: bool | None = None,
) -> list[TaskResult]:
    """Score an encoder by the accuracy of logistic regression on its frozen vectors.

    SentEval's protocol: the strength of the regularisation is chosen by nested cross-validation, by cross-validation on
    train, or on dev, depending on the task's split; a pair (u, v) has the features |u − v| and u ∗ v.

    Args:
        encoder: anything with `SentenceEncoder.encode`, of which ``batch_size`` and ``show_progress_bar`` are.
        sets: see `sentrep.data.load_transfer`.
        folds: of SentEval's cross-validations.

    Returns:
        One result per set.

    Raises:
        InputError: vectors that are not finite or all equal.
    """
    return [_senteval(part, _encode(encoder, part, batch_size, show_progress_bar), folds) for part in sets]


def _encode(
    encoder: SentenceEncoder, task: LabelledSet, batch_size: int, show: bool | None
) -> dict[str, tuple[Vectors, ...]]:
    """By split: the vectors of its texts, and of its second texts where there are any."""
    columns = [(s, column) for s, part in task.splits.items() for column in (part.texts, part.second) if column]
    texts = [text for _, column in columns for text in column]
    vectors = np.asarray(encoder.encode(texts, batch_size=batch_size, show_progress_bar=show))
    check_vectors(vectors, task.name)
    parts = np.split(vectors, np.cumsum([len(column) for _, column in columns])[:-1])
    return {
        split: tuple(part for (of, _), part in zip(columns, parts, strict=True) if of == split) for split in task.splits
    }


def _senteval(task: LabelledSet, vectors: dict[str, tuple[Vectors, ...]], folds: int) -> TaskResult:
    data = {split: _in_order(part, *vectors[split]) for split, part in task.splits.items()}
    if "all" in data:
        accuracy, dev = nested_cross_validation(*data["all"], folds)
        scores = {"accuracy": 100 * accuracy, "dev accuracy": 100 * dev}
        how, counts = f"SentEval, nested {folds}-fold", {"test": len(data["all"][1])}
        return TaskResult(task.name, how, counts, scores, task.fingerprint)
    (x, y), (test, gold) = data["train"], data["test"]
    predicted, dev = validated(x, y, *data["dev"], test) if "dev" in data else cross_validated(x, y, test, folds)
    scores = {"accuracy": 100 * float(np.mean(predicted == gold)), "dev accuracy": 100 * dev}
    if task.splits["test"].second is not None:
        scores["f1"] = 100 * _f1_of_positive(gold, predicted)
    how = "dev set" if "dev" in data else f"{folds}-fold on train"
    counts = {split: len(labels) for split, (_, labels) in data.items()}
    return TaskResult(task.name, f"SentEval, {how}", counts, scores, task.fingerprint)


def _in_order(part: LabelledTexts, first: Vectors, second: Vectors | None = None) -> tuple[Features, Labels]:
    """Features and labels in the order in which SentEval makes its folds: by number of words, then by label."""
    labels = np.array(part.labels)
    words = [np.array([len(text.split()) for text in column]) for column in (part.texts, part.second) if column]
    order = np.lexsort([labels, *reversed(words)])
    features = first if second is None else np.concatenate([np.abs(first - second), first * second], axis=1)
    return features[order].astype(np.float64), labels[order]


def _f1_of_positive(gold: Labels, predicted: Labels) -> float:
    """F1 of the label ``1``, "is a paraphrase"."""
    from sklearn.metrics import f1_score

    return float(f1_score(gold, predicted, pos_label="1"))
