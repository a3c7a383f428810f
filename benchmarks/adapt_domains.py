"""Is the verdict of `sentrep adapt` right? Start → adapted → verdict → truth, over domains, recipes and seeds.

    python benchmarks/adapt_domains.py --backbone sentence-transformers/all-MiniLM-L6-v2 --output adapted-domains \\
        --domain scifact=DATA/scifact banking77=DATA/banking77 --seeds 5 --steps 30 --part 500 --markdown table.md

A domain is a folder with a truth that has labels, which no run sees: one in BEIR's layout (its corpus is the text,
nDCG@10 of its test queries the truth), or one with train.csv and test.csv (the text is its corpus.jsonl, else the texts
of train; the truth is the accuracy of the ten nearest neighbours, and the V-measure of clusters stands beside).
``--part 500`` keeps all relevant documents and so many others, as text and as what is searched.

Every run prepares, trains, mixes and judges by the functions of the command, in one process, where the untouched model
encodes each text once for all runs; training ends after ``--steps``, and the passages, pairs and questions are those
that ``--minutes`` allow a model of ``--speed``, so that a run is the same on any machine. Four models are judged: the
*trained* one as training left it; the *mixed* one, its best mean with the untouched weights, which the command exports;
the *exported* one, which it gives by --lexical true: the mixed one with matching words; and *words*, the untouched one
with matching words and no training. A verdict is right
where it says better and the truth has risen, or where it says not better and the truth has not risen; it is wrong
beyond doubt where the truth's own 95 % interval (paired, over queries) says the contrary. Where nothing can be told,
nothing is exported, and on a text without structure nothing is trained. Runs that have ended are not done again, and
all of them stand in ``results.json``.

Recipes: ``pairs`` is the default of the command; ``plain``, ``simcse`` and ``tsdae`` ship beside it; ``tsdae-high`` and
``simcse-high`` have rates that ruin a model, and ``pairs-high`` one that is too high: the verdict must see that.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow.parquet as pq
import scipy.stats
import torch
from tables import table

from sentrep.adaptation.budget import Budget
from sentrep.adaptation.choice import choose, proxy
from sentrep.adaptation.outcome import Verdict
from sentrep.adaptation.preparation import CHOOSE, JUDGE, PASSAGES, Remembered, prepare
from sentrep.adaptation.splitting import split_documents
from sentrep.adaptation.verdict import TRUSTED, Judgement, judge
from sentrep.adaptation.words import WEIGHTS, WithWords
from sentrep.cli.commands.adapt_folder import AdaptationFolder
from sentrep.cli.config.configuration import merge, read_config
from sentrep.cli.runs.precision import has_bf16
from sentrep.data.sets.beir import RankingSet, load_retrieval
from sentrep.data.sets.labelled import load_labelled_file
from sentrep.data.sets.proxy_tasks import load_proxy_tasks
from sentrep.data.text.documents import load_documents
from sentrep.encoder import SentenceEncoder, fit_lexical
from sentrep.encoder.search import TopK
from sentrep.evaluation.retrieval import ranking_score
from sentrep.io.files import write_text

CONFIGS = Path(__file__).resolve().parents[1] / "configs" / "adapt"
RECIPES: dict[str, tuple[str, float | None]] = {
    "pairs": ("pairs", None),
    "plain": ("plain", None),
    "simcse": ("simcse", None),
    "tsdae": ("tsdae", None),
    "pairs-high": ("pairs", 5e-4),
    "simcse-high": ("simcse", 5e-4),
    "tsdae-high": ("tsdae", 5e-4),
}
"""Name: the recipe in configs/adapt, and another learning rate."""
KINDS = ("trained", "mixed", "exported", "words")
"""Models of a run that are judged."""
_NEIGHBOURS = 10
_MINUTES = 600.0
"""More than any run takes: it is the steps that end it."""
Vectors = Callable[[Sequence[str]], torch.Tensor]
"""(n, D) of n texts, by a model."""
Truth = Callable[[Vectors], tuple[np.ndarray, dict[str, float]]]
"""(Q,) scores × 100 of the single queries or texts, and what else is known."""


def main() -> None:
    """Do what is not done, then the table."""
    options = _options()
    if options.threads:
        torch.set_num_threads(options.threads)
    domains = [Domain(name, Path(place).expanduser(), options) for name, place in options.domain]
    for seed, domain, recipe in itertools.product(options.seeds, domains, options.recipes):
        domain.run(recipe, seed)
        results = [json.loads(file.read_bytes()) for file in sorted(options.output.glob("*/*/*/seed-*/result.json"))]
        write_text(options.output / "results.json", json.dumps(results, indent=1) + "\n")
    text = markdown(results)
    print(text, end="")
    if options.markdown:
        write_text(options.markdown, text)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", required=True)
    parser.add_argument("--pooling", help="of a plain transformers folder")
    parser.add_argument("--domain", nargs="+", required=True, metavar="NAME=FOLDER", type=lambda d: d.split("=", 1))
    parser.add_argument("--recipes", nargs="+", default=list(RECIPES), choices=list(RECIPES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--steps", type=int, default=30, help="of each training")
    parser.add_argument("--batch", type=int, default=32, help="of each training")
    parser.add_argument("--length", type=int, help="tokens of a passage that the model reads, if not its own")
    parser.add_argument("--part", type=int, help="documents, beside the relevant ones; labelled texts of each split")
    parser.add_argument("--minutes", type=float, default=_MINUTES, help="that the reading is made for")
    parser.add_argument("--speed", type=float, default=40.0, help="passages a second, of the reading in these minutes")
    parser.add_argument("--passages", type=int, default=10_000, help="to train on and to search in")
    parser.add_argument("--threads", type=int, help="of torch")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--markdown", type=Path, help="file for the table")
    return parser.parse_args()


class Domain:
    """A text, its truth, and the untouched model, whose vectors all runs share.

    Args:
        name: in the table.
        source: its folder.
        options: of the command line.
    """

    def __init__(self, name: str, source: Path, options: argparse.Namespace) -> None:
        self.name, self.source, self.options = name, source, options
        self._start: Remembered | None = None

    def run(self, recipe: str, seed: int) -> dict[str, Any]:
        """One run to its end, judged; or what it came to."""
        model = Path(self.options.backbone).name
        place = self.options.output / model / self.name / recipe / f"seed-{seed}"
        file = place / "result.json"
        if file.is_file():
            return json.loads(file.read_text(encoding="utf-8"))
        if self._start is None:
            self._load()
        found = {
            "model": model, "domain": self.name, "recipe": recipe, "seed": seed, "unit": self.unit,
            "before": float(self.before.mean()), "more before": self.more_before, **self._adapt(place, recipe, seed),
        }  # fmt: skip
        write_text(file, json.dumps(found, indent=1) + "\n")
        told = {kind: (found[kind]["verdict"], round(found[kind]["gain"], 2)) for kind in KINDS}
        print(f"{self.name}, {recipe}, seed {seed}: {told}", file=sys.stderr)
        return found

    def _load(self) -> None:
        given = {"pooling": self.options.pooling, "max_seq_length": self.options.length}
        changes = {name: value for name, value in given.items() if value is not None}
        model = SentenceEncoder.from_pretrained(self.options.backbone, **changes)
        self._start = Remembered(model, bf16=has_bf16(model.device))
        text = write_text_of(self.source, self.options.part, self.options.output / f"{self.name}.jsonl")
        self.documents = load_documents(text)
        self.score, self.unit = truth(self.source, self.options.part)
        self.before, self.more_before = self.score(self._start)

    def _adapt(self, place: Path, recipe: str, seed: int) -> dict[str, Any]:
        start = self._start
        assert start is not None
        split = split_documents(self.documents, seed)
        if split is None:
            nothing = {"verdict": "cannot be told", **self._against_truth(None, start)}
            return dict.fromkeys(KINDS, nothing) | {"share": None, "weight": None}
        folder = AdaptationFolder(place, _MINUTES, seed)
        Budget.allowed(self.options.speed, self.options.minutes).write(folder.files)
        prepare(self.documents, split, start, folder.files, self.options.minutes, self.options.passages, seed)
        own, rate = RECIPES[recipe]
        steps = {"max_steps": self.options.steps, "val_check_interval": self.options.steps}
        changes: dict[str, Any] = {"trainer": steps, "data": {"batch_size": self.options.batch}}
        if rate is not None:
            changes["model"] = {"optimizer": {"init_args": {"lr": rate}}}
        tree = merge(read_config(str(CONFIGS / f"{own}.yaml"))[1], changes)
        if status := folder.fit(tree, start.encoder, self.options.backbone):
            raise SystemExit(status)
        end = Remembered(folder.end(start.encoder), start.bf16)
        words = fit_lexical(start.encoder, pq.read_table(folder.files / PASSAGES)["text"].to_pylist(), seed=seed)
        choosing, tasks = (load_proxy_tasks(folder.files / name) for name in (CHOOSE, JUDGE))
        choice = choose(choosing, start, end, words)
        worded = choice.worded or choice.model
        alone: dict[float, Remembered | WithWords] = {0.0: start}
        alone |= {weight: WithWords(start, words, weight) for weight in WEIGHTS}
        weight = max(alone, key=lambda weight: proxy(choosing, alone[weight]))
        found: dict[str, Any] = {"share": choice.share, "weight": getattr(worded, "weight", 0.0)}
        for kind, model in zip(KINDS, (end, choice.model, worded, alone[weight]), strict=True):
            judgement = judge(tasks, start, model, trusted=0.0 if isinstance(model, WithWords) else TRUSTED)
            found[kind] = {"verdict": judgement.verdict, **self._against_truth(judgement, model)}
        return found

    def _against_truth(self, judgement: Judgement | None, model: Remembered | WithWords) -> dict[str, Any]:
        if judgement is None:
            after, more = self.before, self.more_before
        else:
            after, more = self.score(model)
        gain = after - self.before
        low, high = interval(gain)
        told = None if judgement is None or judgement.verdict == "cannot be told" else judgement.verdict == "better"
        return {
            "after": float(after.mean()), "gain": float(gain.mean()), "low": low, "high": high, "more after": more,
            "proxy": None if judgement is None else judgement.difference.value,
            "right": None if told is None else told == bool(gain.mean() > 0),
            "wrong beyond doubt": bool(told is True and high < 0) or bool(told is False and low > 0),
        }  # fmt: skip


def write_text_of(source: Path, part: int | None, file: Path) -> Path:
    """The text of a domain: of its corpus the relevant documents and ``part`` others; returns its file."""
    corpus = source / "corpus.jsonl"
    if part is None or not corpus.is_file():
        return corpus if corpus.is_file() else source / "train.csv"
    lines = corpus.read_text(encoding="utf-8").splitlines()
    if (source / "qrels").is_dir():
        kept = _kept(load_retrieval(source), part)
        lines = [line for line in lines if str(json.loads(line)["_id"]) in kept]
    else:
        lines = [lines[number] for number in sorted(np.random.default_rng(0).permutation(len(lines))[:part].tolist())]
    write_text(file, "".join(f"{line}\n" for line in lines))
    return file


def truth(folder: Path, part: int | None) -> tuple[Truth, str]:
    """What judges a domain, and what it is called."""
    if (folder / "qrels").is_dir():
        return _retrieval(load_retrieval(folder), part), "nDCG@10"
    return _labelled(folder, part), "10-NN accuracy"


def _retrieval(ranking: RankingSet, part: int | None) -> Truth:
    kept = _kept(ranking, part)
    ranking = replace(ranking, document_ids=[document for document in ranking.document_ids if document in kept])
    texts = dict(row for row in ranking.documents() if row[0] in kept)

    def score(encode: Vectors) -> tuple[np.ndarray, dict[str, float]]:
        queries = encode(list(ranking.queries.values()))
        best = TopK(queries, 10)
        ids = sorted(texts)
        best.add(encode([texts[document] for document in ids]), torch.arange(len(ids)))
        found = [[ids[number] for number in row] for row in best.order.tolist()]
        values = [
            ranking_score("ndcg@10", [judged.get(document, 0) for document in order], list(judged.values()))
            for judged, order in zip((ranking.judgements[query] for query in ranking.queries), found, strict=True)
        ]
        return 100 * np.array(values), {"documents": len(ids), "queries": len(values)}

    return score


def _kept(ranking: RankingSet, part: int | None) -> set[str]:
    """Ids of the documents that are relevant to a query, and of ``part`` others."""
    relevant = {document for judged in ranking.judgements.values() for document, grade in judged.items() if grade > 0}
    others = [document for document in ranking.document_ids if document not in relevant]
    return relevant | set(np.random.default_rng(0).permutation(others)[:part].tolist() if part else others)


def _labelled(folder: Path, part: int | None) -> Truth:
    files = (load_labelled_file(folder / f"{split}.csv") for split in ("train", "test"))
    train, test = (replace(file, texts=file.texts[:part], labels=file.labels[:part]) for file in files)

    def score(encode: Vectors) -> tuple[np.ndarray, dict[str, float]]:
        from sklearn.cluster import MiniBatchKMeans
        from sklearn.metrics import v_measure_score
        from sklearn.neighbors import KNeighborsClassifier

        x, y = (encode(part.texts).numpy() for part in (train, test))
        judge = KNeighborsClassifier(_NEIGHBOURS, metric="cosine").fit(x, train.labels)
        hits = 100.0 * (judge.predict(y) == np.array(test.labels))
        clusters = MiniBatchKMeans(len(set(test.labels)), n_init=10, random_state=0).fit_predict(y)
        return hits, {"v-measure": 100 * float(v_measure_score(test.labels, clusters))}

    return score


def interval(values: np.ndarray) -> tuple[float, float]:
    """95 % of the mean, by the bootstrap."""
    if np.ptp(values) == 0:
        return float(values[0]), float(values[0])
    found = scipy.stats.bootstrap((values,), np.mean, n_resamples=2000, batch=100, method="percentile", rng=0)
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def markdown(results: list[dict[str, Any]]) -> str:
    """Domain by recipe, over the seeds; and how often the verdict was right."""
    about = ("start", "domain", "recipe", "model", "truth before", "gain, mean", "worst", "best")
    lines = []
    for key, found in itertools.groupby(results, lambda run: (run["model"], run["domain"], run["recipe"])):
        runs = list(found)
        for kind in KINDS:
            told = [run[kind] for run in runs]
            gains = [run["gain"] for run in told]
            verdicts = [sum(run["verdict"] == verdict for run in told) for verdict in get_args(Verdict)]
            lines.append(
                [
                    *key, kind, f"{runs[0]['before']:.1f}", f"{np.mean(gains):+.2f}", f"{min(gains):+.2f}",
                    f"{max(gains):+.2f}", *map(str, verdicts),
                    f"{sum(run['right'] is True for run in told)} of {sum(verdicts[:2])}",
                ]
            )  # fmt: skip
    return table((*about, *get_args(Verdict), "right"), lines, left=4) + "".join(
        "\n" + _counts(results, kind) for kind in KINDS
    )


def _counts(results: list[dict[str, Any]], kind: str) -> str:
    told = [run[kind] for run in results if run[kind]["right"] is not None]
    lost = [run[kind]["gain"] < 0 for run in results if run[kind]["right"] is None]
    known = [run for run in told if run["low"] > 0 or run["high"] < 0]
    offered = [run for run in told if run["verdict"] == "better"]
    wrong = [run["wrong beyond doubt"] for run in offered if not run["right"]]
    worst = min((run["gain"] for run in offered), default=0.0)
    return (
        f"As {kind}: the verdict was right in {sum(run['right'] for run in told)} of {len(told)} runs, and of the "
        f"{len(known)} whose truth lies beyond its interval in {sum(not run['wrong beyond doubt'] for run in known)}; "
        f"{len(offered)} were called better, {len(wrong)} of these wrongly ({sum(wrong)} beyond the interval), the "
        f"worst with {worst:+.2f} points of truth; {len(lost)} could not be told, and of these "
        f"{sum(lost)} had lost.\n"
    )


if __name__ == "__main__":
    main()
