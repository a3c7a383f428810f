"""The report of a throughput benchmark: a Markdown table, and every number as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from harness import Row


def throughput_table(rows: Sequence[Row]) -> str:
    """The rows in Markdown: medians with ranges, ratios, memory, and what else the rows have."""
    settings = list(dict.fromkeys(key for row in rows for key in row.setting))
    references = list(dict.fromkeys(other for row in rows for other in row.ratios))
    more = list(dict.fromkeys(key for row in rows for key in row.more))
    numbers = [*(f"× {other}" for other in references), "peak MiB", "of it in the run", *more]
    lines = []
    for row in rows:
        rates = row.sentences_per_second
        cells = [str(row.setting.get(key, "")) for key in settings]
        cells += [row.variant, f"{median(rates):,.1f} ({min(rates):,.1f}–{max(rates):,.1f})"]
        cells += [f"{row.ratios[other]:.2f}" if other in row.ratios else "" for other in references]
        cells += [f"{row.peak_memory_mib:,.0f}", f"{row.peak_memory_mib - row.before_memory_mib:,.0f}"]
        cells += [f"{row.more[key]:,.{2 if '×' in key else 1}f}" if key in row.more else "" for key in more]
        lines.append(cells)
    return table([*settings, "variant", "sentences/s, median (range)", *numbers], lines, left=len(settings) + 1)


def table(names: Sequence[str], lines: Sequence[Sequence[str]], left: int = 1) -> str:
    """Cells in Markdown; the first ``left`` columns are words, the others numbers."""
    rule = ["---"] * left + ["---:"] * (len(names) - left)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (names, rule, *lines)) + "\n"


def in_words(about: dict[str, Any]) -> str:
    """The environment as one line."""
    return ", ".join(f"{name} {value}" for name, value in about.items()) + "\n"


def write(text: str, content: dict[str, Any], markdown: Path | None, json_file: Path | None) -> None:
    """Print the text; write it, and every number, where the options say."""
    print(text)
    if markdown:
        markdown.write_text(text, encoding="utf-8")
    if json_file:
        json_file.write_text(json.dumps(content, indent=1, default=asdict) + "\n", encoding="utf-8")
