"""What `SentRepDataModule` takes besides its plain arguments, and their checks before anything is read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from torchmetrics import Metric

from sentrep import checks
from sentrep.data.sets.sts import PairsFile
from sentrep.data.text.cells import shown
from sentrep.data.text.corpus import checked_columns
from sentrep.data.text.memory import EXPECTED, in_memory
from sentrep.data.text.tokenized import LONGEST_LINE
from sentrep.errors import InputError


@dataclass(frozen=True)
class Reading:
    """How text is read and kept (``data.reading``)."""

    split: str = "train"
    """The split, where ``train``, ``pairs`` or ``predict`` is a data set with several."""
    pair_columns: list[str | int] | None = None
    """The two columns of ``data.pairs``; None picks the usual names."""
    fraction: float = 1.0
    """Share of the training text to use, in (0, 1]."""
    cache_dir: str | None = None
    """Where the tokenised text is kept; None means ``$SENTREP_CACHE`` or ``~/.cache/sentrep``."""
    longest_line: int = LONGEST_LINE
    """Characters of a training sentence; the rest of a longer one is left out (counted)."""
    num_workers: int = 0
    """Processes that tokenise the text, and prepare batches ahead."""
    streaming: bool = False
    """Read the text while training instead of tokenising it first, for text larger than the disk; see
    `sentrep.data.StreamedBatches`. The length is unknown then, so the trainer needs ``max_steps``."""
    shuffle_buffer: int = 10_000
    """Rows in memory that streaming shuffles at a time."""


AS_USUAL = Reading()
_WHOLE = ("pairs", "no_duplicates")
"""The settings that need random access to all rows."""


def check_arguments(data: Any) -> None:
    """Refuse values that would fail, or be misunderstood, only in training.

    Args:
        data: a `SentRepDataModule`, with its arguments as attributes.

    Raises:
        InputError: names the argument.
    """
    owner = "data"
    checks.instance(owner, Reading, reading=data.reading)
    if data.pairs is not None:
        _check_source("pairs", data.pairs)
    _check_source("train", data.train)
    checked_columns(data.columns, "data: columns")
    checks.each(owner, (str, PairsFile), val=data.val, test=data.test)
    checks.instance("data.metrics", Metric, **data.metrics)
    checks.text(owner, **checks.given(sts_folder=data.sts_folder, predict=data.predict))
    checks.whole(owner, 1, batch_size=data.batch_size)
    checks.whole(owner, 0, 2**63 - 1, **checks.given(seed=data.seed))
    checks.flag(owner, no_duplicates=data.no_duplicates)
    owner, reading = "data.reading", data.reading
    checked_columns(reading.pair_columns, "data: reading.pair_columns", 2, 2)
    checks.text(owner, split=reading.split, **checks.given(cache_dir=reading.cache_dir))
    checks.whole(owner, 1, shuffle_buffer=reading.shuffle_buffer)
    checks.whole(owner, 1, 10**9, longest_line=reading.longest_line)
    checks.whole(owner, 0, max(64, 4 * (os.cpu_count() or 1)), num_workers=reading.num_workers)
    checks.within(owner, 0, 1, open_below=True, fraction=reading.fraction)
    checks.flag(owner, streaming=reading.streaming)
    needed = {"reading.fraction": reading.fraction != 1, **{name: getattr(data, name) for name in _WHOLE}}
    if reading.streaming and (asked := " and ".join(f"data.{name}" for name in needed if needed[name])):
        raise InputError(
            f"data.reading.streaming never holds the whole text in memory, which {asked} needs: remove one of them"
        )


def _check_source(name: str, source: Any) -> None:
    if in_memory(source):
        return  # its cells are checked as they are read
    if not isinstance(source, (str, list)):
        raise InputError(f"data: {name} must be {EXPECTED}, got {shown(source)}")
    for one in source if isinstance(source, list) else [source]:
        checks.text("data", **{name: one})
