"""How often does `sentrep compare` see a difference where there is none? One recipe against itself under other seeds.

    sentrep compare -c RECIPE.yaml --seeds 20 --sets '[stsb]' --output same
    python benchmarks/comparison_with_itself.py same/RECIPE [--tries 10] [--seeds 5] [--json results.json]

Each try draws two groups of runs, without overlap, from all runs of the recipe and compares them as two recipes. Tries
share runs, so they are not independent; with more runs they are less dependent.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

import numpy as np

from sentrep.evaluation.comparison import Comparison


def main() -> None:
    """Print each try and the verdicts' counts."""
    options = _options()
    runs = sorted(options.folder.glob("seed-*/scores.npz"))
    if len(runs) < 2 * options.seeds:
        raise SystemExit(f"{options.folder}: {len(runs)} finished runs; {2 * options.seeds} are needed")
    rng = np.random.default_rng(0)
    tries = []
    print("| try | difference | 95 % interval | p | verdict |\n| ---: | ---: | --- | ---: | --- |")
    for number in range(1, options.tries + 1):
        drawn = rng.choice(len(runs), 2 * options.seeds, replace=False)
        groups = {"first": drawn[: options.seeds], "second": drawn[options.seeds :]}
        comparison = Comparison.read(
            {name: {int(row): runs[row] for row in rows} for name, rows in groups.items()}, 1000
        )
        found = comparison.differences["second"]
        tries.append(
            {"mean": found.mean, "low": found.low, "high": found.high, "p": found.p_value, "verdict": found.verdict}
        )
        interval = f"[{found.low:+.2f}, {found.high:+.2f}]"
        print(f"| {number} | {found.mean:+.2f} | {interval} | {found.p_value:.3f} | {found.verdict} |", flush=True)
    counts = Counter(one["verdict"] for one in tries)
    print(", ".join(f"{verdict}: {count} of {options.tries}" for verdict, count in counts.items()))
    if options.json is not None:
        options.json.write_text(json.dumps({"runs": len(runs), "tries": tries}, indent=2) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="of the recipe in the comparison's output")
    parser.add_argument("--tries", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=5, help="runs in each group")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
