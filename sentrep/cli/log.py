"""Messages of a run on standard error."""

from __future__ import annotations

import logging
import sys
import warnings

from lightning.pytorch.utilities.rank_zero import rank_zero_only

from sentrep.io.text import printable


class _StandardError(logging.Handler):
    """Prints the messages of the main process, wherever standard error is at the time."""

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(rank_zero_only, "rank", 0) == 0 and _ADVERTISEMENT not in record.getMessage():
            print("\n".join(map(printable, self.format(record).split("\n"))), file=sys.stderr)


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


def show_log() -> None:
    """Show the counts of read, skipped, cut and unpaired rows."""
    for message in _WARNINGS:
        warnings.filterwarnings("ignore", message=f".*{message}")
    for name in ("sentrep", "lightning.pytorch"):
        logger = logging.getLogger(name)
        logger.handlers = [_StandardError()]
        logger.setLevel(logging.INFO)
