"""What the commands that make pairs share: reading the sentences, asking a model, progress, the table at the end."""

from __future__ import annotations

import asyncio
import math
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from sentrep.data.augmentation.asking import COUNTS, MALFORMED, Asking
from sentrep.data.augmentation.endpoint import Endpoint
from sentrep.data.augmentation.parts import VERDICT, Finished, check_output
from sentrep.data.text.corpus import Corpus, open_corpus
from sentrep.errors import InputError
from sentrep.reports.frames import as_frame, screen_table
from sentrep.reports.text import screen_text

PATIENCE = 10.0
"""Seconds without an answer after which that is said."""


@dataclass(frozen=True)
class Price:
    """The price of a million tokens; without one there is no cost to print.

    Examples:
        >>> Price(1.5, 8.0).cost(2_000_000, 500_000), Price().cost(1, 1)
        ('7.00', '')

    Raises:
        InputError: a price is no number, or below 0.
    """

    input: float | None = None
    """of a million input tokens, to print the cost."""
    output: float | None = None
    """of a million output tokens."""

    def __post_init__(self) -> None:
        for name, price in vars(self).items():
            if price is not None and not 0 <= price < math.inf:
                raise InputError(f"price.{name} {price}: expected 0 or more, the price of a million tokens")

    def cost(self, input_tokens: int, output_tokens: int) -> str:
        """The cost of so many tokens as text; empty without prices."""
        if self.input is None and self.output is None:
            return ""
        return f"{(input_tokens * (self.input or 0.0) + output_tokens * (self.output or 0.0)) / 1e6:,.2f}"


def open_sentences(path: str, column: str | None, output: str) -> tuple[Corpus, int]:
    """The corpus to work on, and its number of rows. All of it is read once: bad input shows before hours of work.

    Raises:
        InputError: for anything wrong with the file, or with the output that will be written.
    """
    check_output(output, [path])
    corpus = open_corpus(path, None if column is None else [column])
    total = sum(1 for _ in corpus.rows())
    if not total:
        raise InputError(f"{corpus.name}: no sentences in it")
    return corpus, total


def versions(*packages: str) -> dict[str, str]:
    """``{package: version}`` for the record."""
    return {package: version(package) for package in packages}


def progress_bar(visible: bool = True) -> Progress:
    """On standard error: rows done, time left, and ``note``, a field of the task."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        console=Console(stderr=True),
        disable=not visible,
    )


def print_verdicts(what: str, verdicts: Mapping[str, int], output: str | Path, more: Mapping[str, str]) -> None:
    """How many rows were kept and why the others were not."""
    rows = sum(verdicts.values())
    counts = [[name, f"{count:,}", f"{count / rows:.1%}"] for name, count in verdicts.items()]
    lines = [*counts, ["all", f"{rows:,}", ""], *([name, value, ""] for name, value in more.items())]
    console = Console()
    console.print(screen_table(as_frame(lines, columns=[what, "rows", "share"])))
    console.print(f"{verdicts.get('kept', 0)} pairs: {screen_text(str(output))}", soft_wrap=True, highlight=False)


def ask_all(corpus: Corpus, total: int, work: Asking, endpoint: Endpoint, price: Price, skip_failed: bool) -> None:
    """Ask about every row that has no answer yet, and publish the answers.

    Args:
        corpus: whose rows are asked about.
        total: how many they are.
        work: as it was set up.
        endpoint: whom it asks.
        price: to show the cost as it grows.
        skip_failed: leave out rows that get no answer.

    Raises:
        InputError: rows got no answer; the others are kept.
    """
    with work.store.claim("paraphrasing"):
        _ask(corpus, total, work, endpoint, price)
        if work.failed and skip_failed:
            work.give_up_on_failed()
        if work.failed:
            raise InputError(
                f"{len(work.failed)} of {total} sentences got no answer ({work.reason}); the others are kept in "
                f"{work.store.folder}: run the same command again to ask once more, or with --skip_failed true to "
                "leave them out"
            )
        work.store.publish()


def usage(record: Mapping[str, Any], price: Price) -> dict[str, str]:
    """What the answers took, for the table at the end."""
    used = {name.replace("_", " "): f"{record[name]:,}" for name in COUNTS}
    cost = price.cost(record["input_tokens"], record["output_tokens"])
    return used | ({"cost": cost} if cost else {})


def _ask(corpus: Corpus, total: int, work: Asking, endpoint: Endpoint, price: Price) -> None:
    print(f"{total} rows; {len(work.store)} of them were done before", file=sys.stderr)
    counts: Counter[str] = Counter()
    with progress_bar() as progress:
        task = progress.add_task("Asking", total=total, note="")

        def advance(finished: Finished | None) -> None:
            if finished:
                counts.update({name: finished[name] for name in COUNTS}, malformed=finished[VERDICT] == MALFORMED)
            read, written, malformed = counts["input_tokens"], counts["output_tokens"], counts["malformed"]
            note = f"{read:,} tokens in, {written:,} out"
            note += f", cost {cost}" if (cost := price.cost(read, written)) else ""
            progress.update(task, advance=1, note=note + (f", {malformed} malformed" if malformed else ""))

        async def watch() -> None:
            done = -1.0
            while True:
                await asyncio.sleep(PATIENCE)
                if done == (done := progress.tasks[task].completed):
                    print(f"{endpoint.host}: no answer for {PATIENCE:g} seconds; {endpoint.patience}", file=sys.stderr)

        async def ask() -> None:
            async with endpoint:
                watcher = asyncio.create_task(watch())
                try:
                    await work.run(corpus.rows())
                finally:
                    watcher.cancel()

        work.advance = advance
        asyncio.run(ask())
