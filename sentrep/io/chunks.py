"""Rows in lists of a fixed length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def chunks_of(rows: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of ``size`` rows, the last one shorter.

    Examples:
        >>> list(chunks_of("abcde", 2))
        [['a', 'b'], ['c', 'd'], ['e']]
    """
    ahead = iter(rows)
    while chunk := list(islice(ahead, size)):
        yield chunk
