"""Encoding speed and memory of sentrep beside sentence-transformers and a plain loop.

    python benchmarks/encode_throughput.py --shape bert-mini 6x384 [--device cuda]
    python benchmarks/encode_throughput.py --model-folder BERT_MINI MINILM --corpus wiki1m.txt.xz

All encode the same sentences, mean pooling, the model's own length limit. sentrep and sentence-transformers do it with
``encode(sentences, batch_size=...)``; both sort by length. The plain loop tokenises everything, sorts by length, and
takes batches of equal size. bf16 is autocast around the call. "onnxruntime" runs the graph of
`sentrep.encoder.write_graph` in sentrep's batches, in the rows of fp32, where the extra is installed. Tokenising
counts; first calls on two batches and on one sentence do not. In float32 the unit vectors of any two must agree to 1e-6
in every coordinate, else the benchmark stops. Then a hundred sentences are encoded one by one (*alone*). Processor time
is that of all threads of the process.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import inputs
import machine
from harness import OURS, PEER, PLAIN, PROCESSOR, Job

GRAPH = "onnxruntime"
NEEDS = {PEER: ("sentence_transformers",), GRAPH: ("onnx", "onnxscript", "onnxruntime")}
TOLERANCE = 1e-6


def encoder(job: Job) -> Callable[[list[str]], Any]:
    """A function from sentences to vectors (n, D)."""
    size = job.setting["batch"]
    if job.variant == PLAIN:
        model, tokenizer = inputs.load_plain(job.folder, job.device)
        return lambda sentences: _plain_encode(model.eval(), tokenizer, sentences, size)
    from sentrep import SentenceEncoder

    if job.variant == GRAPH:
        graph = SentenceEncoder.from_pretrained(job.settings["folder"], backend="onnx")
        return lambda sentences: graph.encode(sentences, batch_size=size, show_progress_bar=False)
    if job.variant == PEER:
        model = inputs.load_peer(job.folder, "mean", device=job.device)
    else:
        model = SentenceEncoder(job.folder, pooling="mean").eval().to(job.device)
    inputs.check_weights(model)
    return lambda sentences: model.encode(sentences, batch_size=size, show_progress_bar=False)


def _plain_encode(model: Any, tokenizer: Any, sentences: list[str], size: int) -> Any:
    import torch

    ids = tokenizer(sentences, truncation=True, max_length=model.config.max_position_embeddings)["input_ids"]
    order = sorted(range(len(ids)), key=lambda row: -len(ids[row]))
    vectors = torch.empty(len(ids), model.config.hidden_size)
    with torch.inference_mode():
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            batch = tokenizer.pad({"input_ids": [ids[row] for row in rows]}, return_tensors="pt").to(model.device)
            states, mask = model(**batch).last_hidden_state, batch["attention_mask"][..., None]
            vectors[rows] = ((states * mask).sum(1) / mask.sum(1)).float().cpu()
    return vectors.numpy()


def measure(job: Job) -> dict[str, Any]:
    """One variant: rate, memory, and where its embeddings lie."""
    import numpy as np

    encode = encoder(job)
    sentences = Path(job.corpus).read_text(encoding="utf-8").splitlines()
    with machine.autocast(job.device, job.setting["precision"]):
        encode(sentences[: 2 * job.setting["batch"]])
        encode(sentences[:1])  # torch compiles a batch of one by itself
        before = machine.used_mib(job.device)
        processor, start = time.process_time(), machine.now(job.device)
        vectors = encode(sentences)
        seconds, processor = machine.now(job.device) - start, time.process_time() - processor
        alone, processors = zip(*(_alone(encode, sentence, job.device) for sentence in sentences[:100]), strict=True)
    file = f"{job.corpus}.{abs(hash(tuple(job.setting.items())))}.{job.variant}.npy"
    np.save(file, np.asarray(vectors, dtype=np.float32))
    more = {
        PROCESSOR: 1000 * processor / len(sentences),
        "alone, ms p50": np.percentile(alone, 50),
        "alone, ms p95": np.percentile(alone, 95),
        "alone, processor ms p50": np.percentile(processors, 50),
    }
    return {
        "sentences_per_second": len(sentences) / seconds, "more": more, "before_memory_mib": before, "vectors": file
    }  # fmt: skip


def _alone(encode: Callable[[list[str]], Any], sentence: str, device: str) -> tuple[float, float]:
    """Milliseconds of one sentence by itself: on the clock, and of the processor."""
    processor, start = time.process_time(), machine.now(device)
    encode([sentence])
    return 1000 * (machine.now(device) - start), 1000 * (time.process_time() - processor)


def largest_difference(measurements: list[dict[str, Any]]) -> float:
    """Between any two variants' unit vectors of one setting, in any coordinate."""
    import numpy as np

    found = [np.load(file) for file in {item["vectors"] for item in measurements}]
    units = [vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in found]
    return max(float(np.abs(vectors - units[0]).max()) for vectors in units)


def run(options: argparse.Namespace, until: float = float("inf")) -> dict[str, Any]:
    """Measure what the options ask for; no setting begins behind ``until``.

    Returns:
        ``rows`` of the table, ``measurements``, ``largest_difference`` by setting, ``left_out`` settings.
    """
    from sentrep import SentenceEncoder
    from sentrep.encoder import write_graph

    found: dict[str, Any] = {"rows": [], "measurements": [], "largest_difference": {}, "left_out": []}
    usual = [PEER, PLAIN, OURS, *([] if options.device == "cuda" else [GRAPH])]
    variants = harness.present(options.variants or usual, NEEDS)
    with tempfile.TemporaryDirectory() as temporary:
        corpus = inputs.write_sentences(options.corpus, options.sentences, Path(temporary) / "sentences.txt")
        for model, folder in harness.folders(options, Path(temporary)).items():
            written = Path(temporary) / "graphs" / model
            if GRAPH in variants and "fp32" in options.precision:
                write_graph(SentenceEncoder(folder, pooling="mean"), written)
            for precision in options.precision:
                for batch in options.batch_size:
                    setting = {"model": model, "precision": precision, "batch": batch}
                    if time.monotonic() > until:
                        found["left_out"].append(setting)
                        continue
                    jobs = [
                        Job(name, setting, folder, corpus, options.device, 0, {"folder": str(written)})
                        for name in variants
                        if precision == "fp32" or name != GRAPH
                    ]
                    measurements = harness.run_jobs(
                        jobs, measure, repeats=options.repeats, threads=options.apart, until=until
                    )
                    apart = largest_difference(measurements)
                    if precision == "fp32" and apart > TOLERANCE:
                        raise SystemExit(f"{setting}: the variants' unit vectors differ by {apart:.1e}")
                    found["largest_difference"][f"{model} {precision} {batch}"] = apart
                    for item in measurements:
                        del item["vectors"]  # a temporary file's name
                    found["measurements"] += measurements
    found["rows"] = harness.rows_of(found["measurements"], [PEER, PLAIN])
    return found


def report(found: dict[str, Any]) -> str:
    """The results in Markdown."""
    text = harness.throughput_table(found["rows"])
    differences = ", ".join(f"{setting}: {apart:.1e}" for setting, apart in found["largest_difference"].items())
    text += f"\nLargest difference between unit vectors, in any coordinate: {differences}.\n"
    if found["left_out"]:
        text += f"\nLeft out for time: {found['left_out']}\n"
    return text


def parser() -> argparse.ArgumentParser:
    """The options."""
    found = harness.parser("Encoding speed beside others.", batch_sizes=(32,), sentences=4000)
    found.add_argument("--variants", nargs="+", choices=[PEER, PLAIN, OURS, GRAPH])
    return found


if __name__ == "__main__" and not harness.worker(measure):
    harness.main(parser(), run, report)
