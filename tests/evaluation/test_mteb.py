"""mteb's own code on local tasks, through the adapter, against our suites on the same data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evaluation.sets import write_beir
from sentrep import SentenceEncoder
from sentrep.data import load_reranking, load_retrieval
from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.encoder.fingerprint import fingerprint
from sentrep.errors import InputError
from sentrep.evaluation import (
    MTEBEncoder,
    SuiteSets,
    evaluate_reranking,
    evaluate_retrieval,
    evaluate_sts,
    evaluate_suite,
    load_suite,
)
from support import tiny_encoder, toy_sentences

SENTENCES = toy_sentences(120)
GOLD = [float((7 * row) % 11) for row in range(60)]
LABELS = ["abc"[(row + row // 3 * row) % 3] for row in range(120)]


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    return tiny_encoder(pooling="mean")


def scores_of(task_class: str, kind: str, main: str, data: Any, encoder: SentenceEncoder, **settings: Any) -> Any:
    """What mteb makes of one local task: its scores on the split ``test``."""
    mteb = pytest.importorskip("mteb", reason="needs mteb, the extra `mteb`")
    from mteb import abstasks
    from mteb.abstasks.task_metadata import TaskMetadata

    class LocalTask(getattr(abstasks, task_class)):  # type: ignore[misc]
        metadata = TaskMetadata(
            name=f"Local{kind}", type=kind, main_score=main, description="local", reference="https://example.org",
            dataset={"path": "local", "revision": "1"}, category="t2t", eval_splits=["test"], eval_langs=["eng-Latn"],
            date=("2024-01-01", "2024-01-01"), dialect=[], domains=[], task_subtypes=[], license="cc-by-4.0",
            annotations_creators="derived", modalities=["text"], sample_creation="found", bibtex_citation="",
        )  # fmt: skip

        def load_data(self, *_: Any, **__: Any) -> None:
            self.dataset, self.data_loaded = data, True

    for name, value in settings.items():
        setattr(LocalTask, name, value)
    result = mteb.evaluate(
        MTEBEncoder(encoder, "test/tiny"),
        LocalTask(),
        cache=None,
        overwrite_strategy="always",
        encode_kwargs={"show_progress_bar": False},
        show_progress_bar=False,
        co2_tracker=False,
    )
    return result.task_results[0].scores["test"][0]


def split(columns: dict[str, list[Any]]) -> Any:
    import datasets

    return datasets.Dataset.from_dict(columns)


def test_sts(encoder: SentenceEncoder) -> None:
    import datasets

    pairs = ScoredPairs("mine", SENTENCES[:60], SENTENCES[60:], GOLD)
    data = split({"sentence1": pairs.first, "sentence2": pairs.second, "score": GOLD})
    theirs = scores_of(
        "AbsTaskSTS", "STS", "cosine_spearman", datasets.DatasetDict(test=data), encoder, min_score=0, max_score=10
    )
    (ours,) = evaluate_sts(encoder, [pairs])
    assert 100 * theirs["cosine_spearman"] == pytest.approx(ours.spearman, abs=1e-3)
    assert 100 * theirs["cosine_pearson"] == pytest.approx(ours.scores["pearson"], abs=1e-3)


def test_own_tables_are_scored_by_mtebs_own_tasks(encoder: SentenceEncoder, tmp_path: Path) -> None:
    """A folder as a classification, a file as a clustering: what mteb's own run of the data gives, to the digit."""
    import datasets

    parts = {"train": slice(0, 80), "test": slice(80, 120)}
    (tmp_path / "bank").mkdir()
    for name, rows in parts.items():
        lines = [f'"{text}",{label}' for text, label in zip(SENTENCES[rows], LABELS[rows], strict=True)]
        (tmp_path / "bank" / f"{name}.csv").write_text("\n".join(["text,label", *lines]))
    columns = {s: split({"text": SENTENCES[r], "label": LABELS[r]}) for s, r in parts.items()}
    classified = scores_of(
        "AbsTaskClassification", "Classification", "accuracy", datasets.DatasetDict(columns), encoder
    )
    data = datasets.DatasetDict(test=split({"sentences": SENTENCES[80:], "labels": LABELS[80:]}))
    settings = {"max_fraction_of_documents_to_embed": None}
    clustered = scores_of("AbsTaskClustering", "Clustering", "v_measure", data, encoder, **settings)
    tables = [str(tmp_path / "bank"), str(tmp_path / "bank" / "test.csv")]
    first, second = evaluate_suite("mteb", encoder, load_suite("mteb", SuiteSets(tables)), show_progress_bar=False)
    assert first.scores == {name: 100 * classified[name] for name in ("accuracy", "f1")}
    assert second.scores == {"v_measure": 100 * clustered["v_measure"]}
    assert (first.name, first.protocol, first.split, second.name) == ("bank", "MTEB", "test", "test")


@pytest.mark.parametrize("kind", ["Retrieval", "Reranking"])
def test_retrieval_and_reranking(kind: str, encoder: SentenceEncoder, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    documents = {f"d{row}": text for row, text in enumerate(SENTENCES[:90])}
    queries = {f"q{row}": text for row, text in enumerate(SENTENCES[90:])}
    judgements = {q: {str(d): int(rng.integers(1, 3)) for d in rng.choice(list(documents), 4)} for q in queries}
    candidates = {q: rng.choice(list(documents), 30, replace=False).tolist() for q in queries}
    folder = write_beir(tmp_path / "local", documents, queries, judgements, candidates)
    data = {
        "corpus": split({"id": list(documents), "text": list(documents.values())}),
        "queries": split({"id": list(queries), "text": list(queries.values())}),
        "relevant_docs": judgements,
        "top_ranked": candidates if kind == "Reranking" else None,
    }
    theirs = scores_of("AbsTaskRetrieval", kind, "ndcg_at_10", {"default": {"test": data}}, encoder)
    if kind == "Retrieval":
        (ours,) = evaluate_retrieval(encoder, [load_retrieval(folder)])
        names = {f"{m}@{k}": f"{m}_at_{k}" for m, k in [("ndcg", 10), ("map", 1000), ("mrr", 10), ("recall", 1)]}
        names |= {"recall@10": "recall_at_10", "recall@100": "recall_at_100"}
    else:
        (ours,) = evaluate_reranking(encoder, [load_reranking(folder)])
        names = {"map": "map_at_1000", "mrr@10": "mrr_at_10", "ndcg@10": "ndcg_at_10"}
    assert set(names) == set(ours.scores)
    for mine, its in names.items():
        assert ours.scores[mine] == pytest.approx(100 * theirs[its], abs=2e-3), mine  # mteb rounds to 5 digits


def test_the_model_is_told_apart_by_its_fingerprint(encoder: SentenceEncoder) -> None:
    pytest.importorskip("mteb", reason="needs mteb, the extra `mteb`")
    meta = MTEBEncoder(encoder, "me/mine").mteb_model_meta
    assert (meta.name, meta.revision, meta.embed_dim) == ("me/mine", fingerprint(encoder), 32)
    other = MTEBEncoder(tiny_encoder(pooling="mean", seed=1), "me/mine").mteb_model_meta
    assert other.revision != meta.revision


def test_what_cannot_be_encoded_is_refused(encoder: SentenceEncoder) -> None:
    with pytest.raises(InputError, match="mteb gave inputs of image; this model encodes text only"):
        MTEBEncoder(encoder).encode([{"image": [0]}])
    with pytest.raises(InputError, match="the model's name for mteb is 'mine'; expected organisation/model"):
        MTEBEncoder(encoder, "mine")


def test_vectors_are_those_of_the_encoder(encoder: SentenceEncoder) -> None:
    batches = [{"text": SENTENCES[:3]}, {"text": SENTENCES[3:5]}]
    vectors = MTEBEncoder(encoder).encode(batches, batch_size=2, task_metadata=None, hf_split="test", prompt_type=None)
    np.testing.assert_allclose(vectors, encoder.encode(SENTENCES[:5]), atol=1e-6)
