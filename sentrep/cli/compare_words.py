"""``sentrep compare`` until its words are understood: what is its own, and what is for every ``sentrep fit``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sentrep import checks
from sentrep.cli.configuration import check_sections, parse_request, split_words
from sentrep.cli.errors import UsageError
from sentrep.cli.functions import load, parse
from sentrep.cli.outline import outline
from sentrep.errors import InputError
from sentrep.io.paths import expanded

if TYPE_CHECKING:
    from sentrep.evaluation.comparison import Format
    from sentrep.evaluation.suites import SuiteName


@dataclass(frozen=True, kw_only=True)
class Options:
    """Train every recipe (-c FILE) and every variant of the first (--variant NAME='FLAGS') under every seed, evaluate,
    compare with the first recipe. Both stand any number of times; here every -c is a row of its own, where in fit a
    second one is laid over the first (--over does that here).

    Every other option goes to each ``sentrep fit``, for example --model.encoder.backbone FOLDER. What is done already
    is not done again: run the same command after an interruption, or with more seeds or recipes.

    Args:
        seeds: how many (the thesis's five come first), or a list of them; fewer than four give no verdict.
        vary: what the seeds change: order (of the training text), noise (initial head, dropout, draws) or both.
        suite: what to score: sts (similarity), or another suite of sentrep evaluate.
        sets: of the suite; by default each recipe's own data.test, of other suites all that evaluate takes by default.
        split: retrieval, rerank, clustering: which split of a folder; test by default.
        columns: names or positions of the columns of csv files.
        format: print the table as latex, csv or markdown; all three are written to files, too.
        over: configuration files laid over every recipe.
        output: folder of all runs and of the report.
        jobs: runs at the same time, each with its share of the cores.
        table: in the place of recipes, the rows of a paper's table; what the paper printed is shown beside the scores.
        rows: of the table, those to train; by default all.
        adapt: other values for every row of the table that has a key of such an end: '{lr: 1.0e-4, weighting.model:
            FOLDER}', where a flag would go to all rows, those without that plug-in included.
    """

    seeds: int | list[int] = 5
    vary: Literal["both", "order", "noise"] = "both"
    suite: SuiteName = "sts"
    sets: list[str] | None = None
    split: str | None = None
    columns: list[str] | None = None
    format: Format | None = None
    over: list[str] | None = None
    output: str = "comparisons"
    jobs: int = 1
    table: str | None = None
    rows: list[str] | None = None
    adapt: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        checks.whole("compare", 1, 1000, jobs=self.jobs)
        checks.text("compare", output=self.output)

    @property
    def place(self) -> Path:
        """``output`` as a path."""
        return expanded(self.output)


@dataclass
class Words:
    """The command line, sorted into what is ours and what is for every ``sentrep fit``."""

    recipes: list[str] = field(default_factory=list)
    variants: dict[str, list[str]] = field(default_factory=dict)
    """The first recipe's variants: by name, the words that are laid over it."""
    own: list[str] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)


def compare(command: str, words: list[str]) -> int:
    """Run the command; its status is 1 when some run failed."""
    mine = sort_words(words)
    try:
        chosen = Options(**parse(outline(__name__)["Options"], command, mine.own))
    except InputError as error:
        raise UsageError(str(error)) from None
    if chosen.table is None and not mine.recipes:
        raise UsageError("compare: name at least one recipe: -c simcse/minilm, or --table FILE")
    for recipe in mine.recipes:
        check_sections(parse_request(["-c", recipe, *mine.shared]))
    status: int = load("sentrep.cli.compare").carry_out(mine, chosen)
    return status


def sort_words(words: list[str]) -> Words:
    """Recipes, our own options, and those of the runs."""
    own = {field.name for field in fields(Options)}
    sorted_words = Words()
    try:
        flags = list(split_words(words))
    except UsageError as error:
        raise UsageError(f"compare: {error}; a list is one word: --seeds '[1, 2, 3]'") from None
    for key, value in flags:
        if key == "config":
            if value is None:
                raise UsageError("compare: -c needs a file")
            sorted_words.recipes.append(value)
        elif key == "variant":
            name, own_words = _variant(value, sorted_words.variants)
            sorted_words.variants[name] = own_words
        elif key is None:  # --help
            sorted_words.own.append(value)
        else:
            (sorted_words.own if key in own else sorted_words.shared).extend(
                [f"--{key}"] if value is None else [f"--{key}", value]
            )
    return sorted_words


def _variant(text: str | None, others: Mapping[str, list[str]]) -> tuple[str, list[str]]:
    """Name and words of ``NAME=--model.x 1 --data.y 2``."""
    name, equals, flags = (text or "").partition("=")
    if not equals or not re.fullmatch(r"\w[\w.+-]{0,99}", name):  # it names a folder
        raise UsageError(
            f"compare: --variant {text}: expected a name of letters, digits, dots, hyphens and underscores, and flags: "
            "--variant low='--model.objectives.simcse.temperature 0.03'"
        )
    if name in others:
        raise UsageError(f"compare: two variants are called {name}; rename one")
    try:
        words = shlex.split(flags)
        list(split_words(words))
    except (ValueError, UsageError) as error:
        raise UsageError(f"compare: --variant {name}: {error}") from None
    if not words:
        raise UsageError(f"compare: --variant {name} changes nothing; give it flags, or leave it out")
    return name, words
