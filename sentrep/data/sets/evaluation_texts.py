"""The bare sentences of any evaluation set, for questions about text rather than about scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from sentrep.data.sets.beir import load_retrieval
from sentrep.data.sets.labelled import LabelledTexts, find_split, load_labelled_file
from sentrep.data.sets.sts import SET_NAMES, load_sts
from sentrep.data.sets.transfer import TRANSFER_NAMES, load_transfer
from sentrep.data.text.corpus import open_corpus
from sentrep.data.text.tables import TableFile
from sentrep.errors import InputError, did_you_mean
from sentrep.io.paths import expanded


@dataclass(frozen=True)
class EvaluationTexts:
    """Every text of one evaluation set."""

    name: str
    texts: list[str]


def load_evaluation_texts(
    spec: str,
    folder: str | Path | None = None,
    split: str = "test",
    columns: Sequence[str | int] | None = None,
) -> EvaluationTexts:
    """Read the scored texts of one evaluation set, without the texts that fit a classifier.

    Args:
        spec: a name of `SET_NAMES` or `TRANSFER_NAMES`; a folder in BEIR's layout (its queries and documents); a folder
            with a table per split; or a file of sentences, of sentence pairs or of texts with labels.
        folder: the folder of the SentEval data, where named sets lie; None takes similarity sets from the hub.
        split: which split of a folder.
        columns: which columns of files and tables hold texts; None looks for ``sentence1, sentence2`` and for what
            `TableFile.rows` knows.

    Raises:
        InputError: there is no such set, or it cannot be read.
    """
    key, path = spec.lower(), expanded(spec)
    if key in SET_NAMES:
        pairs = load_sts(spec, folder)
        return EvaluationTexts(pairs.name, [*pairs.first, *pairs.second])
    if key in TRANSFER_NAMES:
        if folder is None:
            raise InputError(f"{spec}: where is it? Give the folder of the SentEval data, which contains MR, CR, ...")
        splits = load_transfer(spec, folder).splits
        return EvaluationTexts(key, _labelled(splits["test" if "test" in splits else "all"]))
    if path.is_dir():
        return EvaluationTexts(path.resolve().name, _folder(path, split, columns))
    if path.is_file():
        return EvaluationTexts(path.name.split(".")[0], list(_file(path, columns)))
    known = (*SET_NAMES, *TRANSFER_NAMES)
    nearby = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    hint = did_you_mean(key, known) or did_you_mean(path.name, nearby) or f"; known are {', '.join(known)}"
    raise InputError(f"{spec}: no such evaluation set, file or folder{hint}")


def _folder(path: Path, split: str, columns: Sequence[str | int] | None) -> list[str]:
    if not (path / "corpus.jsonl").is_file():
        table = find_split(path, split)
        return _labelled(load_labelled_file(table)) if columns is None else list(_file(table, columns))
    ranking = load_retrieval(path, split)
    return [*ranking.queries.values(), *(text for _, text in ranking.documents())]


def _labelled(part: LabelledTexts) -> list[str]:
    return [*part.texts, *(part.second or [])]


def _file(path: Path, columns: Sequence[str | int] | None) -> Iterable[str]:
    if columns is None and set(PAIR_COLUMNS) <= set(TableFile(path).columns()):
        columns = PAIR_COLUMNS
    return chain.from_iterable(row.sentences for row in open_corpus(path, columns).rows())


PAIR_COLUMNS = ("sentence1", "sentence2")
"""The usual names in a file of sentence pairs."""
