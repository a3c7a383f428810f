"""mteb's own code on local tasks: through the adapter, beside our suites, beside mteb's wrapper of the same folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentrep import SentenceEncoder
from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.encoder.fingerprint import fingerprint
from sentrep.errors import InputError
from sentrep.evaluation import MTEBEncoder, evaluate_sts, evaluate_suite, load_suite
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
    theirs = scores_of(task, MTEBEncoder(encoder, "test/tiny"))
    (ours,) = evaluate_sts(encoder, [pairs])
    assert 100 * theirs["cosine_spearman"] == pytest.approx(ours.main_score, abs=1e-3)
    assert 100 * theirs["cosine_pearson"] == pytest.approx(ours.scores["pearson"], abs=1e-3)


def test_a_suite_has_mteb_s_own_scores_every_time(encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """mteb draws the texts of a classification; a second evaluation in one process draws the same."""
    columns = {name: split({"text": SENTENCES[rows], "label": LABELS[rows]}) for name, rows in
               {"train": slice(0, 80), "test": slice(80, 120)}.items()}  # fmt: skip
    expected = scores_of(local_task("Classification", "accuracy", columns), MTEBEncoder(encoder, "test/tiny"))
    asked = []

    def get_task(name: str, **choice: Any) -> Any:
        asked.append(choice)
        return local_task("Classification", "accuracy", columns)

    monkeypatch.setattr(mteb, "get_task", get_task)
    sets = load_suite("mteb", ["Mine"])
    first, again = (evaluate_suite("mteb", encoder, sets, show_progress_bar=False) for _ in range(2))
    assert first == again
    assert first[0].scores == {name: 100 * expected[name] for name in ("accuracy", "f1")}
    assert (first[0].protocol, first[0].dataset) == ("MTEB", "local@1")
    assert asked == [{}, {"eval_splits": ["test"], "hf_subsets": None}]


NO_PROMPTS: dict[str, Any] = {"prompts": {}}
BOTH = {"prompts": {"query": "the dog : ", "document": "a cat : "}}
QUERIES = {"prompts": {"query": "the dog : ", "document": ""}, "default_prompt_name": "query"}
PASSAGES = {"prompts": {"query": "the dog : ", "passage": "a cat : "}}
BY_TASK = {
    "prompts": {
        "query": "the dog : ",
        "document": "a cat : ",
        "STS": "one man : ",
        "STSBenchmark": "one woman : ",
        "Retrieval": "a bird : ",
        "Retrieval-query": "two birds : ",
        "SciFact-document": "three men : ",
        "other": "the tree : ",
    },
    "default_prompt_name": "other",
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("prompts", "kinds"), [(NO_PROMPTS, 1), (BOTH, 3), (QUERIES, 2), (PASSAGES, 2), (BY_TASK, 8)])
def test_prompts_are_those_of_mteb_s_own_wrapper(prompts: dict[str, Any], kinds: int, tmp_path: Path) -> None:
    """A folder of sentence-transformers gives the same vectors for every task and prompt type."""
    from mteb.models import SentenceTransformerEncoderWrapper
    from mteb.types import PromptType
    from sentence_transformers import SentenceTransformer

    tiny_encoder(pooling="mean").save_pretrained(tmp_path / "model")
    file = tmp_path / "model" / "config_sentence_transformers.json"
    file.write_text(json.dumps({"default_prompt_name": None, **prompts}))
    theirs = SentenceTransformerEncoderWrapper(SentenceTransformer(str(tmp_path / "model"), device="cpu"))
    ours = MTEBEncoder(SentenceEncoder.from_pretrained(tmp_path / "model"))
    found = set()
    for name in ("SciFact", "NFCorpus", "STSBenchmark", "STS12", "Banking77Classification"):
        for prompt_type in (None, PromptType.query, PromptType.document):
            loader = _Loader({"text": SENTENCES[:3]}, {"text": SENTENCES[3:5]})
            asked: Any = {"task_metadata": mteb.get_task(name).metadata, "hf_split": "test", "hf_subset": "default"}
            vectors = [one.encode(loader, prompt_type=prompt_type, **asked) for one in (ours, theirs)]
            np.testing.assert_allclose(*vectors, atol=1e-5, err_msg=f"{name}, {prompt_type}")
            found.add(vectors[1].round(4).tobytes())
    assert len(found) == kinds


class _Loader(list[Any]):
    """Batches as mteb gives them, with the features of their data set."""

    def __init__(self, *batches: Any) -> None:
        super().__init__(batches)
        self.dataset = split({"text": [text for batch in batches for text in batch["text"]]})


def test_the_model_is_told_apart_by_its_fingerprint(encoder: SentenceEncoder) -> None:
    meta = MTEBEncoder(encoder, "me/mine").mteb_model_meta
    assert (meta.name, meta.revision, meta.embed_dim) == ("me/mine", fingerprint(encoder), 32)
    other = MTEBEncoder(tiny_encoder(pooling="mean", seed=1), "me/mine").mteb_model_meta
    assert other.revision != meta.revision


def test_what_cannot_be_encoded_is_refused(encoder: SentenceEncoder) -> None:
    with pytest.raises(InputError, match="mteb gave inputs of image; this model encodes text only"):
        MTEBEncoder(encoder).encode([{"image": [0]}], task_metadata=mteb.get_task("STS12").metadata)
    with pytest.raises(InputError, match="the model's name for mteb is 'mine'; expected organisation/model"):
        MTEBEncoder(encoder, "mine")
