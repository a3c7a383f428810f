"""The plan of a comparison, its checks before the first run trains, and its report."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rich.console import Console

from sentrep.cli.building import build
from sentrep.cli.errors import UsageError
from sentrep.cli.fit import sort_words
from sentrep.cli.recipe import Tree, merged, with_flags
from sentrep.cli.recipes import locate
from sentrep.cli.run import prepare_parsing
from sentrep.cli.run_content import content_of, pairs_of
from sentrep.cli.run_folder import version_of
from sentrep.cli.seeded_runs import Run, Wanted, tree_of, untrained_encoder
from sentrep.cli.tables import Table
from sentrep.config import walk
from sentrep.data import SentRepDataModule
from sentrep.data.sets.sts import not_at_hand
from sentrep.distributed import derive_seed
from sentrep.errors import InputError
from sentrep.evaluation.comparison import Comparison, Format
from sentrep.evaluation.history import METRICS, dose
from sentrep.evaluation.published import UNPUBLISHED, Published
from sentrep.evaluation.suites import load_suite
from sentrep.io.files import write_text
from sentrep.io.text import printable
from sentrep.module import SentRepModule

LOCK = "comparison.lock"
"""The file in the output folder that stands for a process which compares there; its runs have locks of their own."""
THESIS_SEEDS = (19984, 5838, 16822, 19294, 17173)
"""The thesis's seeds (section 5.2); further ones are derived."""


def seed_list(seeds: int | list[int]) -> list[int]:
    """The seeds themselves, where a number of them is given.

    Raises:
        UsageError: there is none.
    """
    if seeds == [] or (isinstance(seeds, int) and seeds < 1):
        raise UsageError(f"compare: --seeds {seeds}: give a number of seeds, or a list of them")
    if isinstance(seeds, list):
        return seeds
    derived = (derive_seed("compare", number) % 2**31 for number in range(len(THESIS_SEEDS), seeds))
    return [*THESIS_SEEDS[:seeds], *derived]


def plan(
    rows: Sequence[tuple[str, str, list[str]]],
    folder: Path,
    seeds: int | list[int],
    vary: str = "both",
    over: Sequence[str] = (),
    untrained: Mapping[str, bool | str] = MappingProxyType({}),
) -> list[Run]:
    """Every run, one seed of all recipes before the next, so that an interrupted comparison is balanced.

    A row that trains nothing is the same under every seed, and runs once.

    Args:
        rows: of each its name, its recipe, and its words after ``sentrep fit``.
        folder: of the comparison.
        seeds: how many, or which.
        vary: the effect of a seed: ``order``, ``noise`` or ``both``.
        over: files that override every recipe.
        untrained: by name, see `Run`.

    Raises:
        UsageError: two runs have the same name.
    """
    runs, all_seeds = [], seed_list(seeds)
    for seed in all_seeds:
        noise, order = (all_seeds[0] if vary == fixed else seed for fixed in ("order", "noise"))
        seeding = ["--seed_everything", str(noise), "--data.seed", str(order)]
        for label, recipe, own in rows:
            kind = untrained.get(label, False)
            if not kind or seed == all_seeds[0]:
                files = [word for file in (recipe, *over) for word in ("-c", locate(file))]
                runs.append(Run(label, seed, [*files, *own, *seeding], folder / label / f"seed-{seed}", kind))
    if len({run.folder for run in runs}) < len(runs):
        names = ", ".join(f"{label} ({recipe})" for label, recipe, _ in rows)
        raise UsageError(f"compare: two runs have the same name; rename one of {names}, or give each seed once")
    return runs


def headline(runs: Sequence[Run], table: Table | None) -> str:
    """The first printed line: the rows, the seeds and the baseline."""
    labels = dict.fromkeys(run.label for run in runs)
    first = next(iter(labels)) if table is None else table.first
    others = [label for label in labels if label != first]
    seeds = len({run.seed for run in runs})
    if not others:
        return f"{first} alone, {seeds} seeds; name more recipes (-c) or variants (--variant) to compare it with"
    return f"{len(labels)} rows, each trained by itself, {seeds} seeds: {', '.join(others)} against {first}"


def check(runs: Sequence[Run], folder: Path, wanted: Wanted, table: Table | None) -> list[Run]:
    """Find what every run would end with before the first one has trained; write the recipes of a table.

    Returns:
        The runs, with the hashes of their text, models, classes and pairs.

    Raises:
        InputError: names the recipe and its mistake, or the output that is of something else.
    """
    reports = sorted(folder.glob("report*.*"))
    if reports and not any(folder.glob("*/seed-*/settings*.json")):
        raise UsageError(f"compare: {reports[0]} would be replaced, and is of no comparison; choose another --output")
    if table is not None:
        for path, content in table.recipes(folder / "recipes").items():
            write_text(path, content)
    behind = check_runs(runs, wanted)
    return [replace(run, content=behind[run.label][0], pairs=behind[run.label][1]) for run in runs]


def check_runs(runs: Sequence[Run], wanted: Wanted) -> dict[str, tuple[str, str]]:
    """Check each recipe, once for all seeds, and open the models of those whose runs are not all scored yet.

    Returns:
        By recipe the hashes of `content_of` and `pairs_of`.

    Raises:
        InputError: names the recipe and its mistake.
    """
    prepare_parsing()
    left = {run.label for run in runs if not (run.folder / wanted.scores).exists()}
    read: list[tuple[Run, Tree]] = []
    for run in {run.label: run for run in runs}.values():
        with _naming(run):
            read.append((run, _read(run)))
    opened: dict[str, str] = {}
    behind: dict[str, tuple[str, str]] = {}
    for run, tree in read:
        with _naming(run):
            sets = wanted.request_for(tree.get("data", {}))
            if str(sets) not in opened and (run.label in left or not wanted.suffix):  # a benchmark's take minutes
                opened[str(sets)] = pairs_of(load_suite(wanted.suite, sets))
            data = build(SentRepDataModule, "data", tree.get("data", {}))
            if run.label in left:
                _open(run, tree, data)
            behind[run.label] = content_of(tree, data, run.untrained is not True), opened.get(str(sets), "")
    return behind


@contextmanager
def _naming(run: Run) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise type(error)(f"compare, {run.label}: {error}") from None


def _read(run: Run) -> Tree:
    tree = tree_of(run)
    if str(dict(walk(tree)).get("model.encoder.compute.compile")).lower() in ("true", "reduce-overhead"):
        raise UsageError(
            "it compiles its passes (model.encoder.compute.compile), and compiled rows do not share their noise; leave "
            "compile out"
        )
    return tree


def _open(run: Run, tree: Tree, data: SentRepDataModule) -> None:
    """Open the training text, the development sets and the models of a run."""
    if run.untrained is not True:
        next(iter(data.text().rows), None)
    if run.untrained:
        untrained_encoder(run, tree)
        return
    missing = not_at_hand(data.val) if data.sts_folder is None else {}  # a run trains without them
    data.val = [spec for spec in data.val if str(spec) not in missing]
    if data.val:
        data.setup("validate")
    if not any("ckpt_path" in word for word in run.words):  # which changes the model that is built
        build(SentRepModule, "model", tree["model"]).load_frozen()


def published(table: Table) -> Published:
    """The published numbers of a table's rows."""
    return Published(
        table.title,
        table.metric,
        {name: row.published for name, row in table.rows.items()},
        {name: row.sets for name, row in table.rows.items()},
        [name for name, row in table.rows.items() if row.untrained],
        table.first,
    )


def report(
    runs: Sequence[Run], folder: Path, wanted: Wanted, table: Table | None, about: Tree, format: Format | None
) -> None:
    """Print and write the comparison.

    Raises:
        UsageError: every run of some recipe failed.
    """
    scored: dict[str, dict[int, Path]] = {run.label: {} for run in runs}
    for run in runs:
        if (run.folder / wanted.scores).exists():
            scored[run.label][run.seed] = run.folder / wanted.scores
    if missing := [label for label, files in scored.items() if not files]:
        raise UsageError(f"compare: every run of {', '.join(missing)} failed; see {folder}/*/*/fit.log")
    comparison = Comparison.read(scored, published(table) if table else UNPUBLISHED, _doses(runs))
    if format is None:
        comparison.print(Console())
    else:
        print(comparison.text(format), end="")
    name = f"report{wanted.suffix}"
    comparison.write(folder, {**_about(runs, wanted.suite), **about}, name)
    print(printable(f"report: {folder / name}.md"), file=sys.stderr)


def _doses(runs: Sequence[Run]) -> dict[str, float]:
    """The mean dose of each recipe that drew negatives, over its seeds."""
    found: dict[str, list[float]] = {}
    for run in runs:
        files = sorted(run.folder.glob(f"*/version_*/{METRICS}"), key=lambda path: version_of(path.parent))
        if files and (share := dose(files[-1])) is not None:
            found.setdefault(run.label, []).append(share)
    return {label: sum(shares) / len(shares) for label, shares in found.items()}


def _about(runs: Sequence[Run], suite: str) -> dict[str, Any]:
    """Seeds, model and sizes of the runs, for the JSON; a folder by its name, without its path."""
    layers, flags, _ = sort_words(runs[0].words)
    tree = with_flags(merged(content for _, content in layers), flags)
    backbone = tree.get("model", {}).get("encoder", {}).get("backbone")
    return {
        "seeds": list(dict.fromkeys(run.seed for run in runs)),
        "suite": suite,
        "backbone": Path(backbone).name if isinstance(backbone, str) else None,
        "max_steps": tree.get("trainer", {}).get("max_steps"),
        "batch_size": tree.get("data", {}).get("batch_size"),
    }
