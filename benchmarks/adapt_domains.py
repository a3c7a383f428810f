"""Is the verdict of `sentrep adapt` right? Start → adapted → verdict → truth, over domains, recipes and seeds.

    python benchmarks/adapt_domains.py --backbone sentence-transformers/all-MiniLM-L6-v2 --output adapted-domains \\
        --domain scifact=DATA/scifact banking77=DATA/banking77 --seeds 5 --minutes 15 --markdown table.md

A domain is a folder with a truth that has labels, which no run sees: one in BEIR's layout (its corpus is the text,
nDCG@10 of its test queries the truth), or one with train.csv and test.csv (the texts of train are the text; the truth
is the accuracy of the ten nearest neighbours, and the V-measure of clusters stands beside). ``--part 1000`` judges
retrieval among all relevant documents and so many others, which is as fair and takes a fraction of the time.

Every run is ``sentrep adapt --force true`` in a folder of its own: what it would have exported is judged whatever it
says. Where a text has no structure nothing is trained and nothing changes. The verdict is right where it says better
and the truth has risen, or where it does not and the truth has not risen; it is wrong beyond doubt where the truth's
own 95 % interval (paired, over queries) says the contrary. Runs that have ended are not done again, one that was
interrupted goes on.

Recipes: ``pairs`` is the default of the command; ``simcse`` and ``tsdae`` ship beside it; ``tsdae-high`` and
``simcse-high`` have rates that ruin a model, and ``pairs-high`` one that is too high: the verdict must see that.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats
import torch
from tables import table

from sentrep.data.sets.beir import RankingSet, load_retrieval
from sentrep.data.sets.labelled import LabelledSet, load_labelled_file
from sentrep.encoder import SentenceEncoder
from sentrep.encoder.search import TopK
from sentrep.evaluation.clustering import evaluate_clustering
from sentrep.functional.ranking import ndcg
from sentrep.io.files import write_text

CONFIGS = Path(__file__).resolve().parents[1] / "configs" / "adapt"
RECIPES: dict[str, tuple[str, float | None]] = {
    "pairs": ("pairs", None),
    "simcse": ("simcse", None),
    "tsdae": ("tsdae", None),
    "pairs-high": ("pairs", 5e-4),
    "simcse-high": ("simcse", 5e-4),
    "tsdae-high": ("tsdae", 5e-4),
}
"""Name: the recipe in configs/adapt, and another learning rate."""
_NEIGHBOURS = 10
Truth = Callable[[SentenceEncoder], tuple[np.ndarray, dict[str, float]]]
"""(Q,) scores × 100 of the single queries or texts, and what else is known."""


def main() -> None:
    """Do what is not done, then the table."""
    options = _options()
    runs = list(itertools.product(options.domain, options.recipes, range(options.seeds)))
    results = [_result(options, domain, recipe, seed) for domain, recipe, seed in runs]
    write_text(options.output / "results.json", json.dumps(results, indent=1) + "\n")
    text = markdown(results)
    print(text, end="")
    if options.markdown:
        write_text(options.markdown, text)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", required=True)
    parser.add_argument("--pooling", help="of a plain transformers folder")
    parser.add_argument("--domain", nargs="+", required=True, metavar="NAME=FOLDER")
    parser.add_argument("--recipes", nargs="+", default=list(RECIPES), choices=list(RECIPES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=15.0, help="of each training")
    parser.add_argument("--part", type=int, help="documents of the retrieval truth, beside the relevant ones")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--markdown", type=Path, help="file for the table")
    return parser.parse_args()


def _result(options: argparse.Namespace, domain: str, recipe: str, seed: int) -> dict[str, Any]:
    """One run to its end, judged."""
    name, _, place = domain.partition("=")
    folder = options.output / name / recipe / f"seed-{seed}"
    file = folder / "result.json"
    if file.is_file():
        return json.loads(file.read_text(encoding="utf-8"))
    folder.mkdir(parents=True, exist_ok=True)
    own, rate = RECIPES[recipe]
    files = [str(CONFIGS / f"{own}.yaml")]
    if rate is not None:
        write_text(folder / "rate.yaml", json.dumps({"model": {"optimizer": {"init_args": {"lr": rate}}}}))
        files.append(str(folder / "rate.yaml"))
    source = Path(place).expanduser()
    text = source if (source / "corpus.jsonl").is_file() else source / "train.csv"
    words = [
        "adapt",
        str(text),
        "--backbone",
        options.backbone,
        "--output",
        str(folder / "adapted"),
        "--seed",
        str(seed),
    ]
    words += ["--minutes", str(options.minutes), "--recipe", json.dumps(files), "--force", "true"]
    words += ["--pooling", options.pooling] if options.pooling else []
    with (folder / "log").open("ab") as log:
        done = subprocess.run([sys.executable, "-m", "sentrep", *words], stdout=log, stderr=log, check=False)
    if done.returncode:
        raise SystemExit(f"{name}, {recipe}, seed {seed}: sentrep adapt failed; see {folder / 'log'}")
    outcome = json.loads((folder / "adapted" / "outcome.json").read_text(encoding="utf-8"))
    score, unit = truth(source, options.part)
    changes = {"pooling": options.pooling} if options.pooling else {}
    before, more_before = score(SentenceEncoder.from_pretrained(options.backbone, **changes))
    model = folder / "adapted" / "model"
    after, more_after = score(SentenceEncoder.from_pretrained(model)) if model.is_dir() else (before, more_before)
    gain = after - before
    low, high = interval(gain)
    rises, better = bool(gain.mean() > 0), outcome["verdict"] == "better"
    result = {
        "domain": name, "recipe": recipe, "seed": seed, "unit": unit, "verdict": outcome["verdict"],
        "proxy": [[task["name"], task["difference"]] for task in outcome["tasks"]],
        "share": outcome["settings"].get("share of the trained weights"), "seconds": outcome["seconds"],
        "before": float(before.mean()), "after": float(after.mean()), "gain": float(gain.mean()),
        "low": low, "high": high, "right": better == rises,
        "wrong beyond doubt": bool(better and high < 0) or bool(not better and low > 0),
        "more before": more_before, "more after": more_after,
    }  # fmt: skip
    write_text(file, json.dumps(result, indent=1) + "\n")
    print(f"{name}, {recipe}, seed {seed}: {result['verdict']}, truth {result['gain']:+.2f}", file=sys.stderr)
    return result


def truth(folder: Path, part: int | None) -> tuple[Truth, str]:
    """What judges a domain, and what it is called."""
    if (folder / "qrels").is_dir():
        return _retrieval(load_retrieval(folder), part), "nDCG@10"
    return _labelled(folder), "10-NN accuracy"


def _retrieval(ranking: RankingSet, part: int | None) -> Truth:
    relevant = {document for judged in ranking.judgements.values() for document, grade in judged.items() if grade > 0}
    others = [document for document in ranking.document_ids if document not in relevant]
    kept = relevant | set(np.random.default_rng(0).permutation(others)[:part].tolist() if part else others)
    ranking = replace(ranking, document_ids=[document for document in ranking.document_ids if document in kept])
    texts = dict(row for row in ranking.documents() if row[0] in kept)

    def score(encoder: SentenceEncoder) -> tuple[np.ndarray, dict[str, float]]:
        queries = encoder.encode(list(ranking.queries.values()), convert_to_tensor=True)
        best = TopK(queries, 10)
        ids = sorted(texts)
        vectors = encoder.encode([texts[document] for document in ids], convert_to_tensor=True)
        best.add(vectors, torch.arange(len(ids)))
        found = [[ids[number] for number in row] for row in best.order.tolist()]
        values = [
            ndcg([judged.get(document, 0) for document in order], list(judged.values()), 10)
            for judged, order in zip((ranking.judgements[query] for query in ranking.queries), found, strict=True)
        ]
        return 100 * np.array(values), {"documents": len(ids), "queries": len(values)}

    return score


def _labelled(folder: Path) -> Truth:
    train, test = (load_labelled_file(folder / f"{split}.csv") for split in ("train", "test"))

    def score(encoder: SentenceEncoder) -> tuple[np.ndarray, dict[str, float]]:
        from sklearn.neighbors import KNeighborsClassifier

        x, y = (encoder.encode(part.texts) for part in (train, test))
        judge = KNeighborsClassifier(_NEIGHBOURS, metric="cosine").fit(x, train.labels)
        hits = 100.0 * (judge.predict(y) == np.array(test.labels))
        (clusters,) = evaluate_clustering(encoder, [LabelledSet(folder.name, {"test": test}, "MTEB")])
        return hits, {"v-measure": clusters.main_score}

    return score


def interval(values: np.ndarray) -> tuple[float, float]:
    """95 % of the mean, by the bootstrap."""
    if np.ptp(values) == 0:
        return float(values[0]), float(values[0])
    found = scipy.stats.bootstrap((values,), np.mean, n_resamples=2000, batch=100, method="percentile", rng=0)
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def markdown(results: list[dict[str, Any]]) -> str:
    """A line for each run, and how often the verdict was right."""
    names = ("domain", "recipe", "seed", "share", "proxy, by task", "verdict", "truth before", "after", "gain", "right")
    lines = [
        [
            run["domain"], run["recipe"], str(run["seed"]), str(run["share"] or "—"),
            ", ".join(f"{gain['value']:+.1f}" for _, gain in run["proxy"]) or "—", run["verdict"],
            f"{run['before']:.1f}", f"{run['after']:.1f}",
            f"{run['gain']:+.2f} ({run['low']:+.1f} to {run['high']:+.1f})",
            ("yes" if run["right"] else "no") + (" (beyond doubt)" if run["wrong beyond doubt"] else ""),
        ]
        for run in results
    ]  # fmt: skip
    told = [run for run in results if run["verdict"] != "cannot be told"]
    exported = [run for run in told if run["verdict"] == "better"]
    worst = min((run["gain"] for run in exported), default=0.0)
    counts = (
        f"\nThe verdict was right in {sum(run['right'] for run in told)} of {len(told)} runs, wrong beyond doubt in "
        f"{sum(run['wrong beyond doubt'] for run in told)}; {len(exported)} models were exported, the worst of "
        f"them with {worst:+.2f} points of truth; {len(results) - len(told)} runs were not judged, and "
        "exported nothing.\n"
    )
    return table(names, lines, left=6) + counts


if __name__ == "__main__":
    main()
