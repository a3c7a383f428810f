"""The truth without labels: what is held out, the tasks made of it, their scores and the verdict."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from adaptation.texts import documents
from sentrep.adaptation.splitting import split_documents
from sentrep.adaptation.verdict import compare_tasks, decide, gains, mean
from sentrep.data.sets.proxy_tasks import ProxyTasks, is_proxy, load_proxy_tasks, write_proxy_tasks
from sentrep.data.text.documents import Document
from sentrep.errors import InputError
from sentrep.evaluation.proxy import proxy_values, rank_passages, score_rankings, word_matching
from sentrep.evaluation.scoring import proxy_scores
from support import tiny_encoder

MADE = documents(40)


def tasks(folder: Path) -> ProxyTasks:
    held = {n: (d, [d.sentences[:3], d.sentences[3:]]) for n, d in enumerate(MADE[:35])}
    write_proxy_tasks(folder, held, {f"{n}.0": d.text for n, d in enumerate(MADE[35:], 35)})
    return load_proxy_tasks(str(folder))


def test_no_answer_contains_its_query_and_all_answers_are_of_its_document(tmp_path: Path) -> None:
    made = tasks(tmp_path / "t")
    assert is_proxy(str(tmp_path / "t"))
    assert not is_proxy(str(tmp_path))
    assert list(made.answers) == ["title-to-text", "sentence-to-rest", "text-to-neighbour"]
    for found in made.answers.values():
        for query, own in found.items():
            assert own
            for answer in own:
                assert made.queries[query].lower() not in made.passages[answer].lower()
                assert re.split("[.-]", query)[0] == answer.split(".")[0]
    assert {n for n in made.passages if int(n.split(".")[0]) >= 35} == {f"{n}.0" for n in range(35, 40)}
    assert not {query for query in made.queries if int(re.split("[.-]", query)[0]) >= 35}


def test_a_sentence_that_is_asked_for_is_taken_out_for_every_task(tmp_path: Path) -> None:
    made = tasks(tmp_path / "t")
    text = " ".join(made.passages.values())
    asked = [made.queries[query] for query in made.answers["sentence-to-rest"]]
    assert len(asked) == 2 * 35
    assert not [sentence for sentence in asked if sentence in text]


def test_too_little_structure_is_an_error_of_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="fewer than 30 held-out queries"):
        write_proxy_tasks(tmp_path / "t", {0: (MADE[0], [MADE[0].sentences])}, {})


def test_what_is_held_out_is_split_without_overlap_and_has_no_copy() -> None:
    made = documents(300)
    made[7] = Document(made[8].title, (*made[8].sentences, made[8].sentences[0]))  # each other's copy
    split = split_documents(made, seed=1)
    assert split is not None
    assert sorted([*split.train, *split.choose, *split.judge]) == list(range(300))
    assert len(split.choose) == 60
    assert len(split.judge) == 90
    assert {7, 8} <= set(split.train)
    assert split_documents(made, seed=1) == split != split_documents(made, seed=2)
    assert split_documents([Document(None, ("One line.",))] * 300) is None
    assert split_documents(made[:60]) is None  # too few to judge by


@pytest.mark.parametrize("words", [["😀", "😁", "😂"], ["!", "?", ";"], ["ape", "bee", "cow", "dog", "elk"]])
def test_a_text_whose_words_tell_no_documents_apart_is_not_judged(words: list[str]) -> None:
    rng = np.random.default_rng(0)
    said = [tuple(" ".join(rng.permutation(words)) + "." for _ in range(6)) for _ in range(400)]
    assert split_documents([Document(" ".join(rng.permutation(words)), sentences) for sentences in said]) is None


def test_rankings_are_those_of_a_loop_and_leave_the_query_itself_out(tmp_path: Path) -> None:
    made, encoder = tasks(tmp_path / "t"), tiny_encoder(pooling="mean")

    def encode(texts: list[str]) -> torch.Tensor:
        return torch.as_tensor(encoder.encode(texts))

    found = rank_passages(made, encode)  # type: ignore[arg-type]
    for query, order in list(found.items())[::17]:
        asked, (ids, texts) = encode([made.queries[query]]), zip(*made.passages.items(), strict=True)
        cosine = torch.cosine_similarity(asked, encode(list(texts)))
        best = [ids[n] for n in cosine.argsort(descending=True).tolist() if ids[n] != query][:10]
        assert order == best
    scores = score_rankings(made, found)
    values = proxy_values(scores)
    assert values == pytest.approx(proxy_scores(encoder, made), abs=1e-6)
    first = next(iter(made.answers["title-to-text"].items()))
    hits = [passage in first[1] for passage in found[first[0]]]
    best = sum(1 / np.log2(rank + 2) for rank in range(len(first[1])))
    assert scores["ndcg"][0] == pytest.approx(
        100 * sum(hit / np.log2(rank + 2) for rank, hit in enumerate(hits)) / best
    )
    with pytest.raises(InputError, match="collapsed"):
        rank_passages(made, lambda texts: torch.ones(len(texts), 4))


def test_word_matching_finds_what_shares_words(tmp_path: Path) -> None:
    pytest.importorskip("bm25s")
    made = tasks(tmp_path / "t")
    found = word_matching(made)
    assert found is not None
    assert proxy_values(score_rankings(made, found))["proxy/sentence-to-rest"] > 50
    assert all(query not in order for query, order in found.items())


def table(task: str, documents: list[str], ndcg: Sequence[float] | np.ndarray) -> pd.DataFrame:
    return pd.DataFrame({"task": task, "document": documents, "ndcg": ndcg})


def scores(shift: dict[str, float], noise: float, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    base = {task: rng.uniform(20, 80, size) for task, size in (("a", 100), ("b", 300))}
    owners = {"a": [str(n) for n in range(100)], "b": [str(n // 3) for n in range(300)]}
    rng = np.random.default_rng(seed + 1)
    made = [
        table(task, owners[task], values + shift[task] + noise * rng.normal(size=len(values)))
        for task, values in base.items()
    ]
    return pd.concat(made, ignore_index=True)


def test_the_verdict_asks_for_a_gain_beyond_the_interval_and_for_no_loss() -> None:
    start = scores({"a": 0.0, "b": 0.0}, 0.0)
    for shift, noise, expected in (
        ({"a": 2.0, "b": 2.0}, 4.0, "better"),
        ({"a": 0.1, "b": 0.1}, 20.0, "not better"),
        ({"a": -2.0, "b": -2.0}, 4.0, "not better"),
        ({"a": 30.0, "b": -5.0}, 4.0, "not better"),  # a gain that is paid for by another task
        ({"a": 0.0, "b": 0.0}, 0.0, "not better"),
    ):
        verdict, whole = decide(start, scores(shift, noise))
        assert verdict == expected, shift
        assert whole.low <= whole.value <= whole.high
        assert whole.value == pytest.approx((shift["a"] + 3 * shift["b"]) / 4, abs=2)


def test_a_gain_below_the_trusted_one_tells_nothing() -> None:
    start = scores({"a": 0.0, "b": 0.0}, 0.0)
    for gain, expected in ((-2.0, "not better"), (0.0, "not better"), (2.0, "cannot be told"), (3.0, "better")):
        assert decide(start, scores({"a": gain, "b": gain}, 0.0), trusted=3.0)[0] == expected, gain


def test_every_query_counts_once() -> None:
    found = pd.concat([table("often", ["1", "1", "2", "3"], [0.0, 50.0, 80.0, 40.0]), table("rare", ["3"], [100.0])])
    assert proxy_values(found) == pytest.approx({"proxy": 54, "proxy/often": 42.5, "proxy/rare": 100})
    assert mean(found).value == pytest.approx(54)


def test_the_interval_is_of_documents() -> None:
    start, adapted = scores({"a": 0.0, "b": 0.0}, 0.0), scores({"a": 1.0, "b": 3.0}, 10.0)
    gained = gains(start, adapted)
    whole = mean(gained)
    assert whole.value == pytest.approx((adapted["ndcg"] - start["ndcg"]).mean())
    assert whole.high - whole.low == pytest.approx(_width(gained, whole.value), rel=0.15)


def test_the_interval_knows_that_documents_ask_differently_often() -> None:
    documents = [str(number) for number in range(60) for _ in range(1 + number % 7)]
    level = 50 + 5 * np.random.default_rng(0).standard_normal(60)
    own = np.array([level[int(document)] for document in documents])
    found = table("a", documents, own)
    whole = mean(found)
    assert whole.value == pytest.approx(own.mean())
    assert whole.high - whole.low == pytest.approx(_width(found, whole.value), rel=0.15)


def _width(scores: pd.DataFrame, mean: float) -> float:
    """Of the 95 % interval of a mean over queries in clusters, by the linearized variance of a ratio."""
    residual: dict[str, float] = {}
    for document, value in zip(scores["document"], scores["ndcg"], strict=True):
        residual[document] = residual.get(document, 0.0) + value - mean
    return 2 * 1.96 * float(np.sqrt(sum(value**2 for value in residual.values()))) / len(scores)


def test_each_task_is_compared(tmp_path: Path) -> None:
    made, encoder = tasks(tmp_path / "t"), tiny_encoder(pooling="mean")
    found = score_rankings(made, rank_passages(made, lambda texts: torch.as_tensor(encoder.encode(list(texts)))))
    compared = compare_tasks(made, found, found)
    assert compared["task"].tolist() == ["title to text", "sentence to rest", "text to neighbour"]
    assert (compared[["difference low", "difference", "difference high"]] == 0).all(axis=None)
    assert (compared["before"] == compared["after"]).all()
    assert (compared["before low"] < compared["before"]).all()
    assert compared["BM25"].isna().all()
    assert set(compared["verdict"]) == {"cannot be told"}
