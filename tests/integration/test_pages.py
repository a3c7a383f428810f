"""Every command and Python block of the pages for users runs, in page order, in an empty folder.

Trainings are cut to a few steps, tables to one row, and large files to their first lines; README's quick
start and Python run in full, and print what the page shows. Models and data come from ../shared where a page names
them. ``.ci/wheel`` runs README's blocks with the wheel.
"""

from __future__ import annotations

import gzip
import importlib
import itertools
import lzma
import os
import re
import runpy
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from marian import save_tiny_marian

from sentrep import SentenceEncoder
from sentrep.cli import main
from support import FAMILIES, seeded_runs_here, shared_path, tiny_encoder, toy_sentences, write_workplace

ROOT = Path(__file__).resolve().parents[2]
README = "README.md"
OTHERS = ("index", "results", "commands", "benchmarks", "reproduction")
"""README once more, pages of numbers, whose commands take hours, and the list of options."""
PAGES = [
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / README, *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("docs/journeys/*.md")))
    if path.stem not in (*OTHERS, "fine-tune", "resume")
    and re.search(r"^```(console|python)$", path.read_text(encoding="utf-8"), re.MULTILINE)
]
"""tests/integration/test_docs_examples.py runs the pages of docs/writing."""
WALKS = ("docs/fine-tune.md", "docs/journeys/resume.md")
"""The tasks of a newcomer: pages that are followed to the letter, and end as they print."""
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
STEPS = "--trainer.max_steps 2 --trainer.val_check_interval 2"
SHORT = {
    "quickstart": STEPS,
    "fit": f"{STEPS} --trainer.log_every_n_steps 1",
    "evaluate": "",
    "encode": "--overwrite true",  # a page may show several ways to one output
}
"""Flags that cut a command short; the last of two equal flags counts."""
OFFLINE = "--data.train sentences.txt --data.val []"
"""For recipes whose text is on the Hub."""
ELSEWHERE = {
    "python -m venv": "an environment",
    "pip install": "its extras are checked",
    "hf upload": "needs an account",
    "jupyter lab": "is a server",
    "tensorboard": "is a server",
    "python examples/llm_rewrites.py corpus.txt": "asks a server",
    "python benchmarks/": "tests/repo/test_benchmarks.py runs these",
}
"""Commands that are not run, and why."""
HUB = "--mteb"
"""Names tasks whose data are on the Hub alone: without a network the command ends with a sentence that says so."""
REPLACED = {
    r"^(torchrun .* -m |srun |RAY_ADDRESS=auto )sentrep": "sentrep",
    r"s3://bucket": "memory://bucket",
    r"truncate_dim 256": "truncate_dim 16",
    r"/shared/vectors": "shared-vectors",
    r"runs/\.\.\./checkpoints/BEST\.ckpt": "best.ckpt",
    r"--backbone MODEL": "--backbone sentence-transformers/all-MiniLM-L6-v2",
}
"""Launchers, buckets, disks and models of others: what stands for them here."""
ASSUMED = {"docs/export.md": ("encoder",), "docs/scale.md": ("index",)}
"""Names that the Python of a page takes from its reader."""


def blocks(page: str) -> list[tuple[str, str]]:
    """Language and text of the page's blocks, in order."""
    return BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


def commands(block: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a console block, its lines joined, and the lines that it prints."""
    text = re.sub(r"\\\n\s*", "", block)
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *printed = part.splitlines()
        if loop := re.fullmatch(r"for (\w+) in ([\w ]+); do (.*); done", command):
            for value in loop[2].split():
                yield loop[3].replace(f"${loop[1]}", value), printed
        else:
            yield command, printed


def test_every_extra_that_a_page_installs_exists() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for page in ROOT.glob("docs/**/*.md"):
        for extras in re.findall(r"sentrep\[([\w,]+)\]", page.read_text(encoding="utf-8")):
            assert all(f"\n{extra} = [" in project for extra in extras.split(",")), f"{page.name}: {extras}"


CONFIGURATIONS = [
    pytest.param(text, id=f"{path.stem}-{number}")
    for path in sorted(ROOT.glob("docs/*.md"))
    for number, (language, text) in enumerate(blocks(path.relative_to(ROOT).as_posix()))
    if language == "yaml" and re.match(r"(seed_everything|model|data|trainer):", text)
]


@pytest.mark.parametrize("text", CONFIGURATIONS)
def test_what_a_page_configures_is_accepted(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_workplace(tmp_path)
    Path("page.yaml").write_text(text, encoding="utf-8")
    assert main(["fit", "-c", "run.yaml", "-c", "page.yaml", "--print_config"]) == 0


@pytest.fixture
def desk(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The empty folder of a user, with the models and files that the page speaks of."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("PL_GLOBAL_SEED", raising=False)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # else Ray writes into the home folder
    seeded_runs_here(monkeypatch)
    before = set(sys.modules)
    shown = "".join(text for _, text in blocks(page))
    put_models(tmp_path, shown, whole=page == README)
    put_files(tmp_path, shown)
    put_runs(tmp_path, shown)
    yield tmp_path
    if "ray" in sys.modules:  # whose processes would stay until the end
        sys.modules["ray"].shutdown()
    for name in sys.modules.keys() - before:
        if (tmp_path / f"{name}.py").exists():
            del sys.modules[name]


def put_models(desk: Path, shown: str, whole: bool) -> None:
    """The names of the Hub and of the page, each a link to a model of ../shared.

    Where little is to be computed, a tiny model with random weights and the tokenizer of ../shared stands for them.
    """
    minilm, mini = "models/all-MiniLM-L6-v2", "models/bert-mini"
    links = {
        "all-MiniLM-L6-v2": minilm,
        "sentence-transformers/all-MiniLM-L6-v2": minilm,
        "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2": minilm,
        "bert-mini": mini,
        "prajjwal1/bert-mini": mini,
        "bert-small-wiki": "models/bert-small-wiki",
        "bert-base-uncased": mini,
        "google-bert/bert-base-uncased": mini,
        "princeton-nlp/unsup-simcse-bert-base-uncased": mini,
        "SIMCSE": mini,
    }
    if re.search(r"minilm|simcse/|tables/ablation|bert-|MiniLM", shown):
        for name, target in links.items():
            (desk / name).parent.mkdir(exist_ok=True)
            (desk / name).symlink_to(shared_path(target) if whole or target == mini else tiny_minilm(desk))
    trained = "runs/simcse-minilm/version_0/model"
    for word, name in {
        'from_pretrained("model")': "model",
        "MODEL": "MODEL",
        "FOLDER": "FOLDER",
        trained: trained,
    }.items():
        if word in shown:
            (desk / name).parent.mkdir(exist_ok=True, parents=True)
            (desk / name).symlink_to(tiny_minilm(desk))


def tiny_minilm(desk: Path) -> Path:
    """A folder of a tiny model that reads words as all-MiniLM-L6-v2 does."""
    folder = desk / "tiny"
    if not folder.exists():
        torch.manual_seed(0)
        small = {**FAMILIES["bert"], "vocab_size": 30522, "max_position_embeddings": 256}
        real = str(shared_path("models/all-MiniLM-L6-v2"))
        SentenceEncoder(small, pooling="mean", tokenizer=real, max_seq_length=128).save_pretrained(folder)
    return folder


def put_files(desk: Path, shown: str) -> None:
    """The user's texts: of ../shared where the page names them, cut to the first lines unless all of it is wanted."""
    write_workplace(desk)
    for name in ("recipe.yaml", "RECIPE.yaml", "A.yaml", "B.yaml"):
        shutil.copy(desk / "run.yaml", desk / name)
    if "SentEval/data" in shown:
        (desk / "SentEval").mkdir()
        (desk / "SentEval/data").symlink_to(shared_path("data/senteval"))
    first_lines = {
        "sentences.txt": ("wiki/heldout.txt", 1200),
        "lines.txt": ("wiki/heldout.txt", 20),
        "wiki_rewrites.tsv": ("pairs/wiki_rewrites.tsv", 1200),
        "pairs.tsv": ("pairs/wiki_rewrites.tsv", 1200),
        "pairs.csv": ("pairs/nli_triplets.csv", 321),
    }
    for name, (source, count) in first_lines.items():
        if name in shown or (name == "sentences.txt" and "simcse/" in shown):
            with shared_path(f"data/{source}").open(encoding="utf-8") as file:
                (desk / name).write_text("".join(itertools.islice(file, count)), encoding="utf-8")
    if "wiki1m.txt.xz" in shown:
        with lzma.open(shared_path("data/wiki/wiki1m.txt.xz"), "rt", encoding="utf-8") as file:
            text = "".join(itertools.islice(file, 500))
        (desk / "wiki1m.txt.xz").write_bytes(lzma.compress(text.encode(), preset=0))
    toys = [sentence.replace(",", "") for sentence in toy_sentences(120)]
    scored = [f"{toys[n]},{toys[n + 1]},{n % 5}\n" for n in range(40)]
    (desk / "scored.csv").write_text("".join(["first,second,score\n", *scored]))
    (desk / "crawl").mkdir()
    (desk / "crawl/part-0.txt.gz").write_bytes(gzip.compress("\n".join(toys).encode()))
    if "s3://bucket" in shown:
        pd.DataFrame({"text": toys}).to_parquet("memory://bucket/text/part-0.parquet")
    for name in ("configs", "examples"):
        (desk / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "examples/figures/sentences.py", desk)


def put_runs(desk: Path, shown: str) -> None:
    """A run and its best checkpoint, where the page speaks of an earlier run."""
    if re.search(r"best\.ckpt|BEST\.ckpt", shown):
        assert main(["fit", "-c", "run.yaml", "--trainer.log_every_n_steps", "1"]) == 0
        run = next(desk.glob("runs/*/version_0/checkpoints")).parent
        shutil.copy(run / "checkpoints/last.ckpt", desk / "best.ckpt")


class Page:
    """A page that is run from its first block to the last."""

    def __init__(self, desk: Path, page: str) -> None:
        self.desk = desk
        self.page = page
        made = {"encoder": tiny_encoder(pooling="mean"), "texts": toy_sentences(20), "index": Index()}
        self.names: dict[str, Any] = {name: made[name] for name in ASSUMED.get(page, ())}
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
            elif language == "text" and before == "python" and self.page == README:
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
        for pattern, stand_in in REPLACED.items():
            command = re.sub(pattern, stand_in, command)
        words = shlex.split(re.sub(r" > \S+$", "", command), comments=True)
        if words[:1] == ["python"]:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(sys, "argv", words[1:])
                runpy.run_path(words[1], run_name="__main__")
            return
        if words[0] != "sentrep":
            subprocess.run(["bash", "-c", f"set -eo pipefail; {command}"], check=True, cwd=self.desk)
            return
        complete = self.page == README and words[1] == "quickstart"
        with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
            status = main(words[1:] if complete else [*words[1:], *self.shorter(words)])
        said = f"{self.page}: {command}\n{out.getvalue()[-2000:]}{err.getvalue()[-2000:]}"
        if HUB in words:
            assert "cannot be downloaded from the Hub" in said, said
            return
        assert status == 0, said
        if complete and self.page == README:
            shown = [line for line in printed if re.match(r" \S", line) and re.search(r"\d\.\d", line)]
            assert [
                numbers(line) for line in shown if numbers(line) not in map(numbers, out.getvalue().splitlines())
            ] == []

    def shorter(self, words: list[str]) -> list[str]:
        """Flags that make the command short, and keep it off the Hub."""
        given = " ".join(words)
        if words[1] == "fit" and "--trainer.devices" in words:
            return ["--print_config"]
        flags = SHORT.get(words[1], "").split()
        if "--seeds" in words:
            flags += ["--seeds", "1", "--data.test", "[toy-test]"]
        if words[1] == "evaluate" and not {"--suite", "--sets", HUB} & {*words}:
            flags += ["--sets", "[stsb-dev]"]
        if "--seeds" in words and "tables/ablation" in given:
            flags += ["--row", "bert-base"]
        on_hub = re.search(r"(?<!objectives\.)simcse\b|ablation\b", given)
        if words[1] == "fit" and "--data.sts_folder" not in words and on_hub:
            flags += OFFLINE.split() if "--data.train" not in words else OFFLINE.split()[2:]
        return flags


class Index:
    """An index of vectors that the reader brings."""

    def add(self, vectors: np.ndarray) -> None:
        assert vectors.dtype == np.float32


def numbers(line: str) -> list[str]:
    return re.findall(r"[-+]?\d+\.?\d*", line)


def assert_alike(printed: str, shown: str) -> None:
    """The same lines, numbers with a decimal point up to 0.02: another processor rounds otherwise."""
    parts = [re.split(r"(\d+\.\d+)", text.strip()) for text in (printed, shown)]
    assert len(parts[0]) == len(parts[1]), printed
    for one, other in zip(*parts, strict=True):
        assert one == other or float(one) == pytest.approx(float(other), abs=0.02)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_a_page_runs(page: str, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "opus-mt" in (ROOT / page).read_text(encoding="utf-8"):
        for seed, way in enumerate(("en-zh", "zh-en")):
            save_tiny_marian(desk / f"Helsinki-NLP/opus-mt-{way}", seed)
    if "mteb.evaluate" in (ROOT / page).read_text(encoding="utf-8"):
        mteb = pytest.importorskip("mteb", reason="needs mteb, the extra `mteb`")
        evaluate = mteb.evaluate  # the page's own call has no options, and its data are on the Hub
        monkeypatch.setattr(mteb, "evaluate", lambda *tasks, **options: options and evaluate(*tasks, **options))
    walked = Page(desk, page)
    walked.run()
    if page == "docs/notebook.md":  # which trains in full
        before, after = (walked.names["right"](walked.names[name]) for name in ("before", "after"))
        assert after >= max(22, before + 1)  # of 24


def in_words(line: str) -> str:
    """A line without its numbers, which depend on the reader's text and processor."""
    return " ".join(re.sub(r"-?\d[\d.:e-]*", "N", line).split())


def follow(command: str, printed: list[str]) -> list[str]:
    """Run a command, press Ctrl-C where the page shows it, and return the printed lines."""
    seen: list[str] = []
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with subprocess.Popen(
        ["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
        start_new_session=True,
    ) as process:  # fmt: skip
        before = printed[printed.index("^C") - 1] if "^C" in printed else None
        for line in process.stdout or ():
            seen.append(line.rstrip())
            if before is not None and in_words(line) == in_words(before):
                os.killpg(process.pid, signal.SIGINT)  # to all processes, as a terminal does
                before = None
    assert process.returncode == (130 if "^C" in printed else 0), "\n".join(seen)
    return seen


class Walk(Page):
    """A page that is followed to the letter."""

    def command(self, command: str, printed: list[str]) -> None:
        """Run a command, which must print the lines that the page shows, in this order."""
        seen = follow(command, printed)
        rest = iter(map(in_words, seen))
        wanted = [line for line in printed if line.strip() not in ("", "...", "^C")]
        missing = [line for line in wanted if in_words(line) not in rest]
        assert not missing, "\n".join([*missing, "-- was not printed, in this order, but:", *seen])


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("page", WALKS)
def test_a_newcomers_task_ends_as_its_page_prints(page: str, desk: Path) -> None:
    Walk(desk, page).run()
