"""Logistic regression on frozen vectors, after SentEval's protocol.

The functions take vectors; `sentrep.evaluation.transfer` adds the encoder and the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

Features = NDArray[np.float64]
Labels = NDArray[np.str_]

_SEED = 1111
"""SentEval's seed of the folds."""
_NESTED_STRENGTHS = tuple(2.0**power for power in range(-2, 4))
_FOLD_STRENGTHS = tuple(2.0**power for power in range(-1, 6))
_TOLERANCE = 1e-6
"""The fit ends when no gradient of the mean loss is larger."""
_MAX_ITERATIONS = 10_000


def nested_cross_validation(x: Features, y: Labels, folds: int = 10) -> tuple[float, float]:
    """SentEval's protocol for a task without a split (MR, CR, SUBJ, MPQA).

    A classifier that was trained on the other folds predicts each outer fold. Its strength C in 2⁻² … 2³ is the best of
    an inner cross-validation over these other folds.

    Args:
        x: (N, D).
        y: (N,).
        folds: outer and inner; stratified, shuffled with SentEval's seed.

    Returns:
        Accuracy over the outer folds (mean) and accuracy of the chosen strengths in the inner ones; in [0, 1].
    """
    from sklearn.model_selection import StratifiedKFold

    outer, dev = [], []
    for train, test in StratifiedKFold(folds, shuffle=True, random_state=_SEED).split(x, y):
        strength, score = _best_strength(x[train], y[train], folds, _NESTED_STRENGTHS)
        classifier = _classifier(y, strength).fit(x[train], y[train])
        outer.append(float(classifier.score(x[test], y[test])))
        dev.append(score)
    return float(np.mean(outer)), float(np.mean(dev))


def cross_validated(x: Features, y: Labels, test: Features, folds: int = 10) -> tuple[Labels, float]:
    """SentEval's protocol for train and test (TREC, MRPC): C in 2⁻¹ … 2⁵ by cross-validation on train.

    Args:
        x: (N, D) training rows.
        y: (N,).
        test: (M, D).
        folds: as in `nested_cross_validation`.

    Returns:
        Labels of the test rows, and the accuracy of the chosen strength in the folds, in [0, 1].
    """
    strength, score = _best_strength(x, y, folds, _FOLD_STRENGTHS)
    return _classifier(y, strength).fit(x, y).predict(test), score


def validated(x: Features, y: Labels, dev: Features, dev_labels: Labels, test: Features) -> tuple[Labels, float]:
    """SentEval's protocol for train, dev and test (SST2): C in 2⁻² … 2³ by the accuracy on dev.

    Returns:
        Labels of the test rows, and the best accuracy on dev, in [0, 1].
    """
    scores, predicted = [], []
    classifier = _classifier(y)
    for strength in _NESTED_STRENGTHS:
        classifier.set_params(C=strength).fit(x, y)
        scores.append(float(classifier.score(dev, dev_labels)))
        predicted.append(classifier.predict(test))
    best = _first_best(scores)
    return predicted[best], scores[best]


def _best_strength(x: Features, y: Labels, folds: int, strengths: Sequence[float]) -> tuple[float, float]:
    """The strength with the best mean accuracy over the folds, and this accuracy."""
    from sklearn.model_selection import StratifiedKFold

    accuracy = np.zeros((folds, len(strengths)))
    for fold, (train, test) in enumerate(StratifiedKFold(folds, shuffle=True, random_state=_SEED).split(x, y)):
        classifier = _classifier(y)
        for number, strength in enumerate(strengths):
            classifier.set_params(C=strength).fit(x[train], y[train])
            accuracy[fold, number] = classifier.score(x[test], y[test])
    scores = accuracy.mean(0)
    best = _first_best(scores)
    return strengths[best], float(scores[best])


def _first_best(scores: Sequence[float] | NDArray[np.float64]) -> int:
    """The strongest regularisation among the best; as in SentEval, accuracies count to 0.01 %."""
    return int(np.argmax(np.round(100.0 * np.asarray(scores), 2)))


def _classifier(y: Labels, strength: float = 1.0) -> LogisticRegression:
    """Logistic regression that is solved to convergence; fitted again with another C, it starts from the last solution.

    scikit-learn's default tolerance stops so early on vectors of length 1 that changes of 1e-7 in the vectors move
    TREC's accuracy by 0.4. liblinear, the solver of SentEval's days, also shrinks the intercept: a departure.
    """
    from sklearn.linear_model import LogisticRegression

    solver = "newton-cholesky" if len(np.unique(y)) == 2 else "lbfgs"
    return LogisticRegression(C=strength, solver=solver, tol=_TOLERANCE, max_iter=_MAX_ITERATIONS, warm_start=True)
