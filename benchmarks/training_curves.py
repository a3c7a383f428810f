"""Training at growing lengths and batches, beside a plain loop: speed, processor time, peak memory; with a picture.

    python benchmarks/training_curves.py --shape 6x384 --lengths 16 32 64 128 256 512 --picture length.png
    python benchmarks/training_curves.py --shape 6x384 --batch-size 32 64 128 256 512 --picture batch.png

SimCSE as in train_throughput.py, whose training loops these are, on made-up sentences that all fill their length: with
nothing to leave out, sentrep has the least advantage. Every measurement is a process of its own; *peak MiB* counts the
libraries, *of it in the run* what the steps added to libraries, weights and data.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

import harness
import inputs
import machine
import tables
from harness import OURS, PEER, PLAIN, PROCESSOR, Job, Row
from train_throughput import NEEDS, check_losses
from training_loops import COMPUTE, measure


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure what the options ask for: ``rows`` of the table, and ``measurements``."""
    measurements: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary:
        for model, folder in harness.folders(options, Path(temporary)).items():
            for precision in options.precision:
                for length in options.lengths:
                    for batch in options.batch_size:
                        setting = {"model": model, "precision": precision, "length": length, "batch": batch}
                        setting["objective"] = "simcse"
                        corpus = _sentences(length, batch * (options.warmup + options.steps), Path(temporary))
                        settings = {**options.settings, "max_length": length}
                        jobs = [
                            Job(variant, setting, folder, corpus, "cpu", 0, settings)
                            for variant in harness.present(options.variants, NEEDS)
                        ]
                        found = harness.run_jobs(jobs, measure, repeats=options.repeats, threads=options.threads)
                        check_losses(found)
                        measurements += found
    return {"rows": harness.rows_of(measurements, [PEER, PLAIN]), "measurements": measurements}


def _sentences(length: int, count: int, folder: Path) -> str:
    """A file of sentences of at least ``length`` tokens."""
    file = folder / f"{length}x{count}.txt"
    words = " ".join(inputs.made_up_sentences(count * length // 10 + 50)).split()
    file.write_text(
        "\n".join(" ".join(words[row * length :][:length]) for row in range(count)) + "\n", encoding="utf-8"
    )
    return str(file)


def draw(rows: list[Row], file: Path) -> None:
    """Speed, processor time and memory against length, or against batch where one length was measured."""
    from matplotlib.figure import Figure

    axis = "length" if len({row.setting["length"] for row in rows}) > 1 else "batch"
    shown = {
        "sentences a second": lambda row: statistics.median(row.sentences_per_second),
        PROCESSOR: lambda row: row.more[PROCESSOR],
        "peak MiB": lambda row: row.peak_memory_mib,
    }
    several = [key for key in rows[0].setting if key != axis and len({row.setting[key] for row in rows}) > 1]
    lines: dict[str, list[Row]] = {}
    for row in rows:
        lines.setdefault(", ".join([row.variant, *(str(row.setting[key]) for key in several)]), []).append(row)
    figure = Figure(figsize=(12, 4), layout="constrained")
    for panel, (title, value) in zip(figure.subplots(1, 3), shown.items(), strict=True):
        for name, line in lines.items():
            panel.plot([row.setting[axis] for row in line], [value(row) for row in line], marker="o", label=name)
        panel.set(xlabel=axis, title=title, xscale="log")
        if axis == "length" and "MiB" not in title:  # spans magnitudes
            panel.set_yscale("log")
        else:
            panel.set_ylim(0)
        ticks = sorted({row.setting[axis] for row in rows})
        panel.set_xticks(ticks, labels=map(str, ticks), minor=False)
        panel.minorticks_off()
    figure.legend(*panel.get_legend_handles_labels(), loc="outside lower center", ncols=len(lines))
    figure.savefig(file, dpi=110)


def main() -> None:
    """Measure and report."""
    parser = harness.parser("Training at growing lengths and batches.", batch_sizes=(32,), steps=3, warmup=1)
    parser.add_argument("--lengths", nargs="+", type=int, default=[32])
    parser.add_argument("--variants", nargs="+", choices=[PEER, PLAIN, *COMPUTE], default=[PLAIN, OURS])
    parser.add_argument("--picture", type=Path)
    options = harness.parse(parser, corpus_needed=False)
    about = machine.environment("cpu", options.threads)
    found = run(options)
    text = tables.throughput_table(found["rows"]) + "\n" + tables.in_words(about)
    tables.write(text, {"environment": about, **found}, options.markdown, options.json)
    if options.picture:
        draw(found["rows"], options.picture)


if __name__ == "__main__" and not harness.worker(measure):
    main()
