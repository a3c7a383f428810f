"""Train recipes for a few steps on a small model and print what each scored: method, STS-B dev, 7-STS mean, seconds.

    python benchmarks/recipes.py --backbone MINILM --train wiki1m.txt.xz --sts-folder SENTEVAL \\
        --json benchmarks/results/recipes_minilm.json --markdown recipes.md --plot docs/recipes.png

Each recipe is trained by ``sentrep fit`` with an override laid over it and scored by ``sentrep evaluate``, as a user
would. Recipes that need a frozen model get the backbone folder for it, which brings its own pooling. What --json holds
already is not run again: an interrupted run goes on, and a run with another --seed adds to it. Seconds are those of the
whole command `sentrep fit`, start and validation included.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import mean
from typing import Any

import inputs
import yaml
from rich.console import Console
from rich.progress import Progress

from sentrep.cli.paper_tables import read_table
from sentrep.evaluation.report import plain_table

CONFIGS = Path(__file__).resolve().parents[1] / "configs"
FAMILIES = ("thesis", "gs_infonce", "dclr")
SEVEN = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")
DEV = "stsb-dev"
WHITENED = "untrained, CLS, whitened"
UNTRAINED = ("untrained, CLS", WHITENED)
WHITENING_SENTENCES = 20_000
BATCH_SIZE = "64"
"""For DCLR, whose own batches are larger: at so few steps rows compare only when they see as many sentences."""

Record = dict[str, Any]


def main() -> None:
    """Run what is missing, then print everything."""
    options = _options()
    records: list[Record] = json.loads(options.json.read_text()) if options.json.exists() else []
    done = {(record["recipe"], record["seed"]) for record in records}
    tasks = [(name, seed) for seed in options.seed for name in [*UNTRAINED, *_recipes(options)]]
    missing = [task for task in tasks if task not in done and not (task[0] in UNTRAINED and task[1] != options.seed[0])]
    environment = {**os.environ, "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // options.jobs))}
    with Progress(console=Console(stderr=True)) as progress, ThreadPoolExecutor(options.jobs) as pool:
        bar = progress.add_task("recipes", total=len(missing))
        for record in pool.map(lambda task: _measure(*task, options, environment), missing):
            records.append(record)
            _write(options.json, json.dumps(records, indent=1) + "\n")
            progress.advance(bar)
            progress.print(f"{record['recipe']}: {record['scores'][DEV]:.2f}")
    rows = _rows(records)
    _print(rows)
    if options.markdown:
        _write(options.markdown, _markdown(rows))
    if options.plot:
        _plot(rows, options.plot)


def frozen_models(tree: Any, path: str = "") -> Iterator[str]:
    """The dotted keys under which a configuration names a frozen encoder: a plug-in's argument ``model``."""
    if not isinstance(tree, dict):
        return
    if "class_path" in tree:
        if "model" in tree.get("init_args", {}):
            yield f"{path}.model"
        tree = tree.get("init_args", {})
    for key, value in tree.items():
        yield from frozen_models(value, f"{path}.{key}" if path else key)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", required=True, help="model folder")
    parser.add_argument("--train", required=True, help="corpus, one sentence a line")
    parser.add_argument("--sts-folder", required=True, help="SentEval's data folder")
    parser.add_argument("--override", default=str(CONFIGS / "overrides" / "minilm.yaml"), help="laid over every recipe")
    parser.add_argument("--recipes", nargs="+", help=f"such as thesis/sam; by default all of {', '.join(FAMILIES)}")
    parser.add_argument("--seed", nargs="+", type=int, default=[19984])
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32", help="of training and evaluation")
    parser.add_argument("--jobs", type=int, default=1, help="recipes at a time; each gets its share of the cores")
    parser.add_argument("--json", type=Path, required=True, help="every score, and what is done already")
    parser.add_argument("--markdown", type=Path, help="write the table here")
    parser.add_argument("--plot", type=Path, help="draw the table here")
    return parser.parse_args()


def _recipes(options: argparse.Namespace) -> list[str]:
    """Names such as ``thesis/sam``, baseline first."""
    names = options.recipes or [name for name in words_and_trees() if name.split("/")[0] in FAMILIES]
    return sorted(names, key=lambda name: name != "thesis/simcse")


@functools.cache
def words_and_trees() -> dict[str, tuple[list[str], Any]]:
    """By name: what ``sentrep fit`` takes a recipe or row by, and its settings. Backbones are all one here."""
    found: dict[str, tuple[list[str], Any]] = {}
    for file in sorted(CONFIGS.glob("*/*.yaml")):
        found[f"{file.parent.name}/{file.stem}"] = ["-c", str(file)], yaml.safe_load(file.read_text(encoding="utf-8"))
    for file in sorted(CONFIGS.glob("*/tables/*.yaml")):
        if file.stem != "backbones":
            for name, row in read_table(str(file)).rows.items():
                words = ["--table", str(file), "--row", name]
                if row.absent is None and not row.untrained:
                    found.setdefault(f"{file.parents[1].name}/{name}", (words, row.tree))
    return found


def _measure(recipe: str, seed: int, options: argparse.Namespace, environment: dict[str, str]) -> Record:
    """Train and score one recipe."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        if recipe in UNTRAINED:
            model, flags = options.backbone, ["--pooling", "cls"]
            if recipe == WHITENED:
                sample = inputs.write_sentences(options.train, WHITENING_SENTENCES, Path(folder, "sample.txt"))
                flags += ["--whiten", sample]
        else:
            _run(_fit(recipe, seed, options, folder), environment)
            (model,), flags = (str(path) for path in Path(folder).glob("*/version_0/model")), []
        seconds = time.perf_counter() - start
        output = f"{folder}/scores.json"
        sets = f"[{','.join((DEV, *SEVEN))}]"
        flags += ["--sets", sets, "--folder", options.sts_folder, "--compute.precision", options.precision]
        _run(["evaluate", model, *flags, "--output", output], environment)
        results = json.loads(Path(output).read_text())["results"]
    return {
        "recipe": recipe,
        "seed": seed,
        "precision": options.precision,
        "seconds": round(seconds, 1) if recipe not in UNTRAINED else None,
        "scores": {result["name"]: round(result["spearman"], 2) for result in results},
    }


def _fit(recipe: str, seed: int, options: argparse.Namespace, folder: str) -> list[str]:
    chosen, tree = words_and_trees()[recipe]
    frozen = [word for key in frozen_models(tree) for word in (f"--{key}", options.backbone)]
    return [
        *("fit", *chosen, "-c", options.override, "--seed_everything", str(seed)),
        *("--model.encoder.backbone", options.backbone, "--data.train", options.train),
        *("--data.sts_folder", options.sts_folder, "--trainer.logger.save_dir", folder, *frozen),
        *(("--data.batch_size", BATCH_SIZE) if recipe.startswith("dclr/") else ()),
        *("--trainer.precision", {"fp32": "32-true", "bf16": "bf16-mixed"}[options.precision]),
        *("--trainer.enable_progress_bar", "false", "--trainer.enable_model_summary", "false"),
    ]


def _run(words: list[str], environment: dict[str, str]) -> None:
    command = [sys.executable, "-c", "import sys; from sentrep.cli import main; sys.exit(main())", *words]
    finished = subprocess.run(command, env=environment, capture_output=True, text=True)
    if finished.returncode:
        raise SystemExit(f"sentrep {' '.join(words)}\nfailed:\n{finished.stderr[-3000:]}")


def _rows(records: list[Record]) -> list[Record]:
    """One row per recipe: means over the seeds."""
    rows = []
    for recipe in dict.fromkeys(record["recipe"] for record in records):
        own = [record for record in records if record["recipe"] == recipe]
        seconds = [record["seconds"] for record in own if record["seconds"] is not None]
        rows.append(
            {
                "recipe": recipe,
                "seeds": len(own),
                "dev": mean(record["scores"][DEV] for record in own),
                "mean": mean(mean(record["scores"][name] for name in SEVEN) for record in own),
                "seconds": mean(seconds) if seconds else None,
            }
        )
    return rows


def _cells(row: Record) -> list[str]:
    seconds = "" if row["seconds"] is None else f"{row['seconds']:.0f}"
    return [row["recipe"], str(row["seeds"]), f"{row['dev']:.2f}", f"{row['mean']:.2f}", seconds]


_COLUMNS = ("recipe", "seeds", "STS-B dev", "7-STS mean", "seconds")


def _print(rows: list[Record]) -> None:
    table = plain_table(*_COLUMNS)
    for row in rows:
        table.add_row(*_cells(row))
    Console().print(table)


def _markdown(rows: list[Record]) -> str:
    lines = [_COLUMNS, ["---", *["---:"] * (len(_COLUMNS) - 1)], *map(_cells, rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _plot(rows: list[Record], target: Path) -> None:
    """A point per recipe, best at the top, with the SimCSE baseline as a line."""
    import matplotlib.pyplot as plt

    ordered = sorted(rows, key=lambda row: row["mean"])
    figure, axes = plt.subplots(figsize=(7, 0.22 * len(rows) + 1), layout="constrained")
    names = [row["recipe"] for row in ordered]
    axes.scatter([row["dev"] for row in ordered], names, s=18, marker="D", color="0.65", label="STS-B dev")
    axes.scatter([row["mean"] for row in ordered], names, s=24, color="C0", label="mean of the seven STS sets")
    baseline = [row["mean"] for row in rows if row["recipe"] == "thesis/simcse"]
    if baseline:
        axes.axvline(baseline[0], color="C0", linewidth=0.8, linestyle="--", label="SimCSE, same mean")
    axes.set_xlabel("Spearman × 100")
    axes.grid(axis="x", alpha=0.3)
    axes.tick_params(axis="y", labelsize=8)
    axes.legend(loc="lower right", fontsize=8)
    figure.savefig(target, dpi=120)


def _write(target: Path, text: str) -> None:
    """Whole or not at all: an interrupted run keeps what it had."""
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(target.name + ".part")
    beside.write_text(text, encoding="utf-8")
    beside.replace(target)


if __name__ == "__main__":
    main()
