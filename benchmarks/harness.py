"""What the throughput benchmarks share: one process per measurement, interleaved repeats, medians, the report.

A measurement runs in a process of its own, so that its peak memory is its own (``VmHWM`` of Linux) and no variant warms
a cache for another. The variants of one setting take turns within each repeat, so that a slow minute of the machine
hits all of them; their ratio is the median of the ratios within each repeat.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import lzma
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

PEER = "sentence-transformers"
_LIBRARIES = ("torch", "lightning", "transformers", "tokenizers", "sentence-transformers", "sentrep")


@dataclass(frozen=True)
class Job:
    """What one process measures."""

    variant: str
    model_folder: str
    corpus: str
    """A text file, one sentence a line."""
    precision: str
    batch_size: int
    max_length: int | None
    repeat: int
    settings: dict[str, int]
    """The benchmark's own numbers, for example steps."""


@dataclass(frozen=True)
class Row:
    """All repeats of one variant in one setting."""

    model: str
    precision: str
    variant: str
    sentences_per_second: list[float]
    ratio_to_peer: float
    """Median over the repeats of this variant's rate ÷ the peer's in the same repeat."""
    peak_memory_mib: float
    """Median of the process's largest resident set, libraries included."""
    before_memory_mib: float
    """Median of the resident set when the measured part began: libraries, model and data."""


def arguments(description: str, **defaults: int) -> argparse.Namespace:
    """Parse the options that both benchmarks have, and an option per entry of ``defaults`` (the `Job.settings`)."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--model-folder", nargs="+", required=True, help="transformers folders, each a table section")
    parser.add_argument("--corpus", required=True, help="sentences, one a line; .txt or .txt.xz")
    parser.add_argument("--precision", nargs="+", choices=["fp32", "bf16"], default=["fp32", "bf16"])
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of torch, in every variant")
    parser.add_argument("--json", type=Path, help="write every number and the environment here")
    parser.add_argument("--markdown", type=Path, help="write the table here")
    for name, default in defaults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    options = parser.parse_args()
    for path in (*options.model_folder, options.corpus):
        if not Path(path).exists():
            parser.error(f"{path}: no such file or folder")
    options.settings = {name: getattr(options, name) for name in defaults}
    return options


def write_sentences(corpus: str, count: int, target: Path) -> str:
    """Copy the first ``count`` sentences of a corpus to a plain file; returns its path."""
    opener = lzma.open if corpus.endswith(".xz") else open
    with opener(corpus, "rt", encoding="utf-8") as lines:  # type: ignore[operator]
        sentences = [line.strip() for _, line in zip(range(count), lines, strict=False)]
    if len(sentences) < count:
        sys.exit(f"{corpus}: {len(sentences)} sentences where {count} are needed; lower the sizes or give more text")
    target.write_text("\n".join(sentences) + "\n", encoding="utf-8")
    return str(target)


def run_jobs(
    options: argparse.Namespace, corpus: str, variants: list[str], max_length: int | None = None
) -> tuple[list[Row], list[dict[str, Any]]]:
    """Measure every variant in every setting, variants taking turns.

    Returns:
        The rows of the table, and every single measurement (the job's fields and what its process reported).
    """
    measurements = []
    for folder in options.model_folder:
        for precision in options.precision:
            for repeat in range(options.repeats):
                for variant in variants[repeat % len(variants) :] + variants[: repeat % len(variants)]:
                    job = Job(
                        variant, folder, corpus, precision, options.batch_size, max_length, repeat, options.settings
                    )
                    measurements.append(
                        {**asdict(job), "model": Path(folder).name, **_in_process(job, options.threads)}
                    )
                    print(_progress(measurements[-1]), file=sys.stderr, flush=True)
    return _rows(measurements, variants), measurements


def worker(measure: Callable[[Job], dict[str, Any]]) -> bool:
    """In a process started by `run_jobs`: measure, report on standard output, return True. Elsewhere: return False."""
    if "--job" not in sys.argv:
        return False
    job = Job(**json.loads(sys.argv[sys.argv.index("--job") + 1]))
    report = {**measure(job), "peak_memory_mib": memory_mib("VmHWM")}
    print(json.dumps(report))
    return True


def load_peer(folder: str, pooling: str, max_length: int | None = None) -> Any:
    """A transformers folder as a model of sentence-transformers, in float32.

    It would take the precision of the file otherwise: float16 for some folders, which a CPU computes ten times slower.
    """
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    transformer = Transformer(folder, model_kwargs={"dtype": torch.float32}, max_seq_length=max_length)
    return SentenceTransformer(
        modules=[transformer, Pooling(transformer.get_embedding_dimension(), pooling)], device="cpu"
    )


def weights_dtype(model: Any) -> str:
    """The one type of all weights.

    Raises:
        RuntimeError: when there are several, or another than float32: precisions would not be equal.
    """
    types = {str(weights.dtype) for weights in model.parameters()}
    if types != {"torch.float32"}:
        raise RuntimeError(f"weights are {sorted(types)}, not float32: the comparison would not be fair")
    return types.pop()


def memory_mib(field: str = "VmRSS") -> float:
    """A memory field of this process from /proc (Linux): ``VmRSS`` now, ``VmHWM`` the largest so far, in MiB."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/self/status has no {field}; this benchmark needs Linux")


def environment(options: argparse.Namespace) -> dict[str, Any]:
    """The machine and the libraries, with the load at the start: above about 0.5 the numbers are not to be trusted."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "threads": options.threads,
        "load_at_start": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in _LIBRARIES[:-1]},
        "sentrep": _sentrep_version(),
    }


def report(rows: Sequence[Row], about: dict[str, Any], options: argparse.Namespace, **more: Any) -> None:
    """Print the table; write it, and every number, where the options say."""
    text = _table(rows) + "\n" + ", ".join(f"{name} {value}" for name, value in about.items()) + "\n"
    print(text)
    if options.markdown:
        options.markdown.write_text(text, encoding="utf-8")
    if options.json:
        content = {"environment": about, "rows": [asdict(row) for row in rows], **more}
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _in_process(job: Job, threads: int) -> dict[str, Any]:
    quiet = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "TRANSFORMERS_VERBOSITY": "error"}
    done = subprocess.run(
        [sys.executable, sys.argv[0], "--job", json.dumps(asdict(job))],
        env={**os.environ, **quiet, "OMP_NUM_THREADS": str(threads)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{job.variant} on {job.model_folder} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def _progress(measured: dict[str, Any]) -> str:
    rate = f"{measured['sentences_per_second']:8.1f} sentences/s"
    return f"{measured['model']:20} {measured['precision']} repeat {measured['repeat']}: {rate}  {measured['variant']}"


def _rows(measurements: Sequence[dict[str, Any]], variants: Sequence[str]) -> list[Row]:
    groups: dict[tuple[str, str], dict[str, list[dict[str, Any]]]] = {}
    for item in measurements:
        group = groups.setdefault((item["model"], item["precision"]), {variant: [] for variant in variants})
        group[item["variant"]].append(item)
    rows = []
    for (model, precision), group in groups.items():
        peer = [item["sentences_per_second"] for item in group[PEER]]
        for variant, items in group.items():
            rates = [item["sentences_per_second"] for item in items]
            ratio = median(rate / other for rate, other in zip(rates, peer, strict=True))
            peak, before = (median(item[f"{key}_memory_mib"] for item in items) for key in ("peak", "before"))
            rows.append(Row(model, precision, variant, rates, ratio, peak, before))
    return rows


def _table(rows: Sequence[Row]) -> str:
    lines = [
        f"| model | precision | variant | sentences/s, median (range) | × {PEER} | peak MiB | of it in the run |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        rates = row.sentences_per_second
        spread = f"{median(rates):.1f} ({min(rates):.1f}–{max(rates):.1f})"
        memory = f"{row.peak_memory_mib:.0f} | {row.peak_memory_mib - row.before_memory_mib:.0f}"
        lines.append(
            f"| {row.model} | {row.precision} | {row.variant} | {spread} | {row.ratio_to_peer:.2f} | {memory} |"
        )
    return "\n".join(lines) + "\n"


def _sentrep_version() -> str:
    from sentrep import __version__

    return __version__
