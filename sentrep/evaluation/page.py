"""The frame of every HTML report: one page that stands alone, without scripts, on paper white or in the dark.

A page loads nothing: a policy in it forbids browsers any request and any script, whatever text it shows.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from matplotlib.figure import Figure

from sentrep.evaluation.plots.style import BLUE, printable_labels, styled
from sentrep.evaluation.report import WORDS
from sentrep.io.harmless import html_text

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """
:root{color-scheme:light dark;--page:#fff;--ink:#1b1f24;--faint:#57606a;--rule:#d5dbe1;--box:#f4f6f8;
  --blue:#0072b2;--good:#0f6b2b;--bad:#a40e26;--unsure:#7a4d00}
@media (prefers-color-scheme:dark){:root{--page:#14171b;--ink:#e4e8ec;--faint:#a5afb9;--rule:#39414a;--box:#1d2126;
  --blue:#4ba8dd;--good:#62d17f;--bad:#ff938b;--unsure:#f0b75e}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.25rem 1rem 4rem;max-width:70rem;font:1rem/1.55 system-ui,sans-serif;color:var(--ink);
  background:var(--page);overflow-wrap:anywhere}
h1{font-size:clamp(1.35rem,4.5vw,1.9rem);line-height:1.3;margin:.4em 0}
h2{font-size:1.25rem;margin:2.5em 0 .5em}
h3{font-size:1rem;margin:0 0 .6em}
p,figcaption{max-width:46rem}
figure{margin:1em 0}
figcaption,.faint{color:var(--faint);font-size:.9rem}
.good{color:var(--good)}.bad{color:var(--bad)}.unsure{color:var(--unsure)}
.scroll{overflow-x:auto;margin:1em 0}
table{border-collapse:collapse;font-size:.92rem;font-variant-numeric:tabular-nums}
th,td{padding:.4em .65em;border-bottom:1px solid var(--rule);text-align:right;white-space:nowrap}
thead th{color:var(--faint);font-weight:600}
tbody th{font-weight:600;position:sticky;left:0;background:var(--page);white-space:normal;min-width:8rem}
th:first-child,.left{text-align:left}
.broken td{white-space:normal}
.side{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(17rem,100%),1fr));gap:0 2rem}
.card{background:var(--box);border-radius:.5rem;padding:1rem 1.1rem;margin:1rem 0}
.card p{margin:0;font-size:.9rem}
.card ol{margin:.2em 0 .6em;padding-left:1.4em;font-size:.92rem}
svg{display:block;width:100%;height:auto;max-width:46rem}
svg text{fill:currentColor;font-family:system-ui,sans-serif!important}
"""
_INK = {"#ffffff": "var(--page)", "#000000": "currentColor", "#e0e0e0": "var(--rule)", BLUE.lower(): "var(--blue)"}
"""What the pictures of `plots.style` are drawn with, and what it is on a page that may be dark."""


def html_page(title: str, body: Iterable[str]) -> str:
    """A whole page.

    Args:
        title: of the window, as text.
        body: HTML of our own making, its texts through `html_text`; an ``h1`` is among it.
    """
    head = [
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{html_text(title)}</title>",
        f"<style>{_STYLE}</style>",
    ]
    return "\n".join(['<!doctype html>\n<html lang="en">', *head, "<body><main>", *body, "</main></body>\n</html>\n"])


def html_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    label: str,
    looks: Mapping[str, str] = MappingProxyType({}),
    broken: bool = False,
) -> str:
    """A table in a box of its own, which scrolls in a narrow window; `WORDS` to the left, numbers to the right.

    Args:
        columns: their names.
        rows: of cells; the first one is the name of the row.
        label: what the table shows, for those who hear it.
        looks: by the text of a cell, its class.
        broken: whether a cell may have several lines.
    """

    def cell(column: str, text: str) -> str:
        names = " ".join(filter(None, ["left" if column in WORDS else "", looks.get(text, "")]))
        return f"<td{names and f' class={names!r}'}>{html_text(text)}</td>"

    head = "".join(f'<th scope="col"{" class=left" if c in WORDS else ""}>{html_text(c)}</th>' for c in columns)
    lines = [
        f'<tr><th scope="row">{html_text(name)}</th>{"".join(map(cell, columns[1:], cells))}</tr>'
        for name, *cells in rows
    ]
    box = (
        f'<div class="scroll{" broken" if broken else ""}" role="region" tabindex="0" aria-label="{html_text(label)}">'
    )
    return "\n".join([box, "<table>", f"<thead><tr>{head}</tr></thead>", "<tbody>", *lines, "</tbody></table></div>"])


def inline_figure(figure: Figure, alt: str, caption: str = "") -> str:
    """A picture as `inline_svg`.

    Args:
        figure: drawn in the style of `plots.style`.
        alt: what is to be seen, for those who do not see it.
        caption: to stand below, as text.
    """
    with styled():
        printable_labels(figure)
        figure.savefig(file := io.StringIO(), format="svg", transparent=True)
    return inline_svg(file.getvalue(), alt, caption)


def inline_svg(drawn: str, alt: str, caption: str = "") -> str:
    """A picture that matplotlib has written, as a part of the page: its colours and its type are those of the page.

    Args:
        drawn: the content of the file, in the style of `plots.style`.
        alt: what is to be seen, for those who do not see it.
        caption: to stand below, as text.
    """
    svg = re.sub(r"<metadata>.*?</metadata>", "", drawn[drawn.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(' width="(.*?)" height=".*?"', r' style="min-width:\1"', svg, count=1)  # its own, so that type is read
    used = set(re.findall(r"#([\w-]+)", svg))
    svg = re.sub(' id="(.*?)"', lambda found: found[0] if found[1] in used else "", svg)  # those of others too
    for colour, name in _INK.items():
        svg = svg.replace(colour, name)
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{html_text(alt)}"', 1)
    below = f"<figcaption>{html_text(caption)}</figcaption>" if caption else ""
    return f'<figure class="scroll">{svg.strip()}{below}</figure>'
