"""Every command and Python block of the pages for users runs, in page order, in an empty folder.

Trainings are cut to a few steps, tables to one row, and large files to their first lines. ``SENTREP_PAGES=whole`` runs
everything at full length and compares what is printed with what the page shows; that takes hours. Models and data come
from ../shared.
"""

from __future__ import annotations

import importlib
import itertools
import lzma
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from marian import save_tiny_marian

from sentrep.cli import main
from support import shared_path, tiny_encoder

ROOT = Path(__file__).resolve().parents[1]
PAGES = ["README.md", *(f"docs/{name}.md" for name in ("index", "tutorial", "faq", "notebook", "journeys/notebook"))]
WHOLE = os.environ.get("SENTREP_PAGES") == "whole"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
STEPS = "--trainer.max_steps 2 --trainer.val_check_interval 2"
SHORT = {
    "quickstart": STEPS,
    "fit": f"{STEPS} --trainer.log_every_n_steps 1",
    "compare": f"{STEPS} --seeds 1 --sets [toy-test] --trainer.enable_progress_bar false",
    "evaluate": "--sets [stsb-dev]",
    "adapt": "--minutes 0.05",
}
"""Flags that cut a command short; the last of two equal flags counts."""
OFFLINE = "--data.train sentences.txt --data.val []"
"""For recipes whose text is on the Hub."""
ELSEWHERE = {
    "python -m venv": "an environment",
    "pip install": "its extras are checked",
    "hf upload": "needs an account",
    "jupyter lab": "is a server",
}
"""Commands that are not run, and why."""


def blocks(page: str) -> list[tuple[str, str]]:
    """Language and text of the page's blocks, in order."""
    return BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


def commands(block: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a console block, its lines joined, and the lines that it prints."""
    text = re.sub(r"\\\n\s*", "", block)
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *printed = part.splitlines()
        yield command, printed


def test_every_extra_that_a_page_installs_exists() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for page in ROOT.glob("docs/**/*.md"):
        for extras in re.findall(r"sentrep\[([\w,]+)\]", page.read_text(encoding="utf-8")):
            assert all(f"\n{extra} = [" in project for extra in extras.split(",")), f"{page.name}: {extras}"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The empty folder of a user, with the models and files that pages speak of."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("PL_GLOBAL_SEED", raising=False)
    before = set(sys.modules)
    put_models(tmp_path)
    put_files(tmp_path)
    yield tmp_path
    for name in sys.modules.keys() - before:
        if (tmp_path / f"{name}.py").exists():
            del sys.modules[name]


def put_models(desk: Path) -> None:
    """The names of the Hub and of the pages, each a link to a model of ../shared or a tiny one."""
    minilm, mini = shared_path("models/all-MiniLM-L6-v2"), shared_path("models/bert-mini")
    links = {
        "all-MiniLM-L6-v2": minilm,
        "sentence-transformers/all-MiniLM-L6-v2": minilm,
        "bert-mini": mini,
        "prajjwal1/bert-mini": mini,
        "bert-base-uncased": mini,
        "google-bert/bert-base-uncased": mini,
        "princeton-nlp/unsup-simcse-bert-base-uncased": mini,
    }
    for name, target in links.items():
        (desk / name).parent.mkdir(exist_ok=True)
        (desk / name).symlink_to(target)
    for name in ("model", "runs/simcse-minilm/version_0/model"):
        tiny_encoder(pooling="mean").save_pretrained(desk / name)


def put_files(desk: Path) -> None:
    """The user's texts: of ../shared where the page names them, cut to the first lines unless all of it is wanted."""
    (desk / "SentEval").mkdir()
    (desk / "SentEval/data").symlink_to(shared_path("data/senteval"))
    first_lines = {
        "sentences.txt": ("wiki/heldout.txt", 1200),
        "lines.txt": ("wiki/heldout.txt", 20),
        "wiki_rewrites.tsv": ("pairs/wiki_rewrites.tsv", 1200),
        "abstracts.jsonl": ("transfer/scifact/corpus.jsonl", 150),
    }
    for name, (source, count) in first_lines.items():
        with shared_path(f"data/{source}").open(encoding="utf-8") as file:
            (desk / name).write_text("".join(file if WHOLE else itertools.islice(file, count)), encoding="utf-8")
    with lzma.open(shared_path("data/wiki/wiki1m.txt.xz"), "rt", encoding="utf-8") as file:
        text = "".join(file if WHOLE else itertools.islice(file, 500))
    (desk / "wiki1m.txt.xz").write_bytes(lzma.compress(text.encode(), preset=0))
    shutil.copy(ROOT / "examples/figures/sentences.py", desk)
    (desk / "docs.jsonl").write_bytes((desk / "abstracts.jsonl").read_bytes())


class Page:
    """A page that is run from its first block to the last."""

    def __init__(self, desk: Path, page: str) -> None:
        self.desk = desk
        self.page = page
        self.names: dict[str, Any] = {}
        self.printed = ""

    def run(self) -> None:
        """Every block; a block of text that follows Python is what it prints."""
        before = ""
        for language, text in blocks(self.page):
            if name := re.match(r"# ([\w./]+\.(?:py|yaml))\n", text):
                (self.desk / name[1]).write_text(text)
                importlib.invalidate_caches()
            elif language == "python":
                self.printed = self.python(text)
            elif language == "console":
                for command, printed in commands(text):
                    self.command(command, printed)
            elif language == "text" and before == "python" and (WHOLE or self.page == "README.md"):
                assert_alike(self.printed, text)
            before = language

    def python(self, text: str) -> str:
        """What the code prints; it sees the names of the blocks before it."""
        with redirect_stdout(StringIO()) as out:
            exec(compile(text, self.page, "exec"), self.names)
        return out.getvalue()

    def command(self, command: str, printed: list[str]) -> None:
        """Run a command of the console; its last lines are compared where it ran at full length."""
        if any(command.startswith(start) for start in ELSEWHERE):
            return
        words = shlex.split(command, comments=True)
        if words[0] != "sentrep":
            subprocess.run(["bash", "-c", f"set -eo pipefail; {command}"], check=True, cwd=self.desk)
            return
        complete = WHOLE or (self.page == "README.md" and words[1] == "quickstart")
        with redirect_stdout(StringIO()) as out:
            status = main(words[1:] if complete else [*words[1:], *self.shorter(words)])
        assert status == 0, f"{self.page}: {command}\n{out.getvalue()[-2000:]}"
        if complete:
            shown = [line for line in printed if re.match(r" \S", line) and re.search(r"\d\.\d", line)]
            assert [
                numbers(line) for line in shown if numbers(line) not in map(numbers, out.getvalue().splitlines())
            ] == []

    def shorter(self, words: list[str]) -> list[str]:
        """Flags that make the command short, and keep it off the Hub."""
        if words[1] == "fit" and "--trainer.devices" in words:
            return ["--print_config"]
        flags = SHORT.get(words[1], "").split()
        if words[1:3] == ["compare", "--table"]:
            flags += ["--rows", "[bert-base]"]
        if words[1] == "evaluate" and "--suite" in words:
            flags = []
        if words[1] in ("fit", "compare") and "--data.train" not in words and "quickstart" not in " ".join(words):
            flags += OFFLINE.split()
        return flags


def numbers(line: str) -> list[str]:
    return re.findall(r"[-+]?\d+\.?\d*", line)


def assert_alike(printed: str, shown: str) -> None:
    """The same lines, numbers with a decimal point up to 0.02: another processor rounds otherwise."""
    parts = [re.split(r"(\d+\.\d+)", text.strip()) for text in (printed, shown)]
    assert len(parts[0]) == len(parts[1]), printed
    for one, other in zip(*parts, strict=True):
        assert one == other or float(one) == pytest.approx(float(other), abs=0.02)


@pytest.mark.slow
@pytest.mark.timeout(0 if WHOLE else 1200)
@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_a_page_runs(page: str, desk: Path) -> None:
    if "opus-mt" in (ROOT / page).read_text(encoding="utf-8"):
        for seed, way in enumerate(("en-zh", "zh-en")):
            save_tiny_marian(desk / f"Helsinki-NLP/opus-mt-{way}", seed)
    Page(desk, page).run()
