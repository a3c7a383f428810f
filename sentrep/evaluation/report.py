"""Results of an evaluation as a table on the screen and as a file."""

from __future__ import annotations

import csv
import dataclasses
import importlib.metadata
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from sentrep.encoder import SentenceEncoder
from sentrep.encoder.fingerprint import fingerprint
from sentrep.errors import InputError
from sentrep.evaluation.sts import STSResult, senteval_average
from sentrep.version import __version__

_RECORDED = ("torch", "transformers", "tokenizers", "scipy")


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """A finished evaluation: what was scored, how, and the scores."""

    model: str
    """Path or hub id as given."""
    fingerprint: str
    """Hash of weights, tokenizer, prompt and pooling; equal fingerprints mean equal embeddings."""
    pooling: str
    prompt: str | None
    max_seq_length: int | None
    """Longest sequence in tokens; None means the model's own limit."""
    versions: dict[str, str]
    """Of the libraries that the numbers depend on."""
    seconds: float
    """Wall time."""
    results: list[STSResult]
    precision: str = "fp32"
    """What the encoder computed in: ``fp32`` or ``bf16``."""

    @classmethod
    def of(
        cls,
        encoder: SentenceEncoder,
        model: str,
        results: Sequence[STSResult],
        seconds: float,
        precision: str = "fp32",
    ) -> Evaluation:
        """Describe ``encoder``, loaded from ``model``, and what it scored."""
        return cls(
            model=model,
            fingerprint=fingerprint(encoder),
            pooling=encoder.pooling,
            prompt=encoder.prompt,
            max_seq_length=encoder.max_seq_length,
            results=list(results),
            seconds=seconds,
            precision=precision,
            versions={"sentrep": __version__, **{name: importlib.metadata.version(name) for name in _RECORDED}},
        )


def print_results(results: Sequence[STSResult], *, detail: bool = False, console: Console | None = None) -> None:
    """Print one line per set, and the mean of the seven SentEval sets where all are there.

    Args:
        results: of `evaluate_sts`.
        detail: add a line per sub-set, and Pearson's correlation.
        console: where to; None for standard output.
    """
    table = plain_table("set", "pairs", "protocol", "Spearman", *(["Pearson"] if detail else []))
    for result in results:
        pearson = [f"{result.pearson:.2f}"] if detail else []
        table.add_row(result.display_name, str(result.pairs), result.protocol, f"{result.spearman:.2f}", *pearson)
        if detail:
            for name, (pairs, score) in result.per_subset.items():
                table.add_row(f"  {name}", str(pairs), "sub-set", "—" if score is None else f"{score:.2f}", "")
    add_mean(table, _scores(results))
    (console or Console()).print(table)


def plain_table(*columns: str) -> Table:
    """An empty table without frame, text columns to the left (set, protocol) and numbers to the right."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="left" if column in ("set", "protocol") else "right")
    return table


def add_mean(table: Table, scores: Mapping[str, float]) -> None:
    """Add a closing line with the mean: of the seven SentEval sets where all are there, else of all sets."""
    average = senteval_average(scores)
    if average is not None:
        table.add_section()
        table.add_row("Avg.", "", "the seven SentEval sets", f"{average:.2f}")
    elif len(scores) > 1:
        table.add_section()
        table.add_row("mean", "", f"of {len(scores)} sets", f"{sum(scores.values()) / len(scores):.2f}")


def write_report(evaluation: Evaluation, path: str | Path) -> None:
    """Write an evaluation to a file; the ending chooses the format.

    Args:
        evaluation: what to write.
        path: ``.json`` (everything), ``.md`` (a table for people) or ``.csv`` (a row per set and sub-set).

    Raises:
        InputError: for another ending, or a place that cannot be written.
    """
    path = Path(path)
    writers = {".json": _json, ".md": _markdown, ".csv": _csv}
    if path.suffix not in writers:
        raise InputError(f"{path}: no format for the ending {path.suffix!r}; choose one of {', '.join(writers)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(writers[path.suffix](evaluation), encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"{path}: the report cannot be written there ({error.strerror}); choose another file"
        ) from error


def _json(evaluation: Evaluation) -> str:
    content: dict[str, Any] = dataclasses.asdict(evaluation)
    content["average"] = senteval_average(_scores(evaluation.results))
    for result in content["results"]:
        result["per_subset"] = {
            name: {"pairs": pairs, "spearman": score} for name, (pairs, score) in result["per_subset"].items()
        }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _markdown(evaluation: Evaluation) -> str:
    rows = [
        (result.display_name, str(result.pairs), result.protocol, f"{result.spearman:.2f}", f"{result.pearson:.2f}")
        for result in evaluation.results
    ]
    average = senteval_average(_scores(evaluation.results))
    if average is not None:
        rows.append(("**Avg.**", "", "the seven SentEval sets", f"**{average:.2f}**", ""))
    lines = [
        "| set | pairs | protocol | Spearman × 100 | Pearson × 100 |",
        "| --- | ---: | --- | ---: | ---: |",
        *("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows),
        "",
        f"Model `{evaluation.model}` ({evaluation.fingerprint}), pooling {evaluation.pooling}"
        + (f", prompt `{evaluation.prompt}`" if evaluation.prompt else "")
        + f", longest sequence {evaluation.max_seq_length or 'the model’s own'}; "
        + ", ".join(f"{name} {version}" for name, version in evaluation.versions.items())
        + f"; {evaluation.precision}, {evaluation.seconds:.1f} s.",
    ]
    return "\n".join(lines) + "\n"


def _csv(evaluation: Evaluation) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["set", "subset", "pairs", "protocol", "spearman", "pearson"])
    for result in evaluation.results:
        writer.writerow([result.name, "", result.pairs, result.protocol, result.spearman, result.pearson])
        for name, (pairs, score) in result.per_subset.items():
            writer.writerow([result.name, name, pairs, result.protocol, "" if score is None else score, ""])
    return out.getvalue()


def _scores(results: Sequence[STSResult]) -> dict[str, float]:
    return {result.name: result.spearman for result in results}
