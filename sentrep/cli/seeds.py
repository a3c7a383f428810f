"""``sentrep fit --seeds``: one recipe, its variants or a paper's table under several seeds, and their comparison."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from sentrep.cli.building import build
from sentrep.cli.compare import judge
from sentrep.cli.configuration import whole_tree
from sentrep.cli.errors import UsageError
from sentrep.cli.recipe import Tree, as_words, split
from sentrep.cli.recipes import locate
from sentrep.cli.run import prepare_parsing
from sentrep.cli.run_content import content_of
from sentrep.cli.run_folder import run_name
from sentrep.cli.tables import read_table
from sentrep.cli.words import sort_words
from sentrep.config import walk
from sentrep.data import SentRepDataModule
from sentrep.data.sets.sts import load_sts
from sentrep.errors import InputError
from sentrep.evaluation.run_scores import RECORD, SCORES, FinishedRun, pairs_frame
from sentrep.evaluation.selection import FILE
from sentrep.io.bars import progress_bar
from sentrep.io.files import hold
from sentrep.io.paths import expanded
from sentrep.io.text import printable
from sentrep.random import derive_seed

THESIS_SEEDS = (19984, 5838, 16822, 19294, 17173)
"""The thesis's seeds (section 5.2); further ones are derived."""
LOCK = "seeds.lock"
_INTERRUPTED = (130, 143)


@dataclass(frozen=True)
class Run:
    """A recipe under one seed."""

    label: str
    seed: int
    words: list[str]
    """The words after ``sentrep fit``."""
    folder: Path
    untrained: bool = False
    """Whether its encoder is scored as it is."""
    content: str = ""
    """Of the wanted run, see `content_of`."""


def train(words: list[str], how: Tree) -> int:
    """Train and test the runs that are not finished, then compare them. Return the exit status: 1 if a run failed.

    Args:
        words: of every run.
        how: ``seeds``, and ``variants`` and ``jobs`` where they are given.

    Raises:
        UsageError: for options that do not go together, or a folder with runs of something else.
    """
    jobs = how.get("jobs", "1")
    if not re.fullmatch("[1-9][0-9]*", jobs):
        raise UsageError(f"fit: --jobs {jobs}: expected a number from 1 on")
    pairs: dict[str, Any] = {}
    table, rows, place = _rows(words, how.get("variants", []))
    runs = _with_content(_planned(rows, seed_list(how["seeds"]), place), pairs)
    with hold(place / LOCK, f"fit --seeds in {place}"):
        _refuse_others(runs)
        failures = _run_all(runs, pairs, int(jobs))
        folders = {run.label: place / run.label for run in runs if (run.folder / SCORES).exists()}
        missing = sorted({run.label for run in runs} - folders.keys())
        if missing:
            raise UsageError(f"fit: every run of {', '.join(missing)} failed; see {place}/*/*/fit.log")
        judge(folders, place, table=table)
    for run, reason in failures:
        print(printable(f"{run.label}, seed {run.seed}: {reason}"), file=sys.stderr)
    return int(bool(failures))


def seed_list(text: str) -> list[int]:
    """The seeds of ``1,2,3``, or so many as one number says: the thesis's, then derived ones, always the same.

    Raises:
        UsageError: no seed is given, a seed is given twice, or a seed is not a whole number.
    """
    given = text.strip("[] ").replace(" ", "")
    found = re.fullmatch(r"\d+(,\d+)*", given)
    seeds = [int(seed) for seed in given.split(",")] if found else []
    if len(seeds) == 1:
        derived = (derive_seed("compare", number) % 2**31 for number in range(len(THESIS_SEEDS), seeds[0]))
        seeds = [*THESIS_SEEDS[: seeds[0]], *derived]
    if not seeds or len(set(seeds)) < len(seeds):
        raise UsageError(f"fit: --seeds {text}: give a number of seeds from 1 on, or different seeds, 1,2,3")
    return seeds


def _rows(words: list[str], variants: Sequence[str]) -> tuple[str | None, dict[str, tuple[list[str], bool]], Path]:
    """The table, by name the words of each row and whether it trains nothing, and the folder of all runs."""
    given, files = dict(split(words)), [value for key, value in split(words) if key == "config" and value]
    table, wanted = given.get("table"), given.get("row")
    rows: dict[str, tuple[list[str], bool]] = {}
    if table is None:
        if not files:
            raise UsageError("fit: --seeds needs a recipe, -c simcse/minilm, or a table, --table FILE")
        rows[Path(files[0]).stem] = (words, False)
        names = [locate(files[0])]
    else:
        words = [word for key, value in split(words) if key not in ("table", "row") for word in as_words(key, value)]
        for name, row in read_table(table).only(wanted.split(",") if wanted else None).rows.items():
            if row.absent is None and row.untrained != "whitened":
                pooling = row.change.get("model.encoder.pooling") if row.untrained else None  # nothing overrides it
                flags = [] if pooling is None else ["--model.encoder.pooling", pooling]
                rows[name] = (["--table", table, "--row", name, *words, *flags], bool(row.untrained))
        names = [locate(table)]
    for variant in variants:
        found = re.fullmatch(r"(\w[\w.+-]{0,99})=(.*)", variant, re.DOTALL)  # the name is used for a folder
        if not found or found[1] in rows:
            raise UsageError(
                f"fit: --variant {variant}: expected a new name of letters, digits, dots, hyphens and underscores, and "
                "flags: --variant low='--model.objectives.simcse.temperature 0.03'"
            )
        rows[found[1]] = ([*words, *shlex.split(found[2])], False)
    for label, (flags, _) in rows.items():
        if any(key in ("seed_everything", "data.seed") or key.startswith("trainer.logger") for key, _ in split(flags)):
            raise UsageError(f"fit, {label}: --seeds sets the seeds and the folder of every run; leave both out")
    root = given.get("trainer.default_root_dir") or "runs"
    return table, rows, expanded(root) / run_name(names)


def _planned(rows: Mapping[str, tuple[list[str], bool]], seeds: Sequence[int], place: Path) -> list[Run]:
    """Every run, one seed of all recipes before the next, so that an interruption leaves them balanced."""
    return [
        Run(label, seed, flags, place / label / f"seed-{seed}", untrained)
        for seed in seeds
        for label, (flags, untrained) in rows.items()
        if not untrained or seed == seeds[0]
    ]


def _with_content(runs: Sequence[Run], pairs: dict[str, Any]) -> list[Run]:
    """The runs with the content that they would have; each recipe's test pairs, by its label.

    Raises:
        InputError: names the recipe and its mistake.
    """
    prepare_parsing()
    contents: dict[str, str] = {}
    for run in {run.label: run for run in runs}.values():
        try:
            layers, flags, own = sort_words(_words(run))
            tree, _ = whole_tree("test" if run.untrained else "fit", layers, flags, {**own, "ckpt_path": None})
            if str(dict(walk(tree)).get("model.encoder.compute.compile")).lower() in ("true", "reduce-overhead"):
                raise UsageError("compiled runs do not share their noise; leave model.encoder.compute.compile out")
            data = build(SentRepDataModule, "data", tree.get("data", {}))
            if not data.test:
                raise UsageError("it has no data.test, whose scores are compared: --data.test '[sts12, stsb]'")
            pairs[run.label] = pairs_frame([load_sts(spec, data.sts_folder) for spec in data.test])
            contents[run.label] = content_of(tree, data, not run.untrained)["content"]
        except InputError as error:
            raise type(error)(f"fit, {run.label}: {error}") from None
    return [replace(run, content=contents[run.label]) for run in runs]


def _words(run: Run) -> list[str]:
    """The words of a run, with its folder and seeds. ``compile`` is off: ``auto`` would compile a long run on a GPU."""
    logger = {"save_dir": run.folder.parents[1], "name": run.label, "version": run.folder.name}
    flags = [word for key, value in logger.items() for word in (f"--trainer.logger.{key}", str(value))]
    seeds = ["--seed_everything", str(run.seed), "--data.seed", str(run.seed)]
    return ["--model.encoder.compute.compile", "false", *run.words, *flags, *seeds]


def _refuse_others(runs: Sequence[Run]) -> None:
    """Refuse to go on in the folder of a run that something else made."""
    for run in runs:
        if (run.folder / RECORD).exists() and FinishedRun(run.folder).record["content"] != run.content:
            raise UsageError(
                f"fit: {run.folder} holds a run of another text, model, setting, class or version; delete it, or "
                "choose another --trainer.default_root_dir"
            )


def _run_all(runs: Sequence[Run], pairs: dict[str, Any], jobs: int) -> list[tuple[Run, str]]:
    """Train and test the missing runs, ``jobs`` at a time. Return the runs that failed, with the reasons."""
    failures = []
    console = Console(stderr=True)
    with ThreadPoolExecutor(jobs) as pool, progress_bar(console) as bar:
        task = bar.add_task("Training", total=len(runs), note="")
        futures = {pool.submit(_train_and_test, run, pairs[run.label], jobs): run for run in runs}
        try:
            for future in as_completed(futures):
                run, reason = futures[future], future.result()
                bar.advance(task)
                console.print(printable(f"{run.label}, seed {run.seed}: {reason or 'done'}"), markup=False)
                failures += [(run, reason)] if reason else []
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return failures


def _train_and_test(run: Run, pairs: Any, jobs: int) -> str | None:
    """Train and test one run, unless both are done. Return the reason of a failure, or None."""
    if (run.folder / SCORES).exists() and FinishedRun(run.folder).is_of(pairs):
        return None
    words, chosen = _words(run), run.folder / FILE
    if not run.untrained and not chosen.exists():
        reason = _sentrep(["fit", *words, "--ckpt_path", "last", "--trainer.enable_progress_bar", "false"], run, jobs)
        if reason is not None:
            return reason
    if not run.untrained:
        checkpoint = json.loads(chosen.read_text(encoding="utf-8"))["checkpoint"]
        if checkpoint is None:
            return "it kept no checkpoint; leave the section checkpoint as it is"
        words += ["--ckpt_path", checkpoint]
    return _sentrep(["test", *words], run, jobs)


def _sentrep(words: list[str], run: Run, jobs: int) -> str | None:
    """Run a command in a process of its own. Return the reason of a failure, or None."""
    run.folder.mkdir(parents=True, exist_ok=True)
    log = run.folder / "fit.log"
    share = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // jobs))} if jobs > 1 else {}
    with log.open("ab") as output:
        command = [sys.executable, "-m", "sentrep", *words]
        done = subprocess.run(command, stdout=output, stderr=output, env={**share, **os.environ})
    if done.returncode in _INTERRUPTED:
        raise KeyboardInterrupt
    last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f"{words[0]} failed ({last[-1] if last else 'no message'}); see {log}" if done.returncode else None
