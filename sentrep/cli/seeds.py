"""``sentrep fit --seeds``: one recipe, its variants or a paper's table under several seeds, and their comparison."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd

from sentrep.cli.compare import judge
from sentrep.cli.errors import UsageError
from sentrep.cli.recipes import locate
from sentrep.cli.run_content import content_and_pairs
from sentrep.cli.run_folder import run_name
from sentrep.cli.tables import LABEL, read_table
from sentrep.cli.words import OF_SEEDS, Pairs, split
from sentrep.errors import InputError
from sentrep.evaluation.run_scores import RECORD, SCORES, FinishedRun
from sentrep.evaluation.selection import FILE
from sentrep.evaluation.significance import MARGIN
from sentrep.io.files import hold, remove_leftovers
from sentrep.io.paths import expanded
from sentrep.random import derive_seed

THESIS_SEEDS = (19984, 5838, 16822, 19294, 17173)
"""The thesis's seeds (section 5.2); further ones are derived."""
LOCK = "seeds.lock"
_INTERRUPTED = (130, 143)
_EAGER = ("model.encoder.compute.compile", "false")
"""``auto`` would compile a long run on a GPU."""
_Rows = Mapping[str, tuple[Pairs, bool]]
"""By name the options of a recipe, and whether its encoder is scored as it is, without training."""


@dataclass(frozen=True)
class Run:
    """A recipe under one seed."""

    label: str
    seed: int
    folder: Path
    words: list[str]
    """The words after ``sentrep fit``."""
    untrained: bool
    content: str
    """The hash that it will have, see `content_of`."""
    pairs: pd.DataFrame
    """Of its test sets, see `pairs_frame`."""


def train(pairs: Pairs) -> int:
    """Train and test the runs that are not finished, then compare them. Return the exit status: 1 if a run failed.

    Args:
        pairs: the options of ``fit``, ``--seeds`` among them.

    Raises:
        UsageError: for options that do not go together, or a folder with runs of something else.
    """
    given = {key: value or "" for key, value in pairs}
    jobs = given.get("jobs", "1")
    if not re.fullmatch("[1-9][0-9]*", jobs):
        raise UsageError(f"fit: --jobs {jobs}: expected a number from 1 on")
    variants = [value or "" for key, value in pairs if key == "variant"]
    table, rows, place = _rows([_EAGER, *(pair for pair in pairs if pair[0] not in OF_SEEDS)], variants)
    runs, failed = _runs(rows, seed_list(given["seeds"]), place), False
    with hold(place / LOCK, f"fit --seeds in {place}"):
        remove_leftovers(place, below=False)  # below may be other runs, of another command that works on them now
        for run in runs:
            remove_leftovers(run.folder)
            if (run.folder / RECORD).exists() and FinishedRun(run.folder).record["content"] != run.content:
                raise UsageError(
                    f"fit: {run.folder} holds a run of another text, model, setting, class or version; delete it, or "
                    "choose another --trainer.default_root_dir"
                )
        with ThreadPoolExecutor(int(jobs)) as pool:
            for run, reason in zip(runs, pool.map(partial(_finish, jobs=int(jobs)), runs), strict=True):
                print(f"{run.label}, seed {run.seed}: {reason or 'done'}", file=sys.stderr)
                failed |= reason is not None
        finished: dict[str, list[FinishedRun]] = {label: [] for label in rows}
        for run in runs:
            finished[run.label] += [FinishedRun(run.folder)] if (run.folder / SCORES).exists() else []
        if missing := [label for label, found in finished.items() if not found]:
            raise UsageError(f"fit: every run of {', '.join(missing)} failed; see {place}/*/*/fit.log")
        judge(finished, place, None, MARGIN, table)
    return int(failed)


def seed_list(text: str) -> list[int]:
    """The seeds of ``1,2,3``, or so many as one number says: the thesis's, then derived ones, always the same.

    Raises:
        UsageError: no seed is given, a seed is given twice, or a seed is not a whole number.
    """
    given = text.strip("[] ").replace(" ", "")
    seeds = [int(seed) for seed in given.split(",")] if re.fullmatch(r"\d+(,\d+)*", given) else []
    if len(seeds) == 1:
        derived = (derive_seed("compare", number) % 2**31 for number in range(len(THESIS_SEEDS), seeds[0]))
        seeds = [*THESIS_SEEDS[: seeds[0]], *derived]
    if not seeds or len(set(seeds)) < len(seeds):
        raise UsageError(f"fit: --seeds {text}: give a number of seeds from 1 on, or different seeds, 1,2,3")
    return seeds


def _rows(pairs: Pairs, variants: Sequence[str]) -> tuple[str | None, _Rows, Path]:
    """The table, the recipes, and the folder of all runs."""
    given = dict(pairs)
    table, wanted = given.get("table"), given.get("row")
    files = [*([table] if table else []), *(value for key, value in pairs if key == "config" and value)]
    if not files:
        raise UsageError("fit: --seeds needs a recipe, -c simcse/minilm, or a table, --table FILE")
    rows: dict[str, tuple[Pairs, bool]] = {}
    if table is None:
        rows[Path(files[0]).stem] = (pairs, False)
    else:
        pairs = [pair for pair in pairs if pair[0] not in ("table", "row")]
        for label, row in read_table(table).only(wanted.split(",") if wanted else None).rows.items():
            if row.absent is None:
                pooling = row.change.get("model.encoder.pooling") if row.untrained else None  # nothing overrides it
                last = [("model.encoder.pooling", pooling)] if pooling else []
                rows[label] = ([("table", table), ("row", label), *pairs, *last], row.untrained)
    for variant in variants:
        label, _, flags = variant.partition("=")
        if not LABEL.fullmatch(label) or label in rows or not flags:
            raise UsageError(f"fit: --variant {variant}: expected a new name (letters, digits, . - _): NAME='FLAGS'")
        rows[label] = ([*pairs, *split(shlex.split(flags))], False)
    root = expanded(given.get("trainer.default_root_dir") or "runs")
    return table, rows, root / run_name([*map(locate, files)])


def _runs(rows: _Rows, seeds: Sequence[int], place: Path) -> list[Run]:
    """Every run, one seed of all recipes before the next, so that an interruption leaves them balanced.

    Raises:
        InputError: names the recipe and its mistake.
    """
    wanted = {}
    for label, (pairs, untrained) in rows.items():
        try:
            wanted[label] = content_and_pairs(pairs, not untrained)
        except InputError as error:
            raise type(error)(f"fit, {label}: {error}") from None
    runs = []
    for seed, (label, (pairs, untrained)) in itertools.product(seeds, rows.items()):
        if seed == seeds[0] or not untrained:
            folder = place / label / f"seed-{seed}"
            logger = {"save_dir": place, "name": label, "version": folder.name}
            own = {"seed_everything": seed, "data.seed": seed, **{f"trainer.logger.{k}": v for k, v in logger.items()}}
            words = [f"--{key}" if value is None else f"--{key}={value}" for key, value in [*pairs, *own.items()]]
            runs.append(Run(label, seed, folder, words, untrained, *wanted[label]))
    return runs


def _finish(run: Run, jobs: int) -> str | None:
    """Train and test one run, unless both are done. Return the reason of a failure, or None."""
    if (run.folder / SCORES).exists() and FinishedRun(run.folder).is_of(run.pairs):
        return None
    words, chosen = run.words, run.folder / FILE
    if not run.untrained:
        train = ["fit", *words, "--ckpt_path", "last", "--trainer.enable_progress_bar", "false"]
        if not chosen.exists() and (reason := _sentrep(train, run, jobs)):
            return reason
        checkpoint = json.loads(chosen.read_text(encoding="utf-8"))["checkpoint"]
        if checkpoint is None:
            return "it kept no checkpoint; leave the section checkpoint as it is"
        words = [*words, "--ckpt_path", checkpoint]
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
