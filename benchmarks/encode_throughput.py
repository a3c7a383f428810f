"""Encoding speed and memory of sentrep beside sentence-transformers.

    python benchmarks/encode_throughput.py --model-folder BERT_MINI MINILM --corpus wiki1m.txt.xz

Both encode the same sentences, mean pooling, the model's own length limit, with ``encode(sentences, batch_size=...)``;
both sort by length. bf16 is autocast around the call. Tokenising counts; a first call on two batches does not. The
float32 embeddings of the two must agree to 1e-5, else the benchmark stops.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from pathlib import Path
from typing import Any

import harness
from harness import PEER, Job

OURS = "sentrep"


def load(job: Job) -> Any:
    """The variant's encoder, with `encode`."""
    if job.variant == PEER:
        return harness.load_peer(job.model_folder, "mean")
    from sentrep import SentenceEncoder

    return SentenceEncoder(job.model_folder, pooling="mean").eval()


def measure(job: Job) -> dict[str, Any]:
    """One variant: rate, memory, and where its embeddings lie."""
    import numpy as np
    import torch

    encoder = load(job)
    dtype = harness.weights_dtype(encoder)
    sentences = Path(job.corpus).read_text(encoding="utf-8").splitlines()
    autocast = torch.autocast("cpu", torch.bfloat16) if job.precision == "bf16" else contextlib.nullcontext()
    with autocast:
        encoder.encode(sentences[: 2 * job.batch_size], batch_size=job.batch_size, show_progress_bar=False)
        before = harness.memory_mib()
        start = time.perf_counter()
        vectors = encoder.encode(sentences, batch_size=job.batch_size, show_progress_bar=False)
        seconds = time.perf_counter() - start
    file = f"{job.corpus}.{Path(job.model_folder).name}.{job.variant}.{job.precision}.npy"
    np.save(file, np.asarray(vectors, dtype=np.float32))
    rate = len(sentences) / seconds
    return {"sentences_per_second": rate, "before_memory_mib": before, "weights": dtype, "vectors": file}


def largest_difference(measurements: list[dict[str, Any]]) -> dict[str, float]:
    """By model and precision, the largest difference between any two variants' unit vectors, in any coordinate."""
    import numpy as np

    differences: dict[str, float] = {}
    for item in measurements:
        key = f"{item['model']} {item['precision']}"
        ours, peer = (np.load(file) for file in (item["vectors"], item["vectors"].replace(f".{OURS}.", f".{PEER}.")))
        ours, peer = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in (ours, peer))
        differences[key] = max(differences.get(key, 0.0), float(np.abs(ours - peer).max()))
    return differences


def main() -> None:
    """Measure and report."""
    options = harness.arguments("Encoding speed beside sentence-transformers.", sentences=4000)
    about = harness.environment(options)
    with tempfile.TemporaryDirectory() as folder:
        corpus = harness.write_sentences(options.corpus, options.sentences, Path(folder) / "sentences.txt")
        rows, measurements = harness.run_jobs(options, corpus, [PEER, OURS])
        differences = largest_difference(measurements)
    if apart := {key: value for key, value in differences.items() if key.endswith("fp32") and value > 1e-5}:
        raise SystemExit(f"the variants do not compute the same embeddings: {apart}")
    harness.report(rows, about, options, largest_difference=differences, measurements=measurements)


if __name__ == "__main__" and not harness.worker(measure):
    main()
