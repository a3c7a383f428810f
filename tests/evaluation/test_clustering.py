"""V-measure against entropies in loops, and MTEB's samples."""

from __future__ import annotations

import random

import numpy as np
import pytest
from sklearn.cluster import MiniBatchKMeans

from evaluation.sets import TableEncoder
from references.ranking import v_measure
from sentrep.data import LabelledSet, LabelledTexts
from sentrep.errors import InputError
from sentrep.evaluation import clustering, evaluate_clustering


@pytest.fixture
def labelled() -> tuple[LabelledSet, dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    labels = rng.integers(4, size=120)
    vectors = {f"text {row}": np.eye(4)[label] * 2 + rng.normal(size=4) for row, label in enumerate(labels)}
    texts = LabelledTexts(list(vectors), [f"label {label}" for label in labels])
    return LabelledSet("mine", {"test": texts}, "MTEB"), vectors


def test_the_score_is_the_mean_over_mtebs_samples(labelled, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    task, vectors = labelled
    monkeypatch.setattr(clustering, "_SAMPLE_SIZE", 300)  # MTEB's 16,384 only take longer
    (result,) = evaluate_clustering(TableEncoder(vectors), [task])  # type: ignore[arg-type]
    x, labels = np.stack(list(vectors.values())).astype(np.float32), task.splits["test"].labels
    generator, expected = random.Random(42), []
    for _ in range(10):
        rows = generator.choices(range(120), k=300)
        kmeans = MiniBatchKMeans(n_clusters=4, batch_size=512, n_init=1, random_state=42)
        expected.append(100 * v_measure([labels[row] for row in rows], kmeans.fit_predict(x[rows]).tolist()))
    assert result.scores["v-measure"] == pytest.approx(np.mean(expected), abs=1e-6)
    assert result.scores["v-measure sd"] == pytest.approx(np.std(expected, ddof=1), abs=1e-6)
    assert 20 < result.main_score < 95
    assert (result.split, result.counts) == ("test", {"labels": 4, "texts": 120})


def test_mtebs_numbers_stand() -> None:
    assert (clustering._SEED, clustering._SAMPLES, clustering._SAMPLE_SIZE, clustering._BATCH) == (42, 10, 16_384, 512)


def test_a_collapsed_encoder_gets_no_score(labelled) -> None:  # type: ignore[no-untyped-def]
    task, vectors = labelled
    with pytest.raises(InputError, match="mine: all 120 vectors are equal; the encoder has collapsed"):
        evaluate_clustering(TableEncoder(dict.fromkeys(vectors, np.ones(4))), [task])  # type: ignore[arg-type]
