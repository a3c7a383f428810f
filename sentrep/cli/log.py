"""Messages of a run on standard error."""

from __future__ import annotations

import logging
import sys
import warnings
from pathlib import Path

from lightning.pytorch.utilities.rank_zero import rank_zero_only

from sentrep.io.text import printable


class _StandardError(logging.Handler):
    """Prints the messages of the main process, wherever standard error is at the time."""

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(rank_zero_only, "rank", 0) == 0 and _ADVERTISEMENT not in record.getMessage():
            print("\n".join(map(printable, self.format(record).split("\n"))), file=sys.stderr)


_PACKAGE = Path(__file__).parents[1]
_format_others = warnings.formatwarning
_ADVERTISEMENT = "💡 Tip"
"""The beginning of Lightning's advertisements."""
_WARNINGS = (
    "isinstance.treespec, LeafSpec",
    "Total length of `list` across ranks is zero",
    "Checkpoint directory .* exists and is not empty",
    r"Found \d+ module.s. in eval mode",
    "The dirpath has changed from",
)
"""Warnings that a user cannot fix: of Lightning's own code, a resumed run's folder, frozen copies, a scored file."""


def _format_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """A warning of sentrep is a sentence for the user; its line of code is left out."""
    if Path(filename).is_relative_to(_PACKAGE):
        return f"sentrep: warning: {printable(str(message))}\n"
    return _format_others(message, category, filename, lineno, line)


def show_log() -> None:
    """Show warnings, and the counts of read, skipped, cut and unpaired rows."""
    warnings.formatwarning = _format_warning
    for message in _WARNINGS:
        warnings.filterwarnings("ignore", message=f".*{message}")
    for name in ("sentrep", "lightning.pytorch"):
        logger = logging.getLogger(name)
        logger.handlers = [_StandardError()]
        logger.setLevel(logging.INFO)
