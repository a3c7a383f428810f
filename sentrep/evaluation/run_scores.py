"""The files of a run for a comparison: the cosine of every test pair, and a record of the run's content."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.errors import InputError
from sentrep.evaluation.history import METRICS, dose
from sentrep.evaluation.selection import FILE
from sentrep.evaluation.significance import RecipeScores
from sentrep.io.files import atomic_write
from sentrep.io.paths import writing

SCORES = "scores.parquet"
"""A row for each test pair: ``set``, ``pair`` (a hash of both sentences), ``gold``, ``cosine``."""
RECORD = "run.json"
"""``content`` (a hash of all that made the run but its seed), the parts of this hash, ``data`` and ``seed``."""
_PAIR = ["set", "pair", "gold"]


def pairs_frame(sets: Iterable[ScoredPairs]) -> pd.DataFrame:
    """A row for each pair: what tells it from others, and its gold score."""
    frames = []
    for one in sets:
        texts = np.array([f"{a}\0{b}" for a, b in zip(one.first, one.second, strict=True)], object)
        hashes = pd.util.hash_array(texts, categorize=False)
        frames.append(pd.DataFrame({"set": one.name, "pair": hashes, "gold": np.asarray(one.scores, np.float64)}))
    return pd.concat(frames, ignore_index=True)


def write_scores(folder: Path, sets: Sequence[ScoredPairs], cosines: Mapping[str, Tensor]) -> None:
    """Write `SCORES` into the folder of a run.

    Args:
        folder: of the run.
        sets: that were scored.
        cosines: by set, of every pair (P,).

    Raises:
        InputError: for a place that cannot be written.
    """
    frame = pairs_frame(sets)
    frame["cosine"] = np.concatenate([cosines[one.name].double().numpy() for one in sets])
    with writing(folder / SCORES), atomic_write(folder / SCORES) as file:
        frame.to_parquet(file, index=False)


@dataclass(frozen=True)
class FinishedRun:
    """A run that was trained and tested."""

    folder: Path

    @cached_property
    def record(self) -> dict[str, Any]:
        """The content of `RECORD`.

        Raises:
            InputError: the file is missing or damaged.
        """
        try:
            found: dict[str, Any] = json.loads((self.folder / RECORD).read_text(encoding="utf-8"))
            return {**found, "seed": int(found["seed"]), "settings": dict(found["settings"])}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{self.folder / RECORD}: no readable record of a run ({error}); train it again") from None

    @cached_property
    def step(self) -> int | None:
        """The step of the chosen checkpoint; None without training."""
        file = self.folder / FILE
        return int(json.loads(file.read_text(encoding="utf-8"))["step"]) if file.exists() else None

    @cached_property
    def scores(self) -> pd.DataFrame:
        """The content of `SCORES`.

        Raises:
            InputError: the file is missing or damaged.
        """
        try:
            return pd.read_parquet(self.folder / SCORES, columns=[*_PAIR, "cosine"])
        except (OSError, ValueError) as error:
            remedy = "sentrep test writes them, with the run's chosen checkpoint as --ckpt_path"
            raise InputError(
                f"{self.folder / SCORES}: no readable scores of the test sets ({error}); {remedy}"
            ) from None

    @cached_property
    def sets(self) -> list[str]:
        """The names of its test sets."""
        return list(self.scores["set"].unique())

    def is_of(self, pairs: pd.DataFrame) -> bool:
        """Whether its scores are of these pairs (`pairs_frame`), in this order, with these gold scores."""
        return self.scores[_PAIR].equals(pairs[_PAIR])


def finished_runs(folder: Path) -> list[FinishedRun]:
    """The runs in a folder: itself, or those below it.

    Raises:
        InputError: there is none.
    """
    found = [FinishedRun(path.parent) for path in sorted(folder.rglob(RECORD))]
    if not found:
        raise InputError(f"{folder}: no run lies here ({RECORD}); sentrep fit writes one")
    return found


def recipe_scores(runs: Sequence[FinishedRun], like: FinishedRun, fixed: bool = False) -> RecipeScores:
    """The scores of one recipe's runs, by seed.

    Args:
        runs: of the recipe.
        like: the run whose pairs all runs must have.
        fixed: whether the recipe trains nothing.

    Raises:
        InputError: two runs do not fit together; it names their files.
    """
    by_seed: dict[int, FinishedRun] = {}
    for run in runs:
        first, seed = next(iter(by_seed.values()), run), run.record["seed"]
        if seed in by_seed:
            raise InputError(f"{run.folder / RECORD} and {by_seed[seed].folder / RECORD} are one recipe under one seed")
        if run.record["content"] != first.record["content"]:
            parts = [key for key, value in run.record.items() if value != first.record.get(key)]
            apart = ", ".join(part for part in parts if part not in ("seed", "content")) or "content"
            raise InputError(f"{run.folder / RECORD} and {first.folder / RECORD} are not one recipe: other {apart}")
        if run is not like and not run.is_of(like.scores):
            raise InputError(f"{run.folder / SCORES} and {like.folder / SCORES} are not of the same pairs in one order")
        by_seed[seed] = run
    seeds, gold = tuple(sorted(by_seed)), like.scores["gold"].to_numpy()
    cosines = np.stack([by_seed[seed].scores["cosine"] for seed in seeds])
    found = RecipeScores(seeds, {}, {}, fixed=fixed)
    for name in like.sets:
        rows = (like.scores["set"] == name).to_numpy()
        found.cosines[name], found.gold[name] = cosines[:, rows], gold[rows]
    return found


def training_of(runs: Sequence[FinishedRun], baseline: FinishedRun) -> dict[str, str]:
    """The text, the chosen steps and the flags of a recipe; empty without training.

    Args:
        runs: of the recipe.
        baseline: a run of the recipe that it is compared with; the flags are the settings that differ from its.
    """
    steps = sorted({run.step for run in runs if run.step is not None})
    if not steps:
        return {}
    own, other = runs[0].record["settings"], baseline.record["settings"]
    flags = [f"--{key} {_flag(own.get(key))}" for key in {**own, **other} if own.get(key) != other.get(key)]
    chosen = f"{steps[0]} to {steps[-1]}" if len(steps) > 1 else str(steps[0])
    return {"data": runs[0].record["data"], "steps": chosen, "flags": " ".join(flags) or "none"}


def _flag(value: Any) -> str:
    """The value of a flag, as a command has it."""
    return value if isinstance(value, str) else json.dumps(value)


def mean_dose(runs: Sequence[FinishedRun]) -> float | None:
    """The dose of a recipe that drew negatives (`sentrep.evaluation.history.dose`), mean over its runs."""
    shares = [dose(run.folder / METRICS) for run in runs if (run.folder / METRICS).exists()]
    drawn = pd.Series(shares, dtype=float).dropna()
    return float(drawn.mean()) if len(drawn) else None
