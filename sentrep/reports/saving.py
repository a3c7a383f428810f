"""The file of a report, in the format of its ending."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from sentrep.errors import InputError
from sentrep.io.files import write_text
from sentrep.io.paths import check_target, writing


def check_report_path(
    path: str | Path, inputs: Iterable[str | Path] = (), endings: Iterable[str] = (".json", ".md", ".csv")
) -> Path:
    """The path, if a report can be written there in the format of its ending: better known before hours of encoding.

    Args:
        path: of the report.
        inputs: what is read, and must not be replaced.
        endings: the formats there are.

    Raises:
        InputError: for another ending, or a place that cannot be written.
    """
    check_target(path, inputs)
    path = Path(path)
    if path.suffix not in endings:
        raise InputError(f"{path}: no format for the ending {path.suffix!r}; choose one of {', '.join(endings)}")
    return path


def save_as(path: str | Path, formats: Mapping[str, Callable[[], str]]) -> None:
    """Write a report, with the folders above it, in the format of its ending.

    Args:
        path: of the file.
        formats: by ending, what makes the text.

    Raises:
        InputError: for another ending, or a place that cannot be written.
    """
    path = check_report_path(path, endings=formats)
    text = formats[path.suffix]()
    with writing(path):
        write_text(path, text.encode("utf-8", "backslashreplace").decode("utf-8"))  # half a pair, as JSON writes it
