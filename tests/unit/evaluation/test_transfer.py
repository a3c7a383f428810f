"""Classification of frozen vectors: SentEval's folds in cold loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score

from references import senteval_folds as reference
from sentrep.data import LabelledSet, LabelledTexts
from sentrep.errors import InputError
from sentrep.evaluation import evaluate_transfer
from sentrep.evaluation.classification import validated

FOLDS = 3


class TableEncoder:
    """Looks vectors up."""

    def __init__(self, vectors: Mapping[str, np.ndarray]) -> None:
        self.vectors = vectors

    def encode(self, texts: Sequence[str], **_: object) -> np.ndarray:
        return np.stack([self.vectors[text] for text in texts]).astype(np.float32)


def blobs(count: int, classes: int, seed: int) -> tuple[LabelledTexts, dict[str, np.ndarray]]:
    """Texts of one to six words whose vectors lie around the centre of their class, with overlap."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(classes, 6))
    labels = rng.integers(classes, size=count)
    texts = [f"{seed}-{row}" + " word" * int(rng.integers(6)) for row in range(count)]
    vectors = {text: centres[label] + rng.normal(size=6) * 1.2 for text, label in zip(texts, labels, strict=True)}
    return LabelledTexts(texts, [str(label) for label in labels]), vectors


def senteval_order(part: LabelledTexts, second: list[str] | None = None) -> list[int]:
    """SentEval sorts by number of words, then (of pairs) by that of the second text, then by label."""
    rows = range(len(part))
    key = [(len(part.texts[r].split()), len(second[r].split()) if second else 0, part.labels[r]) for r in rows]
    return sorted(rows, key=lambda row: key[row])


def arrays(part: LabelledTexts, vectors: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    order = senteval_order(part)
    x = np.stack([vectors[part.texts[row]] for row in order]).astype(np.float32).astype(np.float64)
    return x, np.array([part.labels[row] for row in order])


def test_nested_cross_validation_equals_cold_loops() -> None:
    part, vectors = blobs(150, 2, seed=0)
    encoder = TableEncoder(vectors)
    (result,) = evaluate_transfer(encoder, [LabelledSet("cr", {"all": part})], folds=FOLDS)  # type: ignore[arg-type]
    expected = reference.nested_cross_validation(*arrays(part, vectors), FOLDS)
    assert result.scores["accuracy"] == pytest.approx(100 * expected, abs=1e-9)
    assert 60 < result.scores["accuracy"] < 99  # a task on which something can go wrong
    assert (result.counts, result.protocol) == ({"test": 150}, "SentEval, nested 3-fold")


def test_train_and_test_equal_cold_loops() -> None:
    (train, train_vectors), (test, test_vectors) = blobs(120, 4, seed=1), blobs(80, 4, seed=2)
    vectors = {**train_vectors, **test_vectors}
    task = LabelledSet("trec", {"train": train, "test": test})
    (result,) = evaluate_transfer(TableEncoder(vectors), [task], folds=FOLDS)  # type: ignore[arg-type]
    x, gold = arrays(test, vectors)
    predicted = reference.cross_validated(*arrays(train, vectors), x, FOLDS)
    assert result.scores["accuracy"] == pytest.approx(100 * accuracy_score(gold, predicted), abs=1e-9)
    assert set(result.scores) == {"accuracy", "dev accuracy"}
    assert result.counts == {"train": 120, "test": 80}


def test_pairs_have_sentevals_features_and_f1() -> None:
    rng = np.random.default_rng(5)
    splits, vectors = {}, {}
    for split, count in (("train", 90), ("test", 60)):
        texts, second = ([f"{split} {side}{row}" for row in range(count)] for side in "ab")
        labels = rng.integers(2, size=count)
        for a, b, label in zip(texts, second, labels, strict=True):
            vectors[a] = rng.normal(size=5)
            vectors[b] = vectors[a] * (0.5 if label else -0.1) + rng.normal(size=5)
        splits[split] = LabelledTexts(texts, [str(label) for label in labels], second)
    encoder = TableEncoder(vectors)
    (result,) = evaluate_transfer(encoder, [LabelledSet("mrpc", splits)], folds=FOLDS)  # type: ignore[arg-type]

    def features(part: LabelledTexts) -> tuple[np.ndarray, np.ndarray]:
        rows = []
        for row in senteval_order(part, part.second):
            u, v = (vectors[t[row]].astype(np.float32) for t in (part.texts, part.second or []))
            rows.append([abs(p - q) for p, q in zip(u, v, strict=True)] + [p * q for p, q in zip(u, v, strict=True)])
        return np.array(rows, dtype=np.float64), np.array([part.labels[r] for r in senteval_order(part, part.second)])

    x, gold = features(splits["test"])
    predicted = reference.cross_validated(*features(splits["train"]), x, FOLDS)
    assert result.scores["accuracy"] == pytest.approx(100 * accuracy_score(gold, predicted), abs=1e-9)
    assert result.scores["f1"] == pytest.approx(100 * f1_score(gold == "1", np.array(predicted) == "1"), abs=1e-9)


def test_a_dev_set_chooses_the_strength() -> None:
    parts = {
        split: blobs(count, 2, seed) for seed, (split, count) in enumerate([("train", 60), ("dev", 40), ("test", 50)])
    }
    vectors = {text: vector for _, table in parts.values() for text, vector in table.items()}
    task = LabelledSet("sst2", {split: part for split, (part, _) in parts.items()})
    (result,) = evaluate_transfer(TableEncoder(vectors), [task])  # type: ignore[arg-type]
    (x, y), (dev, dev_labels), (test, gold) = (arrays(part, vectors) for part, _ in parts.values())
    best = (-1.0, 0.0)
    for power in range(-2, 4):
        classifier = LogisticRegression(C=2.0**power, max_iter=5000, tol=1e-8).fit(x, y)
        score = round(100 * classifier.score(dev, dev_labels), 2)
        best = max(best, (score, 100 * classifier.score(test, gold)), key=lambda pair: pair[0])
    assert (result.scores["dev accuracy"], result.scores["accuracy"]) == pytest.approx(best, abs=0.01)
    assert validated(x, y, dev, dev_labels, test)[1] == pytest.approx(best[0] / 100, abs=1e-4)


def test_broken_encoders_get_no_score() -> None:
    part, vectors = blobs(30, 2, seed=0)
    task = LabelledSet("cr", {"all": part})
    with pytest.raises(InputError, match="cr: all 30 vectors are equal"):
        evaluate_transfer(TableEncoder(dict.fromkeys(vectors, np.ones(6))), [task])  # type: ignore[arg-type]
    broken = {**vectors, part.texts[3]: np.full(6, np.inf)}
    with pytest.raises(InputError, match="cr: 1 of 30 vectors are NaN or infinite"):
        evaluate_transfer(TableEncoder(broken), [task])  # type: ignore[arg-type]
