"""Shared by the commands that make pairs: opening the text, asking a model, and the final table."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from rich.console import Console

from sentrep.cli.commands.maps import row_progress
from sentrep.cli.commands.models import sentences_of
from sentrep.data.augmentation.filters import PairFilter, contrasting
from sentrep.data.augmentation.finished_pairs import VERDICT
from sentrep.data.augmentation.language_model import COUNTS, Answer, LanguageModel, ask_parts
from sentrep.data.augmentation.model_options import Price
from sentrep.data.parts import Parts, Text
from sentrep.data.text.cells import TRIPLET
from sentrep.data.text.corpus import Corpus, CorpusRow, open_corpus
from sentrep.errors import InputError
from sentrep.io.paths import check_target
from sentrep.reports.frames import as_frame, screen_table
from sentrep.reports.text import screen_text

ROWS_ASKED = 64
"""Rows of a part of answers; a kill loses those that are under way."""


def open_sentences(path: str, column: str | None, output: str, ending: str) -> tuple[Corpus, Text]:
    """The corpus to work on, read once to its end.

    Raises:
        InputError: for anything wrong with the file, or with the output that will be written.
    """
    check_target(output, [path])
    if not output.endswith(ending):
        raise InputError(f"cannot write {output}: the output file must end in {ending}")
    corpus = open_corpus(path, None if column is None else [column])
    return corpus, Text.of(sentences_of(corpus), corpus.name)


def versions(*packages: str) -> dict[str, str]:
    """``{package: version}`` for the record."""
    return {package: version(package) for package in packages}


def ask_about(
    corpus: Corpus,
    parts: Parts,
    model: LanguageModel,
    finish: Callable[[CorpusRow, Answer], dict[str, Any]],
    skip_failed: bool,
    price: Price,
) -> None:
    """`ask_parts` with a bar that shows tokens and price.

    Raises:
        InputError: see there.
    """
    used = Counter[str]()
    with row_progress() as progress:
        task = progress.add_task("Asking", total=parts.rows, note="")

        def advance(answer: Answer) -> None:
            used.update({name: getattr(answer, name) for name in COUNTS})
            note = f"{used['input_tokens']:,} tokens in, {used['output_tokens']:,} out"
            cost = price.cost(used["input_tokens"], used["output_tokens"])
            progress.update(task, advance=1, note=f"{note}, cost {cost}" if cost else note)

        asyncio.run(ask_parts(parts, corpus.rows(), model, finish, skip_failed, advance))


def triplet(row: CorpusRow, answer: Answer, check: PairFilter) -> dict[str, Any]:
    """The finished row of a sentence with its paraphrase and its contrary."""
    sentence, found = row.sentences[0], answer.fields or {"paraphrase": "", "contrary": ""}
    verdict = contrasting(check, sentence, **found) if answer.fields else answer.verdict(row.blank)
    return _finished(TRIPLET, (sentence, *found.values()), verdict, answer)


def _finished(columns: Sequence[str], texts: Sequence[str], verdict: str, answer: Answer) -> dict[str, Any]:
    cells = dict(zip(columns, texts, strict=True))
    return {**cells, VERDICT: verdict, **{name: getattr(answer, name) for name in COUNTS}}


def usage(about: Mapping[str, Any], price: Price) -> dict[str, str]:
    """Tokens and price of the answers, for the final table."""
    used = {name.replace("_", " "): f"{about[name]:,}" for name in COUNTS}
    cost = price.cost(about["input_tokens"], about["output_tokens"])
    return used | ({"cost": cost} if cost else {})


def print_verdicts(what: str, verdicts: Mapping[str, int], output: str, more: Mapping[str, str]) -> None:
    """How many rows were kept and why the others were not."""
    rows = sum(verdicts.values())
    counts = [[name, f"{count:,}", f"{count / rows:.1%}"] for name, count in verdicts.items()]
    lines = [*counts, ["all", f"{rows:,}", ""], *([name, value, ""] for name, value in more.items())]
    console = Console()
    console.print(screen_table(as_frame(lines, columns=[what, "rows", "share"])))
    console.print(f"{verdicts.get('kept', 0)} pairs: {screen_text(output)}", soft_wrap=True, highlight=False)
