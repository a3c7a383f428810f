"""Text that a function of ours reads, as a data set of ``datasets``: kept in Arrow files, or read while it is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import datasets
import pyarrow as pa

ReadTables: TypeAlias = Callable[[], Iterator[pa.Table]]
"""Gives some rows after the other; all cells are text."""


@dataclass
class TextConfig(datasets.BuilderConfig):
    """The function that a `TextBuilder` reads from."""

    read: ReadTables | None = None


class TextBuilder(datasets.ArrowBasedBuilder):
    """The builders of ``datasets`` for csv and json files read every column and guess its type, some rows at a time."""

    BUILDER_CONFIG_CLASS = TextConfig

    def _info(self) -> datasets.DatasetInfo:
        return datasets.DatasetInfo()

    def _split_generators(self, dl_manager: datasets.DownloadManager) -> list[datasets.SplitGenerator]:
        return [datasets.SplitGenerator("train", {"parts": [self.config.read]})]

    def _generate_tables(self, parts: Sequence[ReadTables]) -> Iterator[tuple[tuple[int, int], pa.Table]]:
        yield from (((0, number), table) for read in parts for number, table in enumerate(read()))


def text_dataset(
    read: ReadTables, columns: Sequence[str], name: str, cache_dir: str | Path | None
) -> datasets.Dataset | datasets.IterableDataset:
    """A data set that is read while it is used; or, with a folder for it, in Arrow files there.

    Args:
        read: gives the rows.
        columns: the names of the columns.
        name: of the files in the folder.
        cache_dir: an existing folder.
    """
    features = datasets.Features({column: datasets.Value("string") for column in columns})
    builder = TextBuilder(cache_dir and str(cache_dir), features=features, config_id=name, read=read)
    if cache_dir is None:
        return builder.as_streaming_dataset("train")
    try:
        builder.download_and_prepare()
    except datasets.exceptions.DatasetGenerationError as error:
        raise error.__cause__ or error from None
    empty = builder.info.splits["train"].num_examples == 0  # what datasets refuses
    return (
        datasets.Dataset.from_dict({column: [] for column in columns}, features)
        if empty
        else builder.as_dataset("train")
    )
