"""Which log messages a command shows."""

from __future__ import annotations

import logging
import sys

from lightning.pytorch.utilities.rank_zero import rank_zero_only

from sentrep.io.harmless import printable


class _StandardError(logging.Handler):
    """Prints the messages of the main process, wherever standard error is at the time."""

    def emit(self, record: logging.LogRecord) -> None:
        if rank_zero_only.rank == 0:  # type: ignore[attr-defined]
            print("\n".join(map(printable, self.format(record).split("\n"))), file=sys.stderr)


def show_log() -> None:
    """Let everyone see what was read, left out, cut, or paired with itself, and no advertisements."""
    logging.getLogger("lightning.pytorch.utilities.rank_zero").addFilter(_is_no_advertisement)
    logger = logging.getLogger("sentrep")
    if not logger.handlers:
        logger.addHandler(_StandardError())
        logger.setLevel(logging.INFO)


def _is_no_advertisement(record: logging.LogRecord) -> bool:
    return "Tip: For seamless" not in record.getMessage()
