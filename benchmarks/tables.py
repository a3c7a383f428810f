"""Tables in Markdown, and the files of a benchmark: its report, and every number as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any


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
