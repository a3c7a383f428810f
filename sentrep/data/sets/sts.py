"""Semantic textual similarity sets: a SentEval folder, the Hub, or any file of two sentences and a score."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sentrep.data import toy
from sentrep.data.files import cells_of, shown, text_cell
from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.data.sets.senteval import read_lines, senteval_place, tab_rows
from sentrep.data.text import from_hub
from sentrep.errors import InputError, did_you_mean
from sentrep.io.paths import check_name, check_plain, expanded

logger = logging.getLogger("sentrep")


@dataclass
class PairsFile:
    """A file of two sentences and a score a row: csv, tsv, jsonl or parquet, compressed or not."""

    path: str
    """The file."""
    columns: tuple[str | int, str | int, str | int] = ("sentence1", "sentence2", "score")
    """Names in the header, or positions from 0 in a csv or tsv file without a header."""
    name: str | None = None
    """Name of the set in logs and reports; None means the file's name without its extensions."""


class _Set(NamedTuple):
    """A named set: its size, and its place in a folder and on the Hub."""

    pairs: int
    """Number of pairs in the complete set."""
    folder: str
    """Where it lies in a SentEval folder."""
    hub: tuple[str, str] | None
    """Data set and split on the Hub."""
    files: tuple[str, ...] = ()
    """Files in the folder; none means the STS.input and STS.gs files."""


_SICK_FILES = ("SICK_train.txt", "SICK_trial.txt", "SICK_test_annotated.txt")
_SICK_ALL = ("mteb/sickr-sts", "test")
_SETS = {
    "sts12": _Set(3108, "STS/STS12-en-test", ("mteb/sts12-sts", "test")),
    "sts13": _Set(1500, "STS/STS13-en-test", ("mteb/sts13-sts", "test")),
    "sts14": _Set(3750, "STS/STS14-en-test", ("mteb/sts14-sts", "test")),
    "sts15": _Set(3000, "STS/STS15-en-test", ("mteb/sts15-sts", "test")),
    "sts16": _Set(1186, "STS/STS16-en-test", ("mteb/sts16-sts", "test")),
    "stsb": _Set(1379, "STS/STSBenchmark", ("mteb/stsbenchmark-sts", "test"), ("sts-test.csv",)),
    "stsb-dev": _Set(1500, "STS/STSBenchmark", ("mteb/stsbenchmark-sts", "validation"), ("sts-dev.csv",)),
    "sickr": _Set(4927, "SICK", None, _SICK_FILES[2:]),
    "sickr-dev": _Set(500, "SICK", None, _SICK_FILES[1:2]),
    "sickr-all": _Set(9927, "SICK", _SICK_ALL, _SICK_FILES),
}
_TOY = {"toy-dev": "dev", "toy-test": "test"}
SET_NAMES = (*_SETS, *_TOY)
"""Every name that `load_sts` knows."""

_Pair = tuple[str, str, float]


def load_sts(spec: str | PairsFile, folder: str | Path | None = None) -> ScoredPairs:
    """Read one evaluation set.

    All sub-sets of a year are pooled (the "all" setting), pairs without a gold score are left out: the protocol of
    SentEval, with the pair counts that papers report. SICK-R on the Hub is one set of train, dev and test together
    (MTEB's protocol); the published split needs the folder.

    Args:
        spec: a name of `SET_NAMES`, a `PairsFile`, or the path of a file with the columns sentence1, sentence2, score.
        folder: the folder that contains ``STS`` and ``SICK`` (or one of these two); None takes the sets from the Hub.

    Raises:
        InputError: an unknown name, an incomplete set, a score that is not a finite number, an unreadable file.
    """
    if isinstance(spec, PairsFile):
        return _load_pairs_file(spec)
    check_name(spec, "the evaluation set")
    name = spec.lower()
    if name in _TOY:
        return toy.scored_pairs(_TOY[name])
    if name in _SETS:
        return _load_from_hub(name) if folder is None else _load_from_folder(name, expanded(folder))
    if expanded(spec).exists() or "/" in spec or "." in spec:
        return _load_pairs_file(PairsFile(spec))
    known = f"{did_you_mean(name, SET_NAMES) or ';'} known are {', '.join(SET_NAMES)}"
    raise InputError(f"unknown evaluation set {spec!r}{known} and files (csv, tsv, jsonl, parquet)")


def set_name(spec: Any) -> str:
    """The name of an evaluation set in logs, without reading it.

    Args:
        spec: of `load_sts`, or anything with the fields of a `PairsFile`.
    """
    if isinstance(spec, str):
        return spec.lower() if spec.lower() in SET_NAMES else set_name(PairsFile(spec))
    return spec.name or expanded(spec.path).name.split(".")[0]


def load_all_sts(specs: Sequence[str | PairsFile], folder: str | Path | None = None) -> list[ScoredPairs]:
    """Several evaluation sets, see `load_sts`.

    Raises:
        InputError: two of them have one name.
    """
    sets = [load_sts(spec, folder) for spec in specs]
    names = [pairs.name for pairs in sets]
    if twice := {name for name in names if names.count(name) > 1}:
        raise InputError(f"evaluation sets {', '.join(sorted(twice))} are listed twice; give each `name` once")
    return sets


def number_cell(value: Any, where: str) -> float:
    """A cell as a number, a score.

    Raises:
        InputError: it is none, or not finite.
    """
    with contextlib.suppress(TypeError, ValueError):
        if math.isfinite(number := float(value)):
            return number
    raise InputError(f"{where}: the score {shown(value)} is not a finite number")


def _scored_pairs(name: str, pairs: list[_Pair], protocol: str, expected: int, where: str) -> ScoredPairs:
    if len(pairs) != expected:
        raise InputError(f"{where}: {len(pairs)} scored pairs of {name} where {expected} are expected; is it complete?")
    first, second, scores = (list(column) for column in zip(*pairs, strict=True))
    return ScoredPairs(name, first, second, scores, protocol)


# --- a file -----------------------------------------------------------------------------------------------------------


def _load_pairs_file(spec: PairsFile) -> ScoredPairs:
    path = expanded(spec.path)
    check_plain(path)
    if len(spec.columns) != 3:
        raise InputError(f"{path}: columns {list(spec.columns)}; expected three: sentence, sentence, score")
    pairs: list[_Pair] = []
    blank = 0
    rows = cells_of(str(path), list(map(str, spec.columns)))
    next(rows)
    for number, (first, second, score) in enumerate(rows, start=1):
        where = f"{path}, row {number}"
        first, second = text_cell(first, where), text_cell(second, where)
        if not (first.strip() and second.strip()):
            blank += 1
            continue
        pairs.append((first, second, number_cell(score, where)))
    if blank:
        logger.warning("%s: %d rows without two sentences are left out", path, blank)
    if len({score for *_, score in pairs}) < 2:
        raise InputError(f"{path}: {len(pairs)} pairs; a correlation needs at least two, with different scores")
    return _scored_pairs(set_name(spec), pairs, "pairs file", len(pairs), str(path))


# --- the Hub ----------------------------------------------------------------------------------------------------------


def _load_from_hub(name: str) -> ScoredPairs:
    known = _SETS[name]
    if known.hub is None:
        raise InputError(f"{name}: the Hub has sickr-all only; give the folder of the SentEval data (`sts_folder`)")
    pairs = [
        (row["sentence1"], row["sentence2"], number_cell(row["score"], f"{known.hub[0]}, row {number}"))
        for number, row in enumerate(from_hub(*known.hub), start=1)
    ]
    return _scored_pairs(name, pairs, "MTEB", known.pairs, known.hub[0])


# --- a SentEval folder ------------------------------------------------------------------------------------------------


def _load_from_folder(name: str, folder: Path) -> ScoredPairs:
    known = _SETS[name]
    place = senteval_place(folder, known.folder, name)
    if not known.files:
        pairs = list(_read_year(place))
    else:
        read = _read_sick if known.folder == "SICK" else _read_benchmark
        pairs = [pair for file in known.files for pair in read(place / file)]
    protocol = "MTEB (train + dev + test)" if name == "sickr-all" else "SentEval (all)"
    return _scored_pairs(name, pairs, protocol, known.pairs, str(place))


def _read_year(folder: Path) -> Iterator[_Pair]:
    for sentences_file in sorted(folder.glob("STS.input.*.txt")):
        scores_file = folder / sentences_file.name.replace("STS.input.", "STS.gs.", 1)
        pairs, scores = list(tab_rows(sentences_file, (0, 1))), read_lines(scores_file)
        if len(pairs) != len(scores):
            raise InputError(f"{scores_file}: {len(scores)} lines where {sentences_file.name} has {len(pairs)}")
        for number, ((_, (first, second)), score) in enumerate(zip(pairs, scores, strict=True), start=1):
            if score.strip():  # a pair without a gold score is not part of the set
                yield first, second, number_cell(score, f"{scores_file}, line {number}")


def _read_benchmark(file: Path) -> Iterator[_Pair]:
    for where, (score, first, second) in tab_rows(file, (4, 5, 6)):
        yield first, second, number_cell(score, where)


def _read_sick(file: Path) -> Iterator[_Pair]:
    for where, (first, second, score) in tab_rows(file, (1, 2, 3), header=True):
        yield first, second, number_cell(score, where)
