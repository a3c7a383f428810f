"""The report of an adaptation, which can be sent to others: one self-contained page of HTML, and Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd

from sentrep.adaptation.outcome import Adaptation
from sentrep.evaluation.plots.curves import draw_training_curves
from sentrep.evaluation.plots.style import svg_text
from sentrep.io.files import write_text
from sentrep.io.paths import writing
from sentrep.reports.document import Change, Document, Heading, Part, Picture, Table, Text
from sentrep.reports.frames import Forms, as_frame, as_text

_LOOKS = {"better": "good", "not better": "bad", "worse": "bad", "cannot be told": "unsure"}
_LONGEST = 180
"""So many letters of a sentence are shown."""
_TASKS = (
    "Each task was made from the text's own structure and held out of training. Scores × 100, the higher the better, "
    "with the 95 % interval of a bootstrap over the documents; a task got better or worse where the whole interval of "
    "the difference says so. Shared words: of the query's words, those that stand in its answer; BM25 is what matching "
    "words alone gives."
)
_CURVE = "The held-out questions that choose, while it was trained; the dotted line is the model before."
_INTERPOLATION = (
    "Score of every second document that chooses, by the share of the trained weights in the mean with those before."
)
_LEXICAL = "Score of all documents that choose, by the weight of matching words in the vector's cosine, at this share."
_NEIGHBOURS = "Sentences from all over the text, each with the nearest others by cosine; those that changed most first."
_SETTINGS = "Recipe and training data"
_COLUMNS: Mapping[str, Forms] = {
    "task": (("{}", "task"),),
    "before": (("{:.1f} [{:.1f}, {:.1f}]", "before", "before low", "before high"),),
    "after": (("{:.1f} [{:.1f}, {:.1f}]", "after", "after low", "after high"),),
    "difference": (("{:+.2f} [{:+.2f}, {:+.2f}]", "difference", "difference low", "difference high"),),
    "verdict": (("{}", "verdict"),),
    "BM25": (("{:.1f}", "BM25"),),
    "shared words": (("{:.0%}", "shared words"),),
    "queries / texts": (("{:,} / {:,}", "queries", "texts"),),
}
_BRIEF: Mapping[str, Forms] = {
    "task": _COLUMNS["task"],
    "before": (("{:.1f}", "before"),),
    "after": (("{:.1f}", "after"),),
    "difference": (("{:+.2f} ± {:.2f}", "difference", "half"),),
    "BM25": _COLUMNS["BM25"],
    "shared words": _COLUMNS["shared words"],
}


def write_report(adaptation: Adaptation, folder: str | Path) -> Path:
    """Write ``report.html``, which needs no other file, and ``report.md``.

    Empty parts (curve, interpolation, neighbours, times, settings) have no section.

    Args:
        adaptation: the outcome.
        folder: of the report; it is created.

    Returns:
        The page.

    Raises:
        InputError: for a place that cannot be written.
    """
    page = Path(folder) / "report.html"
    document = Document([*_parts(adaptation)], f"{_about(adaptation)}: {adaptation.verdict}")
    for file, text in {page.with_suffix(".md"): document.markdown(), page: document.html()}.items():
        with writing(file):
            write_text(file, text)
    return page


def _parts(adaptation: Adaptation) -> Iterator[Part]:
    sentence = adaptation.sentence.replace(" %", "\u00a0%")
    yield Heading(sentence, level=1, look=_LOOKS[adaptation.verdict])
    yield Text(f"{_about(adaptation)}: {adaptation.verdict}", faint=True)
    yield Text(_facts(adaptation))
    if adaptation.advice:
        yield Text(" ".join(adaptation.advice))
    if not adaptation.tasks.empty:
        yield Heading("Before and after")
        yield Table(task_table(adaptation.tasks), "Scores before and after", _LOOKS)
        yield Text(_TASKS, faint=True)
    if adaptation.curve:
        yield Heading("Training")
        numbers = as_frame(adaptation.curve).map(lambda cell: "" if cell is None else f"{cell:.4g}")
        history = pd.DataFrame(adaptation.curve).set_index("step").drop(columns="minutes").add_prefix("val/")
        yield Picture(
            svg_text(draw_training_curves(history)), "Course of the score during training", _CURVE, frame=numbers
        )
    for points, what, said in (
        (adaptation.interpolation, "share of training", _INTERPOLATION),
        (adaptation.lexical, "weight of matching words", _LEXICAL),
    ):
        if points:
            yield Table(_pairs({f"{weight:g}": f"{value:.2f}" for weight, value in points}, what, "score"), what)
            yield Text(said, faint=True)
    if adaptation.neighbours:
        yield Heading("Nearest sentences")
        yield Text(_NEIGHBOURS, faint=True)
        for found in adaptation.neighbours:
            yield Change(_short(found.sentence), [*map(_short, found.before)], [*map(_short, found.after)])
    if adaptation.seconds:
        yield Heading("Time")
        took = {part: _duration(seconds) for part, seconds in adaptation.seconds.items()}
        yield Table(_pairs(took, "part", "time"), "Time", broken=True)
    if adaptation.settings:
        yield Heading(_SETTINGS)
        yield Table(_pairs(adaptation.settings, "setting", "value"), _SETTINGS, broken=True)


def _pairs(rows: Mapping[str, str], *columns: str) -> pd.DataFrame:
    return as_frame([*rows.items()], columns=columns)


def _about(adaptation: Adaptation) -> str:
    return f"{_last(adaptation.backbone)}, adapted to {_last(adaptation.text)}"


def _facts(adaptation: Adaptation) -> str:
    """The counts, and the place of the model."""
    sizes = f"{adaptation.documents:,} documents, {adaptation.passages:,} passages to train on"
    counts = f"{_last(adaptation.text)}: {sizes}"
    if adaptation.pairs:
        often = adaptation.seen / adaptation.pairs
        of = f"{adaptation.seen:,} of {adaptation.pairs:,} pairs"
        counts += f"; trained on {of if often < 1 else f'{adaptation.pairs:,} pairs, each {often:.1f} times'}"
    counts += f"; {_duration(sum(adaptation.seconds.values()))} in all" if adaptation.seconds else ""
    where = "Nothing was exported." if adaptation.folder is None else f"The adapted model is in {adaptation.folder}."
    return f"{counts}. {where}"


def task_table(tasks: pd.DataFrame, brief: bool = False) -> pd.DataFrame:
    """The scores before and after, as text; without a column BM25 if no task has a value.

    Args:
        tasks: of `sentrep.adaptation.verdict.compare_tasks`.
        brief: show no interval but half the width of the difference's, for a terminal.
    """
    if tasks.empty:
        return tasks
    half = (tasks["difference high"] - tasks["difference low"]) / 2
    numbers = tasks.dropna(axis="columns", how="all").assign(half=half)
    columns = _BRIEF if brief else _COLUMNS
    return as_text(numbers, {name: forms for name, forms in columns.items() if forms[0][1] in numbers})


def _duration(seconds: float) -> str:
    """A duration for readers.

    Examples:
        >>> _duration(3.21), _duration(75)
        ('3.2 s', '1 min 15 s')
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"


def _short(text: str) -> str:
    return textwrap.shorten(text, _LONGEST, placeholder=" …")


def _last(name: str) -> str:
    """The last part of a path, without this machine's folders."""
    return Path(name).name or name
