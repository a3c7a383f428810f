"""mteb's own code on local tasks, beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import datasets
import pytest

from sentrep import SentenceEncoder
from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.encoder.fingerprint import fingerprint
from sentrep.errors import InputError
from sentrep.evaluation import evaluate_sts, mteb_model
from sentrep.evaluation.mteb_adapter import evaluate_tasks, load_task
from support import tiny_encoder, toy_sentences

mteb = pytest.importorskip("mteb", reason="needs mteb, the extra `mteb`")

SENTENCES = toy_sentences(120)
GOLD = [float((7 * row) % 11) for row in range(60)]
LABELS = ["abc"[(row + row // 3 * row) % 3] for row in range(120)]


STS = {"test": {"sentence1": SENTENCES[:60], "sentence2": SENTENCES[60:], "score": GOLD}}


def local_task(kind: str, main: str, splits: Mapping[str, Mapping[str, list[Any]]]) -> Any:
    """A task of this kind, such as ``STS``, with these splits; it loads nothing."""
    from mteb import abstasks
    from mteb.abstasks.task_metadata import TaskMetadata

    class LocalTask(getattr(abstasks, f"AbsTask{kind}")):  # type: ignore[misc]
        metadata = TaskMetadata(
            name=f"Local{kind}", type=kind, main_score=main, description="local",
            reference="https://example.org", dataset={"path": "local", "revision": "1"}, category="t2t",
            eval_splits=["test"], eval_langs=["eng-Latn"], date=("2024-01-01", "2024-01-01"), dialect=[], domains=[],
            task_subtypes=[], license="cc-by-4.0", annotations_creators="derived", modalities=["text"],
            sample_creation="found", bibtex_citation="",
        )  # fmt: skip
        min_score, max_score = 0, 10

        def load_data(self, *_: Any, **__: Any) -> None:
            parts = {name: datasets.Dataset.from_dict(dict(columns)) for name, columns in splits.items()}
            self.dataset, self.data_loaded = datasets.DatasetDict(parts), True

    return LocalTask()


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    return tiny_encoder(pooling="mean")


def scores_of(task: Any, model: Any) -> Any:
    """What mteb makes of one local task: its scores on the split ``test``."""
    how = {"show_progress_bar": False}
    result = mteb.evaluate(
        model, task, cache=None, overwrite_strategy="always", encode_kwargs=how, show_progress_bar=False,
        co2_tracker=False,
    )  # fmt: skip
    return result.task_results[0].scores["test"][0]


def test_sts(encoder: SentenceEncoder) -> None:
    theirs = scores_of(local_task("STS", "cosine_spearman", STS), mteb_model(encoder, "test/tiny"))
    (ours,) = evaluate_sts(encoder, [ScoredPairs("mine", SENTENCES[:60], SENTENCES[60:], GOLD)])
    assert 100 * theirs["cosine_spearman"] == pytest.approx(ours.main_score, abs=1e-3)


def test_a_task_has_mteb_s_own_score(encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {"train": slice(0, 80), "test": slice(80, 120)}
    columns = {name: {"text": SENTENCES[rows], "label": LABELS[rows]} for name, rows in parts.items()}
    expected = scores_of(local_task("Classification", "accuracy", columns), mteb_model(encoder, "test/tiny"))
    asked = []

    def get_task(name: str, **choice: Any) -> Any:
        asked.append(choice)
        return local_task("Classification", "accuracy", columns)

    monkeypatch.setattr(mteb, "get_task", get_task)
    (found,) = evaluate_tasks(encoder, [load_task("Mine")], show_progress_bar=False)
    assert found.scores == {"accuracy": 100 * expected["accuracy"]}
    assert (found.protocol, found.dataset) == ("MTEB", "local@1")
    assert asked == [{}, {"eval_splits": ["test"], "hf_subsets": None}]


def test_the_model_is_told_apart_by_its_fingerprint(encoder: SentenceEncoder) -> None:
    meta = mteb_model(encoder, "me/mine").mteb_model_meta
    assert (meta.name, meta.revision, meta.embed_dim) == ("me/mine", fingerprint(encoder), 32)
    other = mteb_model(tiny_encoder(pooling="mean", seed=1), "me/mine").mteb_model_meta
    assert other.revision != meta.revision
    prompted = tiny_encoder(pooling="mean")
    prompted.prompts = {"query": "the dog : ", "STS12": "a cat : "}
    assert mteb_model(prompted).model_prompts == prompted.prompts  # by which mteb's wrapper chooses
    with pytest.raises(ValueError, match="organization/model_name"):
        mteb_model(encoder, "mine")


def test_an_encoder_without_use_is_refused() -> None:
    broken = tiny_encoder(pooling="mean")
    for parameter in broken.parameters():
        parameter.data.fill_(float("nan"))
    with pytest.raises(InputError, match="NaN"):
        scores_of(local_task("STS", "cosine_spearman", STS), mteb_model(broken))
