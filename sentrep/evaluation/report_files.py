"""An evaluation as a file: JSON with everything, Markdown for people, CSV for tables."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sentrep.errors import InputError
from sentrep.evaluation.report import Evaluation, average, columns, main_scores, metric_name, set_name
from sentrep.evaluation.results import TaskResult
from sentrep.evaluation.sts import side_by_side
from sentrep.io.files import write_text
from sentrep.io.harmless import csv_text, markdown_text
from sentrep.io.paths import check_target, writing


def check_report_path(path: str | Path, inputs: Iterable[str | Path] = ()) -> Path:
    """The path, if a report can be written there in the format of its ending: better known before hours of encoding.

    Args:
        path: of the report.
        inputs: what is read, and must not be replaced.

    Raises:
        InputError: for another ending, or a place that cannot be written.
    """
    check_target(path, inputs)
    path = Path(path)
    if path.suffix not in _WRITERS:
        raise InputError(f"{path}: no format for the ending {path.suffix!r}; choose one of {', '.join(_WRITERS)}")
    return path


def write_report(evaluation: Evaluation, path: str | Path) -> None:
    """Write an evaluation to a file; the ending chooses the format.

    Args:
        evaluation: what to write.
        path: ``.json`` (everything), ``.md`` (a table for people) or ``.csv`` (a row per set and sub-set).

    Raises:
        InputError: for another ending, or a place that cannot be written.
    """
    path = check_report_path(path)
    save_text(path, _WRITERS[path.suffix](evaluation))


def save_text(path: Path, content: str) -> None:
    """Write a report, with the folders above it.

    Raises:
        InputError: for a place that cannot be written.
    """
    text = content.encode("utf-8", "backslashreplace").decode("utf-8")  # half a pair, as JSON writes it
    with writing(path):
        write_text(path, text)


def markdown_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a Markdown table; the first two rows are its head and its rule. No cell leaves its place."""
    return ["| " + " | ".join(c if isinstance(c, Markup) else markdown_text(c) for c in row) + " |" for row in rows]


class Markup(str):
    """A cell of our own making, which is Markdown already."""

    __slots__ = ()


def _json(evaluation: Evaluation) -> str:
    content: dict[str, Any] = dataclasses.asdict(evaluation)
    scores = main_scores(evaluation.results)
    found = average(scores)
    content["average"] = None if found is None else found[1]
    if evaluation.suite == "sts":
        content["protocols"] = side_by_side(scores)
    content["results"] = [_record(task) for task in evaluation.results]
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _record(task: TaskResult) -> dict[str, Any]:
    main, unit = next(iter(task.scores)), list(task.counts)[-1]
    record = {"name": task.name, **task.counts, "protocol": task.protocol, "split": task.split, "dataset": task.dataset}
    record |= task.scores
    if task.per_subset or main == "spearman":
        record["per_subset"] = {name: {unit: count, main: score} for name, (count, score) in task.per_subset.items()}
    return record


def _markdown(evaluation: Evaluation) -> str:
    tasks = evaluation.results
    counts, metrics = columns(tasks, "counts"), columns(tasks, "scores")
    header = ["set", *counts, "protocol", *(f"{metric_name(metric)} × 100" for metric in metrics)]
    rule = ["---", *["---:"] * len(counts), "---", *["---:"] * len(metrics)]
    rows = [
        [set_name(task.name), *(str(task.counts.get(c, "")) for c in counts), task.protocol]
        + [f"{task.scores[m]:.2f}" if m in task.scores else "" for m in metrics]
        for task in tasks
    ]
    if (found := average(main_scores(tasks))) is not None:
        rest = [""] * (len(metrics) - 1)
        rows.append([Markup("**Avg.**"), *[""] * len(counts), found[0], Markup(f"**{found[1]:.2f}**"), *rest])
    lines = markdown_table([header, rule, *rows])
    lines += ["", *(f"{markdown_text(note)}\n" for note in evaluation.notes), _description(evaluation)]
    return "\n".join(lines) + "\n"


def _description(evaluation: Evaluation) -> str:
    return (
        f"Model {markdown_text(evaluation.model)} ({evaluation.fingerprint}), pooling {evaluation.pooling}"
        + (f", prompt {markdown_text(evaluation.prompt)}" if evaluation.prompt else "")
        + f", longest sequence {evaluation.max_seq_length or 'the model’s own'}; "
        + ", ".join(f"{name} {version}" for name, version in evaluation.versions.items())
        + f"; {evaluation.precision}, {evaluation.seconds:.1f} s."
    )


def _csv(evaluation: Evaluation) -> str:
    tasks = evaluation.results
    counts, metrics = columns(tasks, "counts"), columns(tasks, "scores")
    out = io.StringIO()
    writer = csv.DictWriter(out, ["set", "subset", *counts, "protocol", *metrics], restval="", lineterminator="\n")
    writer.writeheader()
    for task in tasks:
        writer.writerow({"set": csv_text(task.name), **task.counts, "protocol": csv_text(task.protocol), **task.scores})
        main, unit = next(iter(task.scores)), list(task.counts)[-1]
        for name, (count, score) in task.per_subset.items():
            cells = {unit: count, "protocol": csv_text(task.protocol), main: "" if score is None else score}
            writer.writerow({"set": csv_text(task.name), "subset": csv_text(name), **cells})
    return out.getvalue()


_WRITERS = {".json": _json, ".md": _markdown, ".csv": _csv}
