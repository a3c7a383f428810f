"""A report as a sequence of parts, written as one self-contained page of HTML or as Markdown.

A page loads nothing: its security policy forbids all requests and scripts, whatever text the page shows.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader

from sentrep.reports.frames import markdown_table, words
from sentrep.reports.text import markdown_text, printable

_INK = {"#ffffff": "var(--page)", "#000000": "currentColor", "#e0e0e0": "var(--rule)", "#0072b2": "var(--blue)"}
"""Colours of `sentrep.evaluation.plots.style`, and the variables that replace them on a page, which may be dark."""


@dataclass(frozen=True)
class Heading:
    """The heading of the document (level 1) or of a section."""

    text: str
    level: int = 2
    look: str = ""
    """A colour of the page: good, bad or unsure."""

    def markdown(self) -> Iterator[str]:
        """A line."""
        yield f"{'#' * self.level} {markdown_text(self.text)}"


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    faint: bool = False

    def markdown(self) -> Iterator[str]:
        """A line."""
        yield markdown_text(self.text)


@dataclass(frozen=True)
class Table:
    """A table of texts; the first cell of a row is its name."""

    frame: pd.DataFrame
    label: str
    """Description for screen readers."""
    looks: Mapping[str, str] = field(default_factory=dict)
    """The colour of a cell, by its text; see `Heading`."""
    broken: bool = False
    """Whether a cell may have several lines."""

    def markdown(self) -> Iterator[str]:
        """As `markdown_table`."""
        yield markdown_table(self.frame)


@dataclass(frozen=True)
class Picture:
    """A figure of matplotlib in the style of `sentrep.evaluation.plots.style`."""

    svg: str
    """The content of the file."""
    alt: str
    """Alternative text."""
    caption: str = ""
    file: str = ""
    """The picture beside a report in Markdown."""
    frame: pd.DataFrame | None = None
    """The drawn numbers, for Markdown without a file."""

    @property
    def inline(self) -> str:
        """The picture after ``<svg``, in the colours and type of the page."""
        svg = re.sub(r"<metadata>.*?</metadata>", "", self.svg[self.svg.index("<svg") + 4 :], flags=re.DOTALL)
        size = r' style="min-width:\1;max-width:calc(1.3*\1)"'  # keeps the type readable
        svg = re.sub(' width="(.*?)" height=".*?"', size, svg, count=1)
        used = set(re.findall(r"#([\w-]+)", svg))
        svg = re.sub(' id="(.*?)"', lambda found: found[0] if found[1] in used else "", svg)  # pictures share ids
        for colour, name in _INK.items():
            svg = svg.replace(colour, name)
        return svg.strip()

    def markdown(self) -> Iterator[str]:
        """The file, or the caption and the numbers."""
        if self.caption:
            yield markdown_text(self.caption)
        if self.file:
            yield f"![]({self.file})"
        elif self.frame is not None:
            yield markdown_table(self.frame)


@dataclass(frozen=True)
class Change:
    """Texts beside one sentence, before and after; a page marks new texts."""

    sentence: str
    before: Sequence[str]
    after: Sequence[str]

    def markdown(self) -> Iterator[str]:
        """A heading and two lists."""
        yield f"### {markdown_text(self.sentence)}"
        for name, texts in (("before", self.before), ("after", self.after)):
            yield "\n".join(f"{number}. {name}: {markdown_text(text)}" for number, text in enumerate(texts, 1))


Part = Heading | Text | Table | Picture | Change


@dataclass(frozen=True)
class Document:
    """A report."""

    parts: Sequence[Part]
    title: str = ""
    """The title of the window."""

    def html(self) -> str:
        """The whole page."""
        return _template().render(document=self, words=words)

    def markdown(self) -> str:
        """The document as Markdown, with a blank line between parts."""
        return "\n\n".join(block for part in self.parts for block in part.markdown()) + "\n"


@functools.cache
def _template() -> Any:
    def finalize(value: Any) -> Any:
        return value if hasattr(value, "__html__") or not isinstance(value, str) else printable(value)

    loader = PackageLoader(__package__, ".")
    return Environment(
        loader=loader, autoescape=True, finalize=finalize, trim_blocks=True, lstrip_blocks=True
    ).get_template("page.html")
