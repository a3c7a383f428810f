"""The look of all pictures: type that can be read in a paper's column, colours that everyone can tell apart."""

from __future__ import annotations

import io
from collections.abc import Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from sentrep.evaluation.sts import display_name
from sentrep.io.files import atomic_write
from sentrep.io.paths import writing
from sentrep.io.text import printable

# Okabe and Ito's palette: told apart with every kind of colour vision, and in grey
BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#8C8C8C"
SKY, AMBER = "#56B4E9", "#E69F00"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, AMBER, SKY, "#000000")
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
WIDTH = 3.3
"""Inches: a paper's column, so that the type is read at its own size."""
PAGE = 6.8
"""Inches: both columns."""
DOTS = 300
"""Per inch of a PNG."""
_SCREEN = 150
"""Per inch in a notebook."""
_LETTERS_PER_INCH = 17
"""About so many letters of the legend fill an inch."""
_LETTERS_OF_HANDLE = 6
"""A line or marker in the legend is as wide as so many letters."""
STYLE = Path(__file__).with_name("sentrep.mplstyle")
"""The settings of matplotlib, for `matplotlib.style.use` as well."""
_METRICS = {
    "train/loss": "loss",
    "train/alignment": "alignment (↓)",
    "train/uniformity": "uniformity (↓)",
    "val/sts": "dev Spearman × 100",
}


def styled() -> Any:
    """A context with the style, for drawing and writing; matplotlib's own settings stay unchanged."""
    return matplotlib.rc_context(fname=STYLE)


class Picture(Figure):
    """A figure that is written in the style, and that a notebook shows as the value of a cell, without pyplot."""

    def savefig(self, *args: Any, **options: Any) -> None:
        """Write the figure; control characters and changes of the writing direction in names are written out."""
        for text in self.findobj(Text):
            assert isinstance(text, Text)
            text.set_text("\n".join(map(printable, text.get_text().split("\n"))))
        with styled():
            super().savefig(*args, **options)

    def _repr_png_(self) -> bytes:
        self.savefig(stream := io.BytesIO(), format="png", dpi=_SCREEN)
        return stream.getvalue()


def new_figure(height: float, width: float = WIDTH) -> Figure:
    """An empty figure in inches, without pyplot: drawing must not depend on a display or leave global state behind."""
    figure = Picture(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def looks(names: list[str]) -> Mapping[str, dict[str, Any]]:
    """A colour, a line style and a marker for every name, no two alike in all three among 35."""
    shared = zip(names, cycle(COLOURS), cycle(LINES), cycle(MARKERS), strict=False)
    return {name: {"color": colour, "linestyle": line, "marker": marker} for name, colour, line, marker in shared}


def metric_label(metric: str) -> str:
    """A metric's name on an axis; an unknown one stays as it is.

    Examples:
        >>> metric_label("train/uniformity"), metric_label("val/stsb-dev/uniformity"), metric_label("val/stsb-dev")
        ('uniformity (↓)', 'STS-B dev uniformity (↓)', 'val/stsb-dev')
    """
    match metric.split("/"):
        case ["val", name, ("alignment" | "alignment_all" | "uniformity" | "uniformity_first") as measure]:
            return f"{display_name(name)} {measure} (↓)"
    return _METRICS.get(metric, metric)


def legend_below(figure: Figure) -> None:
    """One legend for all panels, under them; every label once, in as many columns as the width has room for."""
    handles = {
        label: handle for axis in figure.axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    if handles:
        letters = _LETTERS_PER_INCH * figure.get_figwidth()
        columns = int(letters // (max(map(len, handles)) + _LETTERS_OF_HANDLE))
        figure.legend(
            handles.values(),
            handles.keys(),
            loc="outside lower center",
            ncols=max(1, min(columns, len(handles))),
            columnspacing=1.2,
            handlelength=2.2,
        )


def save_figure(figure: Figure, stem: str | Path) -> list[Path]:
    """Write a figure as PNG and as SVG.

    Args:
        figure: what to write.
        stem: both files without their endings; an ending ``.png`` or ``.svg`` is taken off.

    Returns:
        The two files.

    Raises:
        InputError: for a place that cannot be written.
    """
    stem = Path(stem)
    if stem.suffix in (".png", ".svg"):
        stem = stem.with_suffix("")
    files = [stem.parent / f"{stem.name}{ending}" for ending in (".png", ".svg")]
    for file in files:
        with writing(file), atomic_write(file) as stream:
            figure.savefig(stream, format=file.suffix[1:], dpi=DOTS)
    return files
