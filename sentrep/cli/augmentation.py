"""What ``backtranslate`` and ``paraphrase`` share: reading the sentences, progress, the table at the end."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from sentrep.data.augmentation.parts import PartStore, check_output
from sentrep.data.text.corpus import Corpus, open_corpus
from sentrep.errors import InputError
from sentrep.io.harmless import screen_text


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


def print_verdicts(store: PartStore, what: str, more: Mapping[str, str]) -> None:
    """How many rows were kept and why the others were not, from the record of the finished output."""
    assert store.record is not None
    rows, verdicts = store.record["rows"], store.record["verdicts"]
    table = Table(box=None, pad_edge=False)
    table.add_column(what)
    table.add_column("rows", justify="right")
    table.add_column("share", justify="right")
    for name, count in verdicts.items():
        table.add_row(screen_text(name), f"{count:,}", f"{count / rows:.1%}")
    table.add_row("all", f"{rows:,}", "")
    for name, value in more.items():
        table.add_row(name, value, "")
    console = Console()
    console.print(table)
    console.print(f"{verdicts.get('kept', 0)} pairs: {screen_text(str(store.output))}", soft_wrap=True, highlight=False)
