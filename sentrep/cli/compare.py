"""``sentrep compare``: several recipes, each under several seeds, and what the difference is worth."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rich.console import Console

from sentrep import checks
from sentrep.cli.compare_checks import check_runs
from sentrep.cli.compare_words import Options, Words
from sentrep.cli.configuration import parse_request, with_flags
from sentrep.cli.errors import UsageError
from sentrep.cli.paper_tables import Table, read_table, write_recipes
from sentrep.cli.recipes import locate
from sentrep.cli.seeded_runs import Run, Wanted, has_results, train_all
from sentrep.cli.trainer import prepare_parsing
from sentrep.distributed import derive_seed
from sentrep.errors import InputError
from sentrep.evaluation.comparison import Comparison
from sentrep.evaluation.published import Published
from sentrep.evaluation.suites import Request
from sentrep.io.files import hold, remove_leftovers
from sentrep.io.paths import check_target
from sentrep.reports.text import printable

LOCK = "comparison.lock"
"""The file in the output folder that stands for a process which compares there; its runs have locks of their own."""
THESIS_SEEDS = (19984, 5838, 16822, 19294, 17173)
"""The thesis's seeds (section 5.2); further ones are derived."""


def carry_out(mine: Words, chosen: Options) -> int:
    """Train, score and report what was asked for; the exit status is 1 when some run failed."""
    try:
        table = chosen_table(mine, chosen)
        runs = plan(mine, chosen, {} if table is None else {name: row.untrained for name, row in table.rows.items()})
    except InputError as error:
        raise UsageError(str(error)) from None
    _check(runs, chosen, table)
    with hold(chosen.place / LOCK, f"the comparison in {chosen.output}"):
        remove_leftovers(chosen.place)
        print(printable(_competitors(runs, None if table is None else table.baseline)), file=sys.stderr)
        failures = train_all(runs, _wanted(chosen), chosen.jobs)
        return _report(runs, failures, chosen, table)


def _wanted(chosen: Options) -> Wanted:
    """What the runs are scored on."""
    return Wanted(chosen.suite, Request(chosen.sets, None, chosen.split, chosen.columns))


def chosen_table(words: Words, chosen: Options) -> Table | None:
    """The table of ``--table`` with the rows of ``--rows``, whose files in the output folder become the recipes."""
    if chosen.table is None:
        if chosen.rows or chosen.adapt:
            raise UsageError("compare: --rows and --adapt need the file of the rows: --table FILE")
        return None
    if words.recipes or words.variants or sum(word == "--table" for word in words.own) > 1:
        raise UsageError("compare: give one --table, or recipes by -c; --over '[FILE]' lays files over every row")
    table = read_table(chosen.table)
    table = table if chosen.rows is None else table.only(chosen.rows)
    table = table if chosen.adapt is None else table.adapt(chosen.adapt)
    words.recipes = [str(path) for path in table.recipes(chosen.place / "recipes")]
    if not words.recipes:
        raise UsageError(f"compare: {chosen.table} has nothing to run in these rows: all are absent")
    return table


def _check(runs: list[Run], chosen: Options, table: Table | None) -> None:
    """Find what every run would end with before the first one has trained."""
    check_target(chosen.output, folder=True)
    reports = sorted(chosen.place.glob("report*.*"))
    if reports and not any(chosen.place.glob("*/seed-*/settings*.json")):
        raise UsageError(f"compare: {reports[0]} would be replaced, and is of no comparison; choose another --output")
    prepare_parsing()
    if table is not None:
        done = {run.parent.name for run in chosen.place.glob("*/seed-*") if has_results(run)}
        write_recipes(table.recipes(chosen.place / "recipes"), done)
    check_runs(runs, _wanted(chosen))


def _competitors(runs: list[Run], baseline: str | None = None) -> str:
    """What is compared with what, as the first line says it."""
    labels = dict.fromkeys(run.label for run in runs)
    first = baseline or next(iter(labels))
    others = [label for label in labels if label != first]
    seeds = len({run.seed for run in runs})
    if not others:
        return f"{first} alone, {seeds} seeds; name more recipes (-c) or variants (--variant) to compare it with"
    return f"{len(others) + 1} rows, each trained by itself, {seeds} seeds: {', '.join(others)} against {first}"


def seed_list(seeds: int | list[int]) -> list[int]:
    """The seeds themselves, where a number of them is given."""
    if isinstance(seeds, list):
        if len(set(seeds)) < len(seeds) or not seeds:
            raise UsageError(f"compare: seeds must be different numbers, got {seeds}")
        for seed in seeds:
            checks.whole("compare", 0, 2**32 - 1, seeds=seed)
        return seeds
    checks.whole("compare", 1, 10_000, seeds=seeds)
    derived = (derive_seed("compare", number) % 2**31 for number in range(len(THESIS_SEEDS), seeds))
    return [*THESIS_SEEDS[:seeds], *derived]


def plan(words: Words, chosen: Options, untrained: Mapping[str, bool | str] = MappingProxyType({})) -> list[Run]:
    """Every run, one seed of all recipes before the next, so that an interrupted comparison is balanced.

    What trains nothing is the same under every seed, and is run once.
    """
    seeds = seed_list(chosen.seeds)
    stems = [Path(recipe).stem for recipe in words.recipes]
    runs = []
    for seed in seeds:
        noise, order = (seeds[0] if chosen.vary == fixed else seed for fixed in ("order", "noise"))
        seeding = ["--seed_everything", str(noise), "--data.seed", str(order)]
        rows: list[tuple[str, str, list[str]]] = []
        for recipe, stem in zip(words.recipes, stems, strict=True):
            if untrained.get(stem) and seed != seeds[0]:
                continue
            rows.append((stem if stems.count(stem) == 1 else f"{Path(recipe).parent.name}-{stem}", recipe, []))
        rows += [(name, words.recipes[0], own) for name, own in words.variants.items()]
        for label, recipe, own in rows:
            files = [word for file in (recipe, *(chosen.over or [])) for word in ("-c", locate(file))]
            folder = chosen.place / label / f"seed-{seed}"
            what = untrained.get(label, False)
            runs.append(Run(label, seed, [*files, *words.shared, *own, *seeding], folder, what))
    if len({run.folder for run in runs}) < len(runs):
        named = ", ".join([*words.recipes, *words.variants])
        raise UsageError(f"compare: two recipes have the same name; rename one of {named}")
    return runs


def published(table: Table) -> Published:
    """The published numbers of a table's rows."""
    return Published(
        table.title,
        table.metric,
        {name: row.published for name, row in table.rows.items()},
        {name: row.sets for name, row in table.rows.items()},
        table.seeds,
        {name: row.reading_of for name, row in table.rows.items() if row.reading_of is not None},
        [name for name, row in table.rows.items() if row.untrained],
        table.baseline,
    )


def _about(runs: list[Run], chosen: Options) -> dict[str, Any]:
    """What was run, for the JSON; of files and folders only their names, which is what a reader elsewhere can use."""
    request = parse_request(runs[0].words)
    tree = with_flags(request.tree, request.flags)
    backbone = tree.get("model", {}).get("encoder", {}).get("backbone")
    return {
        "seeds": list(dict.fromkeys(run.seed for run in runs)),
        "suite": chosen.suite,
        "over": [Path(file).stem for file in chosen.over or []],
        "adapt": {
            key: Path(value).name if isinstance(value, str) else value for key, value in (chosen.adapt or {}).items()
        },
        "backbone": Path(backbone).name if isinstance(backbone, str) else None,
        "max_steps": tree.get("trainer", {}).get("max_steps"),
        "batch_size": tree.get("data", {}).get("batch_size"),
    }


def _report(runs: list[Run], failures: dict[tuple[str, int], str], chosen: Options, table: Table | None) -> int:
    """Print and write the comparison; the exit status tells of runs that failed."""
    wanted = _wanted(chosen)
    scored: dict[str, dict[int, Path]] = {run.label: {} for run in runs}
    for run in runs:
        if (run.folder / wanted.scores).exists():
            scored[run.label][run.seed] = run.folder / wanted.scores
    if missing := [label for label, files in scored.items() if not files]:
        raise UsageError(f"compare: every run of {', '.join(missing)} failed; see {chosen.output}/*/*/fit.log")
    comparison = Comparison.read(scored, published(table) if table else None)
    if chosen.format is None:
        comparison.print(Console())
    else:
        print(comparison.text(chosen.format), end="")
    name = f"report{wanted.suffix}"
    comparison.write(chosen.place, _about(runs, chosen), name)
    for (label, seed), reason in failures.items():
        print(printable(f"{label}, seed {seed}: {reason}"), file=sys.stderr)
    print(printable(f"report: {chosen.place / name}.md"), file=sys.stderr)
    return int(bool(failures))
