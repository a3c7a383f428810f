"""What `SentRepDataModule` takes besides its plain arguments, and their checks before anything is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sentrep import checks
from sentrep.data.sets.sts import PairsFile
from sentrep.data.text.cells import shown
from sentrep.data.text.lines import LONGEST_LINE
from sentrep.data.text.memory import EXPECTED, in_memory
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
    """Characters of a sentence; of a longer one the rest is not read (counted), before it fills the memory."""
    num_workers: int = 0
    """Processes that prepare batches ahead."""
    streaming: bool = False
    """Read the text while training instead of tokenising it first, for text larger than the disk; see
    `sentrep.data.StreamedBatches`. The length is unknown then, so the trainer needs ``max_steps``."""
    shuffle_buffer: int = 10_000
    """Rows in memory that streaming shuffles at a time."""


AS_USUAL = Reading()


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
    _check_columns("columns", data.columns, 1, 3)
    checks.each(owner, (str, PairsFile), val=data.val, test=data.test)
    checks.text(owner, **checks.given(sts_folder=data.sts_folder, predict=data.predict))
    checks.whole(owner, 1, batch_size=data.batch_size)
    checks.whole(owner, 2 if data.held_out == 1 else 0, held_out=data.held_out)  # a ranking needs two
    checks.whole(owner, 0, 2**63 - 1, **checks.given(seed=data.seed))
    checks.flag(owner, no_duplicates=data.no_duplicates)
    owner, reading = "data.reading", data.reading
    _check_columns("reading.pair_columns", reading.pair_columns, 2, 2)
    checks.text(owner, split=reading.split, **checks.given(cache_dir=reading.cache_dir))
    checks.whole(owner, 1, shuffle_buffer=reading.shuffle_buffer)
    checks.whole(owner, 1, 10**9, longest_line=reading.longest_line)
    checks.whole(owner, 0, 10_000, num_workers=reading.num_workers)
    checks.within(owner, 0, 1, open_below=True, fraction=reading.fraction)
    checks.flag(owner, streaming=reading.streaming)


def _check_source(name: str, source: Any) -> None:
    if in_memory(source):
        return  # its cells are checked as they are read
    if not isinstance(source, (str, list)):
        raise InputError(f"data: {name} must be {EXPECTED}, got {shown(source)}")
    for one in source if isinstance(source, list) else [source]:
        checks.text("data", **{name: one})


def _check_columns(name: str, columns: Any, least: int, most: int) -> None:
    if columns is None:
        return
    checks.each("data", (str, int), **{name: columns})
    if not least <= len(columns) <= most:
        expected = "one to three columns" if most == 3 else "two columns (hard negatives are for data.train)"
        raise InputError(f"data: {name} must name {expected}, got {columns}")
    for column in columns:
        if not isinstance(column, str):
            checks.whole("data", 0, **{name: column})
