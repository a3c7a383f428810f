"""SentEval's folds, in loops from their definition."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold


def nested_cross_validation(x: np.ndarray, y: np.ndarray, folds: int) -> float:
    """SentEval's protocol for one set without a split, one cold fit for every fold, inner fold and strength."""
    accuracies = []
    for train, test in StratifiedKFold(folds, shuffle=True, random_state=1111).split(x, y):
        best, best_strength = -1.0, 0.0
        for power in (-2, -1, 0, 1, 2, 3):
            inner = []
            for fit, dev in StratifiedKFold(folds, shuffle=True, random_state=1111).split(x[train], y[train]):
                predicted = _fit(2.0**power, x[train][fit], y[train][fit]).predict(x[train][dev])
                inner.append(np.mean([p == g for p, g in zip(predicted, y[train][dev], strict=True)]))
            if round(100 * float(np.mean(inner)), 2) > best:
                best, best_strength = round(100 * float(np.mean(inner)), 2), 2.0**power
        predicted = _fit(best_strength, x[train], y[train]).predict(x[test])
        accuracies.append(np.mean([p == g for p, g in zip(predicted, y[test], strict=True)]))
    return float(np.mean(accuracies))


def cross_validated(x: np.ndarray, y: np.ndarray, test: np.ndarray, folds: int) -> list[str]:
    """SentEval's protocol for train and test: labels of the test rows."""
    best, best_strength = -1.0, 0.0
    for power in (-1, 0, 1, 2, 3, 4, 5):
        inner = []
        for fit, dev in StratifiedKFold(folds, shuffle=True, random_state=1111).split(x, y):
            inner.append(_fit(2.0**power, x[fit], y[fit]).score(x[dev], y[dev]))
        if round(100 * float(np.mean(inner)), 2) > best:
            best, best_strength = round(100 * float(np.mean(inner)), 2), 2.0**power
    return list(_fit(best_strength, x, y).predict(test))


def _fit(strength: float, x: np.ndarray, y: np.ndarray) -> LogisticRegression:
    return LogisticRegression(C=strength, max_iter=5000, tol=1e-8).fit(x, y)
