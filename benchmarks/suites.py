"""The suites of ``sentrep evaluate`` beside an independent computation of the same scores.

    python benchmarks/suites.py --model all-MiniLM-L6-v2 --senteval SentEval/data --transfer DATA \
        --cache vectors --json benchmarks/results/suites_minilm.json

The other side shares no code with sentrep: `SentenceTransformer.encode` in float32, files read by the standard library,
scikit-learn's logistic regression (lbfgs, started anew for every fit) in plain loops; for retrieval mteb's own code.
``DATA`` holds the folders ``banking77`` and ``scifact``. Vectors of the other side are kept in ``--cache``: an
interrupted run goes on, and tasks can be added to a ``--json`` that is there.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score
from sklearn.model_selection import StratifiedKFold

Encode = Callable[[str, Sequence[str]], np.ndarray]
Scores = dict[str, float]
Task = Callable[[Encode, argparse.Namespace], Scores]
TOLERANCE = 0.1


def main() -> None:
    """Score every task twice and say whether the two agree."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--senteval", type=Path)
    parser.add_argument("--transfer", type=Path)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    report = json.loads(arguments.json.read_text()) if arguments.json and arguments.json.exists() else {}
    for task in arguments.tasks:
        start = time.perf_counter()
        ours = _sentrep(task, arguments)
        between = time.perf_counter()
        theirs = TASKS[task](_encoder(arguments.model, arguments.cache), arguments)
        seconds = {"sentrep": between - start, "independent": time.perf_counter() - between}
        report[task] = {"sentrep": ours, "independent": theirs, "seconds": seconds}
        for metric, value in theirs.items():
            gap = abs(value - ours[metric])
            verdict = "agrees" if gap <= TOLERANCE else "DIFFERS"
            print(f"{task:<10} {metric:<14} {ours[metric]:7.3f} {value:7.3f}  {verdict}", flush=True)
        if arguments.json is not None:
            arguments.json.write_text(json.dumps(report, indent=2) + "\n")


def _sentrep(task: str, arguments: argparse.Namespace) -> Scores:
    from sentrep import SentenceEncoder
    from sentrep.evaluation import SuiteSets, evaluate_suite, load_suite

    if task == "scifact":
        suite, request = "retrieval", SuiteSets([str(arguments.transfer / task)])
    elif task == "banking77":
        suite, request = "mteb", SuiteSets([str(arguments.transfer / task)])
    else:
        suite, request = "transfer", SuiteSets([task], str(arguments.senteval))
    encoder = SentenceEncoder.from_pretrained(arguments.model)
    (result,) = evaluate_suite(suite, encoder, load_suite(suite, request))
    return result.scores


def _encoder(model: str, cache: Path) -> Encode:
    def encode(name: str, texts: Sequence[str]) -> np.ndarray:
        file = cache / f"{name}.npy"
        if not file.exists():
            from sentence_transformers import SentenceTransformer

            cache.mkdir(parents=True, exist_ok=True)
            np.save(file, SentenceTransformer(model, device="cpu").encode(list(texts), batch_size=64))
        vectors: np.ndarray = np.load(file)
        assert len(vectors) == len(texts), f"{file} is of other texts; remove it"
        return vectors

    return encode


# --- SentEval ---------------------------------------------------------------------------------------------------------


def _nested(files: dict[str, int]) -> Task:
    """SentEval's nested cross-validation over two files of one class each."""

    def scores(encode: Encode, arguments: argparse.Namespace) -> Scores:
        texts, labels, parts = [], [], []
        for file, label in files.items():
            raw = (arguments.senteval / file).read_text(encoding="latin-1").split("\n")[:-1]
            lines = [" ".join(line.split()) for line in raw]
            parts.append(encode(file.replace("/", "_"), lines))
            texts += lines
            labels += [label] * len(lines)
        x, y = _sorted(np.concatenate(parts), labels, [texts])
        accuracies = []
        for train, test in _folds().split(x, y):
            strength = _choose(x[train], y[train], [2.0**power for power in range(-2, 4)])
            accuracies.append(_fit(strength, x[train], y[train]).score(x[test], y[test]))
        return {"accuracy": 100 * float(np.mean(accuracies))}

    return scores


def _sst2(encode: Encode, arguments: argparse.Namespace) -> Scores:
    data = {}
    for split in ("train", "dev", "test"):
        lines = (arguments.senteval / "SST" / "binary" / f"sentiment-{split}").read_text(encoding="utf-8").split("\n")
        rows = [line.split("\t") for line in lines if line]
        texts = [" ".join(row[0].split()) for row in rows]
        data[split] = _sorted(encode(f"sst2_{split}", texts), [int(row[1]) for row in rows], [texts])
    fitted = [_fit(2.0**power, *data["train"]) for power in range(-2, 4)]
    best = int(np.argmax([one.score(*data["dev"]) for one in fitted]))
    return {"accuracy": 100 * fitted[best].score(*data["test"])}


def _trec(encode: Encode, arguments: argparse.Namespace) -> Scores:
    data = {}
    for split, file in (("train", "train_5500.label"), ("test", "TREC_10.label")):
        lines = (arguments.senteval / "TREC" / file).read_text(encoding="latin-1").split("\n")[:-1]
        texts = [line.split(" ", 1)[1] for line in lines]
        data[split] = _sorted(encode(f"trec_{split}", texts), [line.split(":")[0] for line in lines], [texts])
    return {"accuracy": 100 * accuracy_score(data["test"][1], _train_and_test(data))}


def _mrpc(encode: Encode, arguments: argparse.Namespace) -> Scores:
    data = {}
    for split in ("train", "test"):
        file = arguments.senteval / "MRPC" / f"msr_paraphrase_{split}.txt"
        rows = [line.split("\t") for line in file.read_text(encoding="utf-8-sig").split("\n")[1:-1]]
        first, second = ([" ".join(row[column].split()) for row in rows] for column in (3, 4))
        u, v = encode(f"mrpcA_{split}", first), encode(f"mrpcB_{split}", second)
        features = np.concatenate([np.abs(u - v), u * v], axis=1)
        data[split] = _sorted(features, [int(row[0]) for row in rows], [first, second])
    predicted = _train_and_test(data)
    gold = data["test"][1]
    return {"accuracy": 100 * accuracy_score(gold, predicted), "f1": 100 * f1_score(gold, predicted)}


def _train_and_test(data: dict[str, tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    x, y = data["train"]
    return _fit(_choose(x, y, [2.0**power for power in range(-1, 6)]), x, y).predict(data["test"][0])


def _choose(x: np.ndarray, y: np.ndarray, strengths: list[float]) -> float:
    means = []
    for strength in strengths:
        scores = [_fit(strength, x[a], y[a]).score(x[b], y[b]) for a, b in _folds().split(x, y)]
        means.append(round(100 * float(np.mean(scores)), 2))
    return strengths[int(np.argmax(means))]


def _fit(strength: float, x: np.ndarray, y: np.ndarray) -> LogisticRegression:
    return LogisticRegression(C=strength, max_iter=10_000, tol=1e-7).fit(x, y)


def _folds() -> StratifiedKFold:
    return StratifiedKFold(10, shuffle=True, random_state=1111)


def _sorted(x: np.ndarray, labels: list[Any], columns: list[list[str]]) -> tuple[np.ndarray, np.ndarray]:
    """SentEval's order: number of words of each text, then the label."""
    order = sorted(range(len(labels)), key=lambda row: (*(len(c[row].split()) for c in columns), labels[row]))
    return x[order].astype(np.float64), np.array(labels)[order]


# --- MTEB -------------------------------------------------------------------------------------------------------------


def _banking77(encode: Encode, arguments: argparse.Namespace) -> Scores:
    x, y = {}, {}
    for split in ("train", "test"):
        with (arguments.transfer / "banking77" / f"{split}.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        x[split] = encode(f"bank_{split}", [row["text"] for row in rows])
        y[split] = np.array([row["category"] for row in rows])
    order, accuracies, f1s = np.arange(len(y["train"])), [], []
    for _ in range(10):
        np.random.RandomState(42).shuffle(order)
        rows = np.concatenate([order[y["train"][order] == label][:8] for label in np.unique(y["train"])])
        predicted = LogisticRegression(max_iter=100).fit(x["train"][rows], y["train"][rows]).predict(x["test"])
        accuracies.append(accuracy_score(y["test"], predicted))
        f1s.append(f1_score(y["test"], predicted, average="macro"))
    return {"accuracy": 100 * float(np.mean(accuracies)), "f1": 100 * float(np.mean(f1s))}


# --- BEIR -------------------------------------------------------------------------------------------------------------


def _scifact(encode: Encode, arguments: argparse.Namespace) -> Scores:
    """mteb's own code from the encoding to the scores; only the files are read here."""
    import datasets
    import mteb
    from mteb.abstasks import AbsTaskRetrieval
    from mteb.abstasks.task_metadata import TaskMetadata
    from sentence_transformers import SentenceTransformer

    folder = arguments.transfer / "scifact"
    corpus, queries = ([json.loads(line) for line in (folder / f).open()] for f in ("corpus.jsonl", "queries.jsonl"))
    judged: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels" / "test.tsv").read_text().splitlines()[1:]:
        query, document, grade = line.split("\t")
        judged.setdefault(query, {})[document] = int(grade)
    data = {
        "corpus": datasets.Dataset.from_list(
            [{"id": d["_id"], "title": d["title"], "text": d["text"]} for d in corpus]
        ),
        "queries": datasets.Dataset.from_list(
            [{"id": q["_id"], "text": q["text"]} for q in queries if q["_id"] in judged]
        ),
        "relevant_docs": judged,
        "top_ranked": None,
    }

    class LocalSciFact(AbsTaskRetrieval):  # type: ignore[misc]
        metadata = TaskMetadata(
            name="LocalSciFact", type="Retrieval", main_score="ndcg_at_10", description="SciFact from local files",
            reference="https://github.com/allenai/scifact", dataset={"path": "local", "revision": "1"}, category="t2t",
            eval_splits=["test"], eval_langs=["eng-Latn"], date=("2020-01-01", "2020-12-31"), dialect=[], domains=[],
            task_subtypes=[], license="not specified", annotations_creators="expert-annotated", modalities=["text"],
            sample_creation="found", bibtex_citation="",
        )  # fmt: skip

        def load_data(self, *_: Any, **__: Any) -> None:
            self.dataset, self.data_loaded = {"default": {"test": data}}, True

    result = mteb.evaluate(
        SentenceTransformer(arguments.model, device="cpu"), LocalSciFact(), cache=None, overwrite_strategy="always",
        encode_kwargs={"batch_size": 64}, co2_tracker=False,
    )  # fmt: skip
    scores = result.task_results[0].scores["test"][0]
    names = {f"{m}@{k}": f"{m}_at_{k}" for m, k in [("ndcg", 10), ("map", 1000), ("mrr", 10)]}
    names |= {f"recall@{k}": f"recall_at_{k}" for k in (1, 10, 100)}
    return {ours: 100 * scores[theirs] for ours, theirs in names.items()}


TASKS = {
    "cr": _nested({"CR/custrev.pos": 1, "CR/custrev.neg": 0}),
    "mr": _nested({"MR/rt-polarity.pos": 1, "MR/rt-polarity.neg": 0}),
    "subj": _nested({"SUBJ/subj.objective": 1, "SUBJ/subj.subjective": 0}),
    "mpqa": _nested({"MPQA/mpqa.pos": 1, "MPQA/mpqa.neg": 0}),
    "sst2": _sst2,
    "trec": _trec,
    "mrpc": _mrpc,
    "banking77": _banking77,
    "scifact": _scifact,
}

if __name__ == "__main__":
    main()
