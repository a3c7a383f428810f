"""What stands in examples/ runs as it is.

``python tests/integration/test_examples.py --write`` runs the notebooks and stores their output.
"""

from __future__ import annotations

import base64
import importlib
import io
import re
import runpy
import sys
import tempfile
from pathlib import Path

import datasets
import nbformat
import pytest
from nbclient import NotebookClient
from PIL import Image

from support import forked, seeded_runs_here

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
PICTURES = "figures/sentences"
"""No script: functions for a notebook (docs/notebook.md)."""
MACHINE = re.compile(r"(?<![\w./:])/(?!/)[\w.-]+/[\w.-]|[A-Z]:\\\\")
"""An absolute path, of whatever machine."""


def run_example(script: str) -> None:
    sys.argv = [script]  # without what pytest was called with
    with pytest.MonkeyPatch.context() as patch:
        seeded_runs_here(patch)
        runpy.run_path(script, run_name="__main__")


SCRIPTS = {
    "figures/cosines": "cosines.png cosines.svg",
    "figures/negatives": "negatives.png negatives.svg",
    "figures/plane": "plane.png plane.svg",
    "figures/projection": "projection.png projection.svg",
    "figures/scores": "scores.png scores.svg",
    "custom_objective": "max_steps=20",
    "flow": "max_steps=20",
    "gradients": "cosine of simcse and words",
    "leakage": "0.67%",
    "llm_rewrites": "100 of 100 sentences",
    "lora": "parameters are trained",
    "matryoshka": "(16,)",
    "moco": "max_steps=20",
    "own_negatives": "toy-dev:",
    "reproduce_table": "between-neighbours",
    "sentence_transformers_trainer": "train_runtime",
    "serve": "the same vectors",
    "sweep": "best of 4 trials",
}
"""Words that each script prints."""
NEEDS = {
    "leakage": "datasketch", "lora": "peft", "sentence_transformers_trainer": "accelerate", "sweep": "optuna",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_runs_and_is_short(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    script = EXAMPLES / f"{name}.py"
    assert len(script.read_text().splitlines()) <= 60
    monkeypatch.chdir(tmp_path)
    process = forked(run_example, str(script), said="said.txt")
    process.join(300)
    said = Path("said.txt").read_text()
    assert process.exitcode == 0, said
    assert SCRIPTS[name] in said


def test_every_script_is_run_and_listed() -> None:
    found = {str(path.relative_to(EXAMPLES).with_suffix("")) for path in EXAMPLES.rglob("*.py")}
    assert found == {*SCRIPTS, PICTURES}
    listed = re.findall(r"^\| \[`([\w/]+)\.", (EXAMPLES / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted({*found, *(path.stem for path in NOTEBOOKS)})


def test_rewrites_of_a_language_model_are_triplets_or_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    example = importlib.import_module("llm_rewrites")
    answers = {
        "It rains.": '{"sentence1": " Rain\\n falls. ", "sentence2": "It is dry."}',
        "A cat sleeps.": "Sorry, I cannot.",
        "A dog barks.": '{"sentence1": "A barking dog."}',
        "He sings.": '{"sentence1": ["a"], "sentence2": "b"}',
        "She reads.": '{"sentence1": "", "sentence2": "She writes."}',
        "They talk.": None,
        "": '{"sentence1": "a", "sentence2": "b"}',
    }
    found = example.pairs(datasets.Dataset.from_dict({"text": list(answers)}), answers.get)
    assert found.to_list() == [{"sent0": "It rains.", "sent1": "Rain falls.", "hard_neg": "It is dry."}]


def executed(notebook: Path, folder: Path) -> nbformat.NotebookNode:
    """The notebook with the outputs of this machine, as they are stored: without warnings, logs and timings."""
    ran = nbformat.read(notebook, as_version=4)
    NotebookClient(ran, timeout=None, resources={"metadata": {"path": str(folder)}}).execute()
    for number, cell in enumerate((cell for cell in ran.cells if cell.cell_type == "code"), start=1):
        cell.execution_count = number
        cell.metadata.pop("execution", None)
        cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        for output in cell.outputs:
            if "png" in str(output.get("data", {}).keys()):
                output.data = {"image/png": smaller(output.data["image/png"])}
    return ran


def smaller(png: str) -> str:
    """A picture of few colours, base64: what a repository keeps."""
    stream = io.BytesIO()
    picture = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB").quantize(128)
    picture.save(stream, "png", optimize=True)
    return base64.b64encode(stream.getvalue()).decode()


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_stores_what_it_shows(notebook: Path, tmp_path: Path) -> None:
    ran, stored = executed(notebook, tmp_path), nbformat.read(notebook, as_version=4)
    for now, then in zip(ran.cells, stored.cells, strict=True):
        kinds = [  # a print may come in two
            {(output.output_type, *sorted(output.get("data", {}))) for output in cell.get("outputs", [])}
            for cell in (now, then)
        ]
        assert kinds[0] == kinds[1], f"run: python tests/integration/test_examples.py --write; {now.source}"
    said = [output.text for cell in ran.cells for output in cell.get("outputs", []) if output.output_type == "stream"]
    before, after = (float(number) for number in re.findall(r"([\d.]+)(?:%| before| after)", "".join(said)))
    assert after > before + (3 if notebook.stem == "quickstart" else 15)
    if notebook.stem == "quickstart":  # a checkpoint loads as what was saved
        assert float(ran.cells[-1].outputs[-1]["data"]["text/plain"]) < 1e-6


def test_notebooks_have_outputs_and_no_machines_paths() -> None:
    for notebook in NOTEBOOKS:
        outputs = [output for cell in nbformat.read(notebook, as_version=4).cells for output in cell.get("outputs", [])]
        assert len(outputs) >= 3, notebook.name
        for output in outputs:
            assert output.get("name") != "stderr", notebook.name
            picture = output.get("data", {}).get("image/png", "")
            assert len(base64.b64decode(picture)) <= 60_000, notebook.name
            text = output.get("text", "") + output.get("data", {}).get("text/plain", "")
            assert not MACHINE.search(text), f"{notebook.name}: {text}"


if __name__ == "__main__":
    if sys.argv[1:2] != ["--write"]:
        sys.exit(f"usage: python {sys.argv[0]} --write [NAME ...]    # run the notebooks and store their outputs")
    for path in NOTEBOOKS:
        if path.stem in (sys.argv[2:] or [path.stem]):
            with tempfile.TemporaryDirectory() as place:
                nbformat.write(executed(path, Path(place)), path)
