"""The speed benchmarks: their arithmetic, and that every script runs. Nothing here looks at how long anything takes."""

from __future__ import annotations

import importlib
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModel

from support import forked

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
TINY = ["--shape", "tiny", "--repeats", "1", "--precision", "fp32", "--batch-size", "4"]

# runs a script in a Python that lacks a module
WITHOUT = """
import runpy, sys
missing, sys.argv = sys.argv[1], sys.argv[2:]
sys.modules[missing] = None
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def script(name: str, *words: str) -> None:
    """A script's command line, in a process of its own."""
    sys.path.insert(0, str(BENCHMARKS))
    sys.argv = [str(BENCHMARKS / name), *words]
    runpy.run_path(sys.argv[0], run_name="__main__")


def run(folder: Path, name: str, *words: str) -> str:
    """What a script prints."""
    process = forked(script, name, *words, said=str(folder / "said.txt"))
    process.join()
    said = (folder / "said.txt").read_text()
    assert process.exitcode == 0, said
    return said


def module(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module(name)


@pytest.mark.slow
def test_everything_for_a_gpu_runs_where_jsonargparse_is_missing(tmp_path: Path) -> None:
    """Not compiled: tests/test_on_gpu.py compiles."""
    words = ["gpu.py", "--device", "cpu", "--quick", "--json", str(tmp_path / "gpu.json")]
    paths = os.pathsep.join([*sys.path, str(BENCHMARKS)])
    text = subprocess.run(
        [sys.executable, "-c", WITHOUT, "jsonargparse", *words],
        env={**os.environ, "OMP_NUM_THREADS": "1", "TORCH_COMPILE_DISABLE": "1", "PYTHONPATH": paths},
        cwd=BENCHMARKS, stdout=subprocess.PIPE, text=True, check=True,
    ).stdout  # fmt: skip
    parts = json.loads((tmp_path / "gpu.json").read_text())["parts"]
    assert list(parts) == ["Training, SimCSE", "Training, other objectives"]
    simcse = parts["Training, SimCSE"]
    graphs = "sentrep, CUDA graphs"
    variants = ["sentence-transformers", "plain HF loop", "sentrep", graphs, "best loop by hand, compiled"]
    assert [row["variant"] for row in simcse["rows"]] == variants * 2
    assert all(row["more"]["MFU, %"] > 0 for row in simcse["rows"])
    assert list(simcse["peaks"]) == ["fp32", "bf16"]
    others = [item["variant"] for item in parts["Training, other objectives"]["measurements"]]
    assert len(set(others)) == len(others) > 20
    assert "| tiny | simcse | bf16 | 8 | sentrep, CUDA graphs |" in text
    assert "| denoising, 16 layers |" in text


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_machine_without_a_gpu_is_told_so(tmp_path: Path) -> None:
    assert "No CUDA device" in run(tmp_path, "gpu.py", "--markdown", str(tmp_path / "gpu.md"))
    assert "nothing was measured" in (tmp_path / "gpu.md").read_text()


def test_lengths_and_variants_are_rows(tmp_path: Path) -> None:
    variants = ["sentrep", "sentrep, padded", "sentrep, 32 rows at once", "best loop by hand"]
    words = [*TINY, "--lengths", "8", "12", "--steps", "2", "--warmup", "1", "--matrix", "64", "--one-process"]
    run(tmp_path, "train_throughput.py", *words, "--json", str(tmp_path / "x"), "--variants", *variants)
    found = json.loads((tmp_path / "x").read_text())
    assert [(row["setting"]["length"], row["variant"]) for row in found["rows"]] == [
        (length, variant) for length in (8, 12) for variant in variants
    ]
    for length in (8, 12):
        losses = [item["first_loss"] for item in found["measurements"] if item["setting"]["length"] == length]
        assert max(losses) - min(losses) < 1e-5
    rates = [row["sentences_per_second"][0] for row in found["rows"][:4]]
    assert found["rows"][0]["ratios"] == {variants[3]: pytest.approx(rates[0] / rates[3])}


def test_the_cache_and_streaming_are_rows(tmp_path: Path) -> None:
    words = ["--lines", "60", "--batches", "3", "--workers", "0", "--warmup", "1", "--one-process"]
    run(tmp_path, "loader_throughput.py", *TINY, *words, "--json", str(tmp_path / "x"))
    rows = json.loads((tmp_path / "x").read_text())["rows"]
    assert [row["variant"] for row in rows] == ["cache, built", "cache, opened", "streaming"]
    for row in rows:
        assert row["sentences_per_second"][0] > 0
        assert row["more"]["to first batch, s"] > 0
        assert row["peak_memory_mib"] >= row["before_memory_mib"] > 100  # of a process with torch in it


@pytest.mark.slow
def test_a_process_for_each_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process reports its own peak of memory, which is lower than the peak of this process."""
    harness, machine = (module(name, monkeypatch) for name in ("harness", "machine"))
    measure = 'lambda job: {"process": os.getpid(), "sentences_per_second": len(job.variant)}'
    (tmp_path / "bench.py").write_text(f"import os, harness\nharness.worker({measure})\n")
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "bench.py")])
    monkeypatch.setenv("PYTHONPATH", str(BENCHMARKS), prepend=os.pathsep)
    jobs = [harness.Job(name, {"model": "m"}, "", "", "cpu", 0, {}) for name in ("one", "three")]
    found = harness.run_jobs(jobs, None, repeats=2, threads=1)
    assert [(item["variant"], item["repeat"]) for item in found] == [("one", 0), ("three", 0), ("three", 1), ("one", 1)]
    assert [item["sentences_per_second"] for item in found] == [3, 5, 5, 3]
    assert len({os.getpid(), *(item["process"] for item in found)}) == 5
    assert all(0 < item["peak_memory_mib"] < machine.memory_mib() for item in found)


def test_flops_are_those_that_torch_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    train, inputs = (module(name, monkeypatch) for name in ("train_throughput", "inputs"))
    config = AutoConfig.for_model(**inputs.SHAPES["tiny"], attn_implementation="eager")
    model = AutoModel.from_config(config, attn_implementation="eager", add_pooling_layer=False)
    lengths = [3, 7]
    with FlopCounterMode(display=False) as counter:
        for length in lengths:
            model(torch.ones(1, length, dtype=torch.long))
    one_pass = train.forward(lengths, config.num_hidden_layers, config.hidden_size, config.intermediate_size)
    assert one_pass == counter.get_total_flops()
    assert train.training(lengths, config, "simcse") == 6 * one_pass
    assert train.training(lengths, config, "dclr") == 7 * one_pass
    assert train.training(lengths, config, "denosent") > 7 * one_pass


def test_rows_are_medians_of_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = module("harness", monkeypatch)
    rates = {"ours": [3.0, 8.0, 5.0], "theirs": [1.0, 2.0, 5.0]}
    measurements = [
        {"setting": {"batch": 1}, "variant": variant, "repeat": repeat, "sentences_per_second": rate,
         "peak_memory_mib": 10.0 * repeat, "before_memory_mib": 4.0, "more": {harness.PROCESSOR: 1 / rate}}
        for variant, turns in rates.items()
        for repeat, rate in reversed(list(enumerate(turns)))
    ]  # fmt: skip
    ours, theirs = harness.rows_of(measurements, ["theirs", "absent"])
    assert ours.sentences_per_second == rates["ours"]
    assert ours.ratios == {"theirs": 3.0}  # of 3, 4 and 1
    assert (ours.peak_memory_mib, ours.before_memory_mib) == (10.0, 4.0)
    assert theirs.ratios == {"theirs": 1.0}
    assert ours.more == pytest.approx({harness.PROCESSOR: 1 / 5, "× theirs, processor": 3.0})


def test_variants_that_differ_in_the_first_loss_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    train = module("train_throughput", monkeypatch)
    losses = [{"setting": {}, "variant": name, "first_loss": loss} for name, loss in (("a", 2.0), ("b", 2.001))]
    with pytest.raises(SystemExit, match="differ in the loss"):
        train.check_losses(losses)
    train.check_losses(losses[:1])


def test_a_variant_that_fails_is_left_out(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    harness = module("harness", monkeypatch)
    jobs = [harness.Job(name, {"model": "m"}, "", "", "cpu", 0, {}) for name in ("sound", "broken")]

    def measure(job: Any) -> dict[str, Any]:
        if job.variant == "broken" and job.repeat == 1:
            raise RuntimeError("out of memory")
        return {"sentences_per_second": 2.0, "before_memory_mib": 0.0}

    found = harness.run_jobs(jobs, measure, repeats=3)
    assert [item["variant"] for item in found] == ["sound"] * 3
    assert "m: broken failed and is left out: RuntimeError('out of memory')" in capsys.readouterr().err
    with pytest.raises(RuntimeError, match="out of memory"):
        harness.run_jobs(jobs[1:], measure, repeats=2)


def test_a_part_that_fails_costs_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = module("gpu", monkeypatch)

    class Broken:
        parser = staticmethod(gpu.train_throughput.parser)

        def run(self, options: Any, until: float) -> None:
            raise SystemExit("the variants differ")

    words = ["--steps", "1", "--warmup", "1", "--matrix", "64", "--variants", "plain HF loop"]
    sound = gpu.Part("Training", 1.0, gpu.train_throughput, [*TINY, *words])
    monkeypatch.setattr(gpu, "plan", lambda quick: [gpu.Part("Broken", 1.0, Broken(), ["--shape", "tiny"]), sound])
    report = tmp_path / "gpu.md"
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--device", "cpu", "--quick", "--markdown", str(report)])
    gpu.main()
    text = report.read_text()
    assert "## Broken\n\nFailed: SystemExit('the variants differ')" in text
    assert "| tiny | simcse | fp32 | 4 | plain HF loop |" in text


def coverage(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The script ``coverage.py``; another module has its name."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return runpy.run_path(str(BENCHMARKS / "coverage.py"))


@pytest.mark.parametrize(("noise", "paired"), [("none", True), ("large", False)])
def test_the_interval_of_a_comparison_covers_what_it_says(
    noise: str, paired: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The quick version of the table in docs/comparing.md: 150 simulations of three seeds."""
    bench = coverage(monkeypatch)
    covered, alone = bench["coverage"](bench["PAIR_NOISE"][noise], 3, paired, 150)
    assert 0.90 <= covered <= 0.99
    assert (alone < covered) == (noise == "large")


def test_the_interval_does_not_cover_a_recipe_whose_runs_collapse(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = coverage(monkeypatch)
    assert 0.3 <= bench["coverage"](0.0, 3, True, 300, bench["COLLAPSE"])[0] <= 0.55


def test_equality_is_seldom_found_at_the_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = coverage(monkeypatch)
    assert bench["equality"](0.2, 0.1, 5, 300) <= 0.09
    assert bench["equality"](0.0, 0.1, 5, 300) >= 0.88
