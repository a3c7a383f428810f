"""What the throughput benchmarks share: interleaved repeats, medians, ratios, the report.

On a CPU a measurement runs in a process of its own, so that its peak memory is its own (``VmHWM`` of Linux) and no
variant warms a cache for another. On a GPU, whose allocator tells the peak, all run in one process, which saves the
start-up. The variants of one setting take turns within each repeat, so that a slow minute of the machine hits all of
them; a ratio is the median of the ratios within each repeat.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import inputs
import machine
import tables

OURS, SLOW = "sentrep", "sentrep, fast paths off"
PADDED = "sentrep, padded"
COMPILED, GRAPHS = "sentrep, compiled", "sentrep, CUDA graphs"
CACHED = "sentrep, 32 rows at once"
PEER, PLAIN = "sentence-transformers", "plain HF loop"
HAND, HAND_COMPILED = "best loop by hand", "best loop by hand, compiled"
PROCESSOR = "processor ms a sentence"
"""Of all threads of the process: what a busy machine changes less than the clock's time."""


@dataclass(frozen=True)
class Job:
    """One measurement."""

    variant: str
    setting: dict[str, Any]
    """What its variants share and what makes a section of the table: model, precision, batch, objective."""
    folder: str
    """Of the model, a transformers folder."""
    corpus: str
    """A text file, one sentence a line."""
    device: str
    repeat: int
    settings: dict[str, Any]
    """The benchmark's own numbers, for example steps."""


@dataclass(frozen=True)
class Row:
    """All repeats of one variant in one setting."""

    setting: dict[str, Any]
    variant: str
    sentences_per_second: list[float]
    ratios: dict[str, float]
    """By other variant, the median over the repeats of this variant's rate ÷ the other's in the same repeat."""
    peak_memory_mib: float
    """Median of the largest memory: tensors on a GPU, or the process with its libraries."""
    before_memory_mib: float
    """Median of the memory when the measured part began: libraries, model and data."""
    more: dict[str, float] = field(default_factory=dict)
    """Further columns: medians of what the measurements have under ``more``, and ratios of processor time."""


def parser(description: str, batch_sizes: Sequence[int] = (64,), **defaults: int) -> argparse.ArgumentParser:
    """The options that the throughput benchmarks have, and an option per entry of ``defaults`` (`Job.settings`)."""
    found = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    found.add_argument("--model-folder", nargs="+", default=[], help="transformers folders")
    found.add_argument("--shape", nargs="+", default=[], choices=inputs.SHAPES, help="encoders with random weights")
    found.add_argument("--corpus", help="sentences, one a line; .txt or .txt.xz; without it they are made up")
    found.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    found.add_argument("--precision", nargs="+", choices=["fp32", "bf16"], default=["fp32", "bf16"])
    found.add_argument("--batch-size", nargs="+", type=int, default=list(batch_sizes))
    found.add_argument("--repeats", type=int, default=5)
    found.add_argument("--threads", type=int, default=os.cpu_count(), help="of torch, in every variant")
    found.add_argument("--one-process", action="store_true", help="measure in this process on a CPU too")
    found.add_argument("--json", type=Path, help="write every number and the environment here")
    found.add_argument("--markdown", type=Path, help="write the table here")
    for name, default in defaults.items():
        found.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    found.set_defaults(numbers=list(defaults))
    return found


def parse(found: argparse.ArgumentParser, words: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of the command line, or of ``words``, checked.

    ``settings`` holds the benchmark's own numbers, ``apart`` the threads of a process for each measurement, or None.
    """
    options = found.parse_args(words)
    for path in (*options.model_folder, *filter(None, [options.corpus])):
        if not Path(path).exists():
            found.error(f"{path}: no such file or folder")
    if not options.model_folder and not options.shape:
        options.shape = ["bert-mini", "6x384"]
    if options.corpus is None and options.model_folder and not getattr(options, "lengths", None):
        found.error("--model-folder needs --corpus: made-up sentences are words of the toy tokenizer")
    options.settings = {name: getattr(options, name) for name in options.numbers}
    options.apart = None if options.one_process or options.device == "cuda" else options.threads
    return options


def main(
    found: argparse.ArgumentParser,
    run: Callable[[argparse.Namespace], dict[str, Any]],
    report: Callable[[dict[str, Any]], str],
) -> None:
    """The command line of a benchmark: measure, and report in Markdown."""
    options = parse(found)
    about = machine.environment(options.device, options.threads)
    measured = run(options)
    text = report(measured) + "\n" + tables.in_words(about)
    tables.write(text, {"environment": about, **measured}, options.markdown, options.json)


def folders(options: argparse.Namespace, temporary: Path) -> dict[str, str]:
    """By name, the folders of the models to measure; those with random weights are written."""
    shapes = {shape: inputs.model_folder(shape, temporary) for shape in options.shape}
    return {**{Path(folder).name: folder for folder in options.model_folder}, **shapes}


def present(variants: Iterable[str], needs: Mapping[str, Sequence[str]]) -> list[str]:
    """The variants whose modules (``needs``) are installed; says which are left out."""
    kept = []
    for variant in variants:
        missing = [name for name in needs.get(variant, ()) if not _imports(name)]
        if missing:
            print(f"{variant} is left out: cannot import {', '.join(missing)}", file=sys.stderr)
        else:
            kept.append(variant)
    return kept


def _imports(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:  # of the module, or of one that it cannot do without
        return False
    return True


def run_jobs(
    jobs: Sequence[Job],
    measure: Callable[[Job], dict[str, Any]],
    *,
    repeats: int,
    threads: int | None = None,
    until: float = float("inf"),
) -> list[dict[str, Any]]:
    """Measure all variants of one setting, taking turns.

    Args:
        jobs: one for each variant, with ``repeat`` 0.
        measure: what measures, in this process.
        repeats: how many turns; the first variant of a turn is another one each time.
        threads: run every measurement in a process of its own, with so many threads; None: here.
        until: on `time.monotonic`; no turn begins behind it, except for the first.

    Returns:
        Every single measurement: the job's fields and what was measured. In this process, where one failure would end
        hours of others, a variant that fails is said and left out, unless it is the only one.
    """
    measurements: list[dict[str, Any]] = []
    failed: set[str] = set()
    for repeat in range(repeats):
        if repeat and time.monotonic() > until:
            break
        turn = repeat % len(jobs)
        for job in [*jobs[turn:], *jobs[:turn]]:
            if job.variant in failed:
                continue
            job = Job(**{**asdict(job), "repeat": repeat})
            try:
                found = _here(job, measure) if threads is None else _in_process(job, threads)
            except Exception as error:
                failed.add(job.variant)
                if len(failed) == len(jobs):
                    raise
                print(f"{_words(job.setting)}: {job.variant} failed and is left out: {error!r}", file=sys.stderr)
                measurements = [item for item in measurements if item["variant"] != job.variant]
                continue
            measurements.append({**_without_paths(asdict(job)), **found})
            print(_progress(measurements[-1]), file=sys.stderr, flush=True)
    return measurements


def _without_paths(job: dict[str, Any]) -> dict[str, Any]:
    """Of a machine, which nobody else has."""
    return {
        name: _without_paths(value) if isinstance(value, dict) else value
        for name, value in job.items()
        if name not in ("folder", "corpus")
    }


def _here(job: Job, measure: Callable[[Job], dict[str, Any]]) -> dict[str, Any]:
    machine.forget_peak(job.device)
    with inputs.quiet():
        found = measure(job)
    return {**found, "peak_memory_mib": machine.peak_mib(job.device)}


def worker(measure: Callable[[Job], dict[str, Any]]) -> bool:
    """In a process started by `run_jobs`: measure, report on standard output, return True. Elsewhere: return False."""
    if "--job" not in sys.argv:
        return False
    print(json.dumps(_here(Job(**json.loads(sys.argv[sys.argv.index("--job") + 1])), measure)))
    return True


def _in_process(job: Job, threads: int) -> dict[str, Any]:
    quiet = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, sys.argv[0], "--job", json.dumps(asdict(job))]
    done = subprocess.run(command, env={**os.environ, **quiet}, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{job.variant} on {job.folder} failed:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def _progress(measured: dict[str, Any]) -> str:
    rate = f"{measured['sentences_per_second']:10.1f} sentences/s"
    return f"{_words(measured['setting'])} repeat {measured['repeat']}: {rate}  {measured['variant']}"


def _words(setting: dict[str, Any]) -> str:
    return " ".join(str(value) for value in setting.values())


def rows_of(measurements: Sequence[dict[str, Any]], references: Sequence[str]) -> list[Row]:
    """A row for each setting and variant, in their order; ratios to those of ``references`` that were measured."""
    groups: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for item in sorted(measurements, key=lambda item: item["repeat"]):
        groups.setdefault(_words(item["setting"]), {}).setdefault(item["variant"], []).append(item)
    rows = []
    for group in groups.values():
        rates = {variant: [item["sentences_per_second"] for item in items] for variant, items in group.items()}
        for variant, items in group.items():
            ratios = {
                other: median(rate / base for rate, base in zip(rates[variant], rates[other], strict=True))
                for other in references
                if other in rates
            }
            peak, before = (median(item[f"{key}_memory_mib"] for item in items) for key in ("peak", "before"))
            more = {name: median(item["more"][name] for item in items) for name in items[0].get("more", {})}
            for other in ratios if PROCESSOR in more else ():
                both = zip(items, group[other], strict=True)
                more[f"× {other}, processor"] = median(b["more"][PROCESSOR] / a["more"][PROCESSOR] for a, b in both)
            rows.append(Row(items[0]["setting"], variant, rates[variant], ratios, peak, before, more))
    return rows


def throughput_table(rows: Sequence[Row]) -> str:
    """The rows in Markdown: medians with ranges, ratios, memory, and what else the rows have."""
    settings = list(dict.fromkeys(key for row in rows for key in row.setting))
    references = list(dict.fromkeys(other for row in rows for other in row.ratios))
    more = list(dict.fromkeys(key for row in rows for key in row.more))
    numbers = [*(f"× {other}" for other in references), "peak MiB", "of it in the run", *more]
    lines = []
    for row in rows:
        rates = row.sentences_per_second
        cells = [str(row.setting.get(key, "")) for key in settings]
        cells += [row.variant, f"{median(rates):,.1f} ({min(rates):,.1f}–{max(rates):,.1f})"]
        cells += [f"{row.ratios[other]:.2f}" if other in row.ratios else "" for other in references]
        cells += [f"{row.peak_memory_mib:,.0f}", f"{row.peak_memory_mib - row.before_memory_mib:,.0f}"]
        cells += [f"{row.more[key]:,.{2 if '×' in key else 1}f}" if key in row.more else "" for key in more]
        lines.append(cells)
    return tables.table([*settings, "variant", "sentences/s, median (range)", *numbers], lines, left=len(settings) + 1)
