"""Clustering: how well k-means on the vectors finds the labels again."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from sentrep.data.sets.labelled import LabelledSet
from sentrep.encoder import SentenceEncoder
from sentrep.evaluation.results import TaskResult
from sentrep.evaluation.vectors import Vectors, encode_texts, refuse_collapse

_SEED = 42
_SAMPLES = 10
_SAMPLE_SIZE = 16_384
_BATCH = 512


def evaluate_clustering(
    encoder: SentenceEncoder,
    sets: Sequence[LabelledSet],
    *,
    batch_size: int = 64,
    show_progress_bar: bool | None = None,
) -> list[TaskResult]:
    """Score an encoder by the V-measure of mini-batch k-means on its vectors, with as many clusters as labels.

        V = 2 h c / (h + c),   h = 1 − H(label | cluster) / H(label),   c = 1 − H(cluster | label) / H(cluster)

    MTEB's protocol: the mean over ten samples of 16,384 texts each, drawn with replacement; seeds and batch size are
    MTEB's. All texts are encoded (MTEB's own tasks take a share of some sets first).

    Args:
        encoder: anything with `SentenceEncoder.encode`, of which ``batch_size`` and ``show_progress_bar`` are.
        sets: each with one split.

    Returns:
        One result per set: mean and standard deviation of V × 100.

    Raises:
        InputError: vectors that are not finite or all equal.
    """
    results = []
    for labelled in sets:
        ((split, part),) = labelled.splits.items()
        vectors = encode_texts(encoder, part.texts, labelled.name, batch_size, show_progress_bar)
        refuse_collapse(vectors, labelled.name)
        measures = 100 * np.array(v_measures(vectors, part.labels))
        scores = {"v-measure": float(measures.mean()), "v-measure sd": float(measures.std(ddof=1))}
        counts = {"labels": len(set(part.labels)), "texts": len(part)}
        protocol = "MTEB, mini-batch k-means"
        results.append(TaskResult(labelled.name, protocol, split, counts, scores, labelled.fingerprint))
    return results


def v_measures(vectors: Vectors, labels: Sequence[str]) -> list[float]:
    """V-measure of each of MTEB's ten samples, in [0, 1].

    Args:
        vectors: (N, D).
        labels: N labels.
    """
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.metrics import v_measure_score

    gold = np.array(labels)
    draw = random.Random(_SEED)
    measures = []
    for _ in range(_SAMPLES):
        rows = draw.choices(range(len(gold)), k=_SAMPLE_SIZE)
        clusters = MiniBatchKMeans(
            n_clusters=len(np.unique(gold)), batch_size=_BATCH, init="k-means++", n_init=1, random_state=_SEED
        ).fit_predict(vectors[rows])
        measures.append(float(v_measure_score(gold[rows], clusters)))
    return measures
