"""The report of an adaptation that a person can send on: one page of HTML that stands alone, and Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sentrep.adaptation.outcome import Adaptation, Estimate, Neighbours
from sentrep.adaptation.pictures import draw_curve, draw_map, draw_weights, map_groups
from sentrep.evaluation.page import html_page, html_table, inline_figure
from sentrep.evaluation.report import markdown_table
from sentrep.io.files import write_text
from sentrep.io.harmless import html_text, markdown_text
from sentrep.io.paths import writing

_LOOKS = {"better": "good", "not better": "bad", "worse": "bad", "cannot be told": "unsure"}
_LONGEST = 180
"""Letters of a sentence that are shown."""
_TASKS = (
    "Each task was made from the text's own structure and held out of training. Scores × 100, the higher the better, "
    "with the 95 % interval of a bootstrap over the documents; a task got better or worse where the whole interval of "
    "the difference says so. Shared words: of the query's words, those that stand in its answer; BM25 is what matching "
    "words alone gives."
)
_CURVE = "The held-out tasks (proxy: all their queries) while it was trained; the dashed line is the model before."
_INTERPOLATION = "Weights between the model before (0) and the end of training (1)."
_LEXICAL = "At the best of these: the weight of matching words in the vector's cosine, beside meaning."
_NEIGHBOURS = "Sentences from all over the text, each with the nearest others by cosine; those that changed most first."
_MAP = (
    "The same texts before and after, turned and scaled onto each other and seen from the same side; the colours are "
    "those of the groups before. Stay on a point to read it."
)


def write_report(adaptation: Adaptation, folder: str | Path) -> Path:
    """Write ``report.html``, which needs nothing beside it, and ``report.md``.

    What is empty (curve, interpolation, neighbours, map, times, settings) has no section.

    Args:
        adaptation: what to report.
        folder: where to; it is made.

    Returns:
        The page.

    Raises:
        InputError: for a place that cannot be written.
    """
    page = Path(folder) / "report.html"
    title = f"{_last(adaptation.backbone)}, adapted to {_last(adaptation.text)}: {adaptation.verdict}"
    for file, text in {
        page.with_suffix(".md"): "\n".join(_markdown(adaptation)) + "\n",
        page: html_page(title, _html(adaptation)),
    }.items():
        with writing(file):
            write_text(file, text)
    return page


def _html(adaptation: Adaptation) -> Iterator[str]:
    look = _LOOKS[adaptation.verdict]
    model, text = _last(adaptation.backbone), _last(adaptation.text)
    yield f'<p class="faint">{html_text(f"{model}, adapted to {text}")}: <strong>{adaptation.verdict}</strong></p>'
    yield f'<h1 class="{look}">{html_text(adaptation.sentence).replace(" %", "&nbsp;%")}</h1>'
    yield f"<p>{html_text(_facts(adaptation))}</p>"
    if adaptation.tasks:
        columns, rows = _tasks(adaptation)
        yield "<h2>Before and after</h2>"
        yield html_table(columns, rows, "Scores before and after", _LOOKS)
        yield f'<p class="faint">{html_text(_TASKS)}</p>'
    if adaptation.curve or adaptation.interpolation:
        yield '<h2>Training</h2>\n<div class="side">'
        if adaptation.curve:
            yield inline_figure(draw_curve(adaptation.curve), "Course of the proxy during training", _CURVE)
        if adaptation.interpolation:
            yield inline_figure(draw_weights(adaptation.interpolation), "Proxy by weight", _INTERPOLATION)
        if adaptation.lexical:
            figure = draw_weights(adaptation.lexical, "matching words", "without")
            yield inline_figure(figure, "Proxy by weight of matching words", _LEXICAL)
        yield "</div>"
    if adaptation.neighbours:
        yield f'<h2>Nearest sentences</h2>\n<p class="faint">{html_text(_NEIGHBOURS)}</p>'
        yield from map(_card, adaptation.neighbours)
    if len(adaptation.map_texts):
        yield f'<h2>Map</h2>\n<div class="side">{_maps(adaptation)}</div>\n<p class="faint">{html_text(_MAP)}</p>'
    for head, columns, rows in _records(adaptation):
        yield f"<h2>{head}</h2>"
        yield html_table(columns, rows, head, broken=True)


def _card(found: Neighbours) -> str:
    sides = {"before": found.before, "after": found.after}
    if found.before == found.after:
        sides = {"before and after": found.before}
    lists = []
    for name, texts in sides.items():
        shown = [html_text(_short(text)) for text in texts]
        new = ["<strong>new:</strong> " if text not in found.before else "" for text in texts]
        items = "".join(f"<li>{mark}{text}</li>" for mark, text in zip(new, shown, strict=True))
        lists.append(f'<div><p class="faint">{name}</p><ol>{items}</ol></div>')
    head = html_text(_short(found.sentence))
    return f'<section class="card"><h3>{head}</h3><div class="side">{"".join(lists)}</div></section>'


def _maps(adaptation: Adaptation) -> str:
    maps = {"Before": adaptation.map_before, "After": adaptation.map_after}
    groups = map_groups(adaptation.map_before)
    reach = float(np.abs(np.stack(list(maps.values()))).max())
    drawn = {
        name: draw_map(points, adaptation.map_texts, groups, reach, f"Map of {len(points)} texts, {name.lower()}")
        for name, points in maps.items()
    }
    return "".join(f"<figure>{svg}<figcaption>{name}</figcaption></figure>" for name, svg in drawn.items())


def _markdown(adaptation: Adaptation) -> Iterator[str]:
    yield f"# {markdown_text(adaptation.sentence)}"
    yield f"\n{markdown_text(_facts(adaptation))}"
    if adaptation.tasks:
        yield "\n## Before and after\n"
        yield from markdown_table(*_tasks(adaptation))
        yield f"\n{markdown_text(_TASKS)}"
    if adaptation.curve:
        columns = list(dict.fromkeys(name for row in adaptation.curve for name in row))
        rows = [[f"{row[name]:.4g}" if name in row else "" for name in columns] for row in adaptation.curve]
        yield f"\n## Training\n\n{markdown_text(_CURVE)}\n"
        yield from markdown_table(columns, rows)
    if adaptation.interpolation:
        yield f"\n## Between start and end\n\n{markdown_text(_INTERPOLATION)}\n"
        yield from markdown_table(["weight", "proxy"], [[f"{w:g}", f"{v:.2f}"] for w, v in adaptation.interpolation])
    if adaptation.lexical:
        yield f"\n## Matching words\n\n{markdown_text(_LEXICAL)}\n"
        yield from markdown_table(["weight", "proxy"], [[f"{w:g}", f"{v:.2f}"] for w, v in adaptation.lexical])
    if adaptation.neighbours:
        yield f"\n## Nearest sentences\n\n{markdown_text(_NEIGHBOURS)}"
        for found in adaptation.neighbours:
            yield f"\n### {markdown_text(_short(found.sentence))}\n"
            for name, texts in (("before", found.before), ("after", found.after)):
                yield from (f"{number}. {name}: {markdown_text(_short(text))}" for number, text in enumerate(texts, 1))
                yield ""
    for head, columns, rows in _records(adaptation):
        yield f"\n## {head}\n"
        yield from markdown_table(columns, rows)


def _facts(adaptation: Adaptation) -> str:
    """The counts, and where the model is."""
    counts = f"{_last(adaptation.text)}: {adaptation.documents:,} documents in {adaptation.passages:,} passages"
    counts += f"; trained on {adaptation.pairs:,} pairs" if adaptation.pairs else ""
    counts += f"; {_duration(sum(adaptation.seconds.values()))} in all" if adaptation.seconds else ""
    where = "Nothing was exported." if adaptation.folder is None else f"The adapted model is in {adaptation.folder}."
    return f"{counts}. {where}"


def _tasks(adaptation: Adaptation) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of the table of before and after; without BM25 where no task has it."""
    columns: dict[str, list[str]] = {}
    for task in adaptation.tasks:
        cells = {
            "task": task.name,
            "before": _interval(task.start),
            "after": _interval(task.adapted),
            "difference": _interval(task.difference, "+.2f"),
            "verdict": _verdict(task.difference),
            "BM25": "" if task.bm25 is None else f"{task.bm25:.1f}",
            "shared words": f"{task.overlap:.0%}",
            "queries / texts": f"{task.queries:,} / {task.candidates:,}",
        }
        for column, cell in cells.items():
            columns.setdefault(column, []).append(cell)
    if not any(columns["BM25"]):
        del columns["BM25"]
    return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def _records(adaptation: Adaptation) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Heading, columns and rows of the tables at the end."""
    if adaptation.seconds:
        yield "Time", ["part", "time"], [[part, _duration(seconds)] for part, seconds in adaptation.seconds.items()]
    if adaptation.settings:
        yield "What was trained on what", ["setting", "value"], [[*item] for item in adaptation.settings.items()]


def _interval(estimate: Estimate, form: str = ".1f") -> str:
    return f"{estimate.value:{form}} [{estimate.low:{form}}, {estimate.high:{form}}]"


def _verdict(difference: Estimate) -> str:
    return "better" if difference.low > 0 else "worse" if difference.high < 0 else "cannot be told"


def _duration(seconds: float) -> str:
    """As people say it.

    Examples:
        >>> _duration(3.21), _duration(75)
        ('3.2 s', '1 min 15 s')
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"


def _short(text: str) -> str:
    return textwrap.shorten(text, _LONGEST, placeholder=" …")


def _last(name: str) -> str:
    """What a path ends in: its folders are of no use to a reader elsewhere."""
    return Path(name).name or name
