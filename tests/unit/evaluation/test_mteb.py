"""mteb's own code on local tasks: beside our suites, and beside mteb's wrapper of the same folder."""

from __future__ import annotations

from typing import Any

import pytest

from sentrep import SentenceEncoder
from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.encoder.fingerprint import fingerprint
from sentrep.errors import InputError
from sentrep.evaluation import evaluate_sts, mteb_model
from sentrep.evaluation.mteb_adapter import evaluate_tasks, load_task
from support import tiny_encoder, toy_sentences
from unit.evaluation.mteb_tasks import local_task, split

mteb = pytest.importorskip("mteb", reason="needs mteb, the extra `mteb`")

SENTENCES = toy_sentences(120)
GOLD = [float((7 * row) % 11) for row in range(60)]
LABELS = ["abc"[(row + row // 3 * row) % 3] for row in range(120)]


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
    pairs = ScoredPairs("mine", SENTENCES[:60], SENTENCES[60:], GOLD)
    data = {"test": split({"sentence1": pairs.first, "sentence2": pairs.second, "score": GOLD})}
    task = local_task("STS", "cosine_spearman", data, min_score=0, max_score=10)
    theirs = scores_of(task, mteb_model(encoder, "test/tiny"))
    (ours,) = evaluate_sts(encoder, [pairs])
    assert 100 * theirs["cosine_spearman"] == pytest.approx(ours.main_score, abs=1e-3)


def test_a_suite_has_mteb_s_own_scores_every_time(encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """mteb draws the texts of a classification; a second evaluation in one process draws the same."""
    columns = {name: split({"text": SENTENCES[rows], "label": LABELS[rows]}) for name, rows in
               {"train": slice(0, 80), "test": slice(80, 120)}.items()}  # fmt: skip
    expected = scores_of(local_task("Classification", "accuracy", columns), mteb_model(encoder, "test/tiny"))
    asked = []

    def get_task(name: str, **choice: Any) -> Any:
        asked.append(choice)
        return local_task("Classification", "accuracy", columns)

    monkeypatch.setattr(mteb, "get_task", get_task)
    tasks = [load_task("Mine")]
    first, again = (evaluate_tasks(encoder, tasks, show_progress_bar=False) for _ in range(2))
    assert first == again
    assert first[0].scores == {"accuracy": 100 * expected["accuracy"]}
    assert (first[0].protocol, first[0].dataset) == ("MTEB", "local@1")
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


@pytest.mark.parametrize(("value", "says"), [(0.0, "are equal"), (float("nan"), "NaN")])
def test_an_encoder_without_use_is_refused(value: float, says: str) -> None:
    broken = tiny_encoder(pooling="mean")
    for parameter in broken.parameters():
        parameter.data.fill_(value)
    data = {"test": split({"sentence1": SENTENCES[:60], "sentence2": SENTENCES[60:], "score": GOLD})}
    task = local_task("STS", "cosine_spearman", data, min_score=0, max_score=10)
    with pytest.raises(InputError, match=says):
        scores_of(task, mteb_model(broken))
