"""The arguments of `SentRepDataModule`, checked before anything is read."""

from __future__ import annotations

from typing import Any

from sentrep import checks
from sentrep.data.sets.sts import PairsFile
from sentrep.errors import InputError


def check_arguments(data: Any) -> None:
    """Refuse values that would fail, or be misunderstood, only in training.

    Args:
        data: a `SentRepDataModule`, with its arguments as attributes.

    Raises:
        InputError: names the argument.
    """
    owner = "data"
    for name in ("train", "pairs"):
        source = getattr(data, name)
        for one in source if isinstance(source, list) else [] if source is None and name == "pairs" else [source]:
            checks.text(owner, **{name: one})
    for name in ("columns", "pair_columns"):
        if getattr(data, name) is not None:
            _check_columns(name, getattr(data, name))
    checks.each(owner, (str, PairsFile), val=data.val, test=data.test)
    paths = checks.given(sts_folder=data.sts_folder, predict=data.predict, cache_dir=data.cache_dir)
    checks.text(owner, split=data.split, **paths)
    checks.whole(owner, 1, batch_size=data.batch_size, shuffle_buffer=data.shuffle_buffer)
    checks.whole(owner, 0, 10_000, num_workers=data.num_workers)
    checks.whole(owner, 0, held_out=data.held_out)
    if data.held_out == 1:
        raise InputError("data: held_out 1: expected 0 (none) or at least 2 sentences")
    checks.whole(owner, 0, 2**63 - 1, **checks.given(seed=data.seed))
    checks.within(owner, 0, 1, open_below=True, fraction=data.fraction)
    checks.flag(owner, streaming=data.streaming, no_duplicates=data.no_duplicates)


def _check_columns(name: str, columns: Any) -> None:
    checks.each("data", (str, int), **{name: columns})
    number = 3 if name == "columns" else 2
    if not (1 if name == "columns" else 2) <= len(columns) <= number:
        expected = "one to three columns" if number == 3 else "two columns (hard negatives are for data.train)"
        raise InputError(f"data: {name} must name {expected}, got {columns}")
    for column in columns:
        if not isinstance(column, str):
            checks.whole("data", 0, **{name: column})
