"""The look of all pictures: type that can be read in a paper's column, colours that everyone can tell apart."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sentrep.io.files import atomic_write
from sentrep.io.paths import writing

# Okabe and Ito's palette: told apart with every kind of colour vision, and in grey; the style file cycles through it
BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#8C8C8C"
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


def styled() -> Any:
    """A context with the style, for drawing and writing; matplotlib's own settings stay unchanged."""
    return matplotlib.rc_context(fname=STYLE)


class Picture(Figure):
    """A figure that a notebook shows as the value of a cell, without pyplot."""

    def _repr_png_(self) -> bytes:
        with styled():
            self.savefig(stream := io.BytesIO(), format="png", dpi=_SCREEN)
        return stream.getvalue()


def new_figure(height: float, width: float = WIDTH) -> Figure:
    """An empty figure in inches, without pyplot: drawing must not depend on a display or leave global state behind."""
    figure = Picture(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def legend_below(figure: Figure) -> None:
    """One legend for all panels, under them; every label once, in as many columns as the width has room for."""
    entries = [zip(*axis.get_legend_handles_labels(), strict=True) for axis in figure.axes]
    handles = {label: handle for of_axis in entries for handle, label in of_axis}
    if handles:
        letters = max(map(len, handles)) + _LETTERS_OF_HANDLE
        columns = min(len(handles), max(1, int(_LETTERS_PER_INCH * figure.get_figwidth() // letters)))
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns)


def save_figure(figure: Figure, stem: str | Path) -> list[Path]:
    """Write a figure as PNG and as SVG.

    Args:
        figure: what to write.
        stem: both files without their endings.

    Returns:
        The two files.

    Raises:
        InputError: for a place that cannot be written.
    """
    files = [Path(f"{stem}{ending}") for ending in (".png", ".svg")]
    with styled():
        for file in files:
            with writing(file), atomic_write(file) as stream:
                figure.savefig(stream, format=file.suffix[1:], dpi=DOTS)
    return files
