"""How often does the 95 % interval of a difference contain the true difference? Simulated runs, for docs/comparing.md.

    python benchmarks/coverage.py                       # print the table, in ten minutes on one core
    python benchmarks/coverage.py --write               # and write it into results/coverage.md
    python benchmarks/coverage.py --simulations 200     # fewer simulations, in some seconds

Every simulation draws two sets of 200 sentence pairs, seeds, and the cosines of two recipes, one of which is better.
A cosine follows the gold score, more closely under some seeds than under others, with noise of its pair that both
recipes have, noise of its pair that one recipe has under every seed (`PAIR_NOISE`), and noise of its own. In the last
rows 15 % of the better recipe's runs collapse: their cosines hardly follow the gold score.
The true difference is the mean over all simulations. A second table has the power of the test for equality.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator

import numpy as np
from reproduction import ROOT, between
from tables import table

from sentrep.evaluation.significance import LEVEL, MARGIN, RecipeScores, compare

PAGE = ROOT / "benchmarks" / "results" / "coverage.md"
START = "<!-- generated: python benchmarks/coverage.py --write -->"
EQUAL = "<!-- equality: python benchmarks/coverage.py --write -->"
COLUMNS = (
    "noise of pairs in one recipe",
    "runs that collapse",
    "seeds",
    "paired by seed",
    "coverage",
    "of an interval over seeds alone",
)
POWER = ("deviation of the differences", "seeds", "equal, where there is no difference", "equal, at the margin")
DEVIATIONS = (0.1, 0.2, 0.4)
"""Standard deviations of the differences seed by seed, in points."""
SEEDS = (3, 5, 10)
PAIR_NOISE = {"none": 0.0, "some": 0.2, "large": 1.0}
"""Standard deviations; gold scores have 1."""
PAIRS = 200
COLLAPSE = 0.15
"""Share of one recipe's runs, in the last rows."""


def main() -> None:
    """Print the table; write it into the record with ``--write``."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--simulations", type=int, default=4000, help="of each row")
    parser.add_argument("--write", action="store_true", help="write the table into the record")
    options = parser.parse_args()
    lines = []
    for noise, collapse, seeds, paired, *shares in rows(options.simulations):
        known = [noise, f"{100 * collapse:.0f} %", str(seeds), "yes" if paired else "no"]
        lines.append([*known, *(f"{100 * share:.1f} %" for share in shares)])
        print(*lines[-1], sep="\t", flush=True)
    powers = []
    for deviation, seeds in itertools.product(DEVIATIONS, SEEDS[1:]):
        shares = (equality(true, deviation, seeds, options.simulations) for true in (0.0, MARGIN))
        powers.append([str(deviation), str(seeds), *(f"{100 * share:.0f} %" for share in shares)])
        print(*powers[-1], sep="\t", flush=True)
    if options.write:
        page = between(PAGE.read_text(encoding="utf-8"), START, [f"\n{table(COLUMNS, lines)}"])
        PAGE.write_text(between(page, EQUAL, [f"\n{table(POWER, powers)}"]), encoding="utf-8")


def equality(true: float, deviation: float, seeds: int, simulations: int) -> float:
    """How often recipes whose true difference is ``true`` points are found equal, paired by seed."""
    rng = np.random.default_rng([int(100 * true), int(100 * deviation), seeds])
    found = 0
    for _ in range(simulations):
        scores = rng.normal(70, 1, seeds)
        runs = (scores + rng.normal(true, deviation, seeds), scores)
        recipe, baseline = (RecipeScores(tuple(range(seeds)), scores={"set": one}) for one in runs)
        p_equal = compare(recipe, baseline).p_equal
        found += p_equal is not None and p_equal < LEVEL
    return found / simulations


def rows(simulations: int) -> Iterator[tuple[str, float, int, bool, float, float]]:
    """Noise, share of collapsed runs, number of seeds, pairing, and what `coverage` finds."""
    kinds = [(*kind, 0.0) for kind in itertools.product(PAIR_NOISE, SEEDS, (True, False))]
    for noise, seeds, paired, collapse in [*kinds, *(("none", seeds, True, COLLAPSE) for seeds in SEEDS)]:
        yield noise, collapse, seeds, paired, *coverage(PAIR_NOISE[noise], seeds, paired, simulations, collapse)


def coverage(noise: float, seeds: int, paired: bool, simulations: int, collapse: float = 0.0) -> tuple[float, float]:
    """How often the interval contains the true difference, and how often one does that knows no pairs."""
    rng = np.random.default_rng([int(100 * noise), seeds, paired])
    means, halves = [], []
    for _ in range(simulations):
        recipes = simulated_recipes(rng, noise, seeds, paired, collapse)
        found = compare(*recipes)
        alone = compare(*(RecipeScores(one.seeds, scores=one.by_set) for one in recipes))
        means.append(found.mean)
        halves.append([(one.high or 0.0) - one.mean for one in (found, alone)])
    errors = np.abs(np.array(means) - np.mean(means))
    whole, part = (errors[:, None] <= np.array(halves)).mean(axis=0).tolist()
    return whole, part


def simulated_recipes(
    rng: np.random.Generator, noise: float, seeds: int, paired: bool, collapse: float = 0.0
) -> list[RecipeScores]:
    """A better recipe and its baseline on newly drawn pairs, under the same seeds or under others."""
    gold = {name: rng.normal(size=PAIRS) for name in ("first", "second")}
    of_pair = {name: rng.normal(0, 0.5, PAIRS) for name in gold}
    of_seed = rng.normal(0, 0.1, seeds)
    recipes = []
    for number, quality in enumerate((1.1, 1.0)):
        shared = of_seed if paired else rng.normal(0, 0.1, seeds)
        slope = (quality + shared + rng.normal(0, 0.1, seeds))[:, None]
        if collapse and not number:
            slope[rng.random(seeds) < collapse] = 0.0
        cosines = {
            name: slope * scores + of_pair[name] + rng.normal(0, noise, PAIRS) + rng.normal(0, 0.2, (seeds, PAIRS))
            for name, scores in gold.items()
        }
        recipes.append(RecipeScores(tuple(range(seeds) if paired else range(number, number + seeds)), cosines, gold))
    return recipes


if __name__ == "__main__":
    main()
