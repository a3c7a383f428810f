"""Shared by all sets in SentEval's layout: find the folder, and read the files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sentrep.data.files import text_cell
from sentrep.errors import InputError
from sentrep.io.paths import check_plain, not_there

_FOLDERS = ("STS", "SICK", "MR", "CR", "SUBJ", "MPQA", "SST", "TREC", "MRPC")


def senteval_place(folder: Path, relative: str, name: str) -> Path:
    """Where a set lies.

    Args:
        folder: the folder that contains ``STS``, ``SICK``, ``MR`` and so on, one of these, or SentEval's own root.
        relative: place of the set in it, for example ``STS/STSBenchmark``.
        name: of the set, for the message.

    Raises:
        InputError: the folder or the set in it is not there.
    """
    if not folder.is_dir():
        raise not_there(folder, "folder")
    roots = [folder, folder / "downstream", folder / "data" / "downstream"]
    roots += [folder.parent] if folder.name in _FOLDERS else []
    place = next((root / relative for root in roots if (root / relative).is_dir()), None)
    if place is None:
        raise InputError(f"{folder}: no {relative} in it for {name}; give the folder that contains {relative}")
    return place


def read_lines(file: Path, *, latin_1: bool = False) -> list[str]:
    """Lines of a UTF-8 file, blank ones included.

    Args:
        file: with or without a byte order mark; lines end at LF or CR LF.
        latin_1: read a file that is not UTF-8 as Latin-1, which some of the transfer tasks are published in.

    Raises:
        InputError: there is no such file, or a line is not UTF-8.
    """
    check_plain(file)
    content = file.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if not latin_1:
            line = content.count(b"\n", 0, error.start) + 1
            raise InputError(f"{file}, line {line}: not valid UTF-8; convert the file to UTF-8") from None
        text = content.decode("latin-1")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = text.removesuffix("\n").split("\n")  # str.splitlines would split at U+2028 too
    return [text_cell(line, f"{file}, line {number}") for number, line in enumerate(lines, start=1)]


def tab_rows(
    file: Path, positions: Sequence[int], *, header: bool = False, latin_1: bool = False
) -> Iterator[tuple[str, list[str]]]:
    """Some of the tab-separated cells of each line, led by what to call it in a message.

    Args:
        file: see `read_lines`.
        positions: of the cells.
        header: leave the first line out.
        latin_1: see `read_lines`.

    Raises:
        InputError: a line has too few cells, or see `read_lines`.
    """
    for number, line in enumerate(read_lines(file, latin_1=latin_1), start=1):
        where, cells = f"{file}, line {number}", line.split("\t")
        if len(cells) <= max(positions):
            raise InputError(f"{where}: {len(cells)} tab-separated cells; expected at least {max(positions) + 1}")
        if number > 1 or not header:
            yield where, [cells[position] for position in positions]
