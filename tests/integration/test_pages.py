"""Every command, example and configuration of the pages runs, in page order, in an empty folder.

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

import pandas as pd
import pytest
import torch
from lightning.pytorch import Trainer
from marian import save_tiny_marian

from sentrep import SentenceEncoder, SentRepModule
from sentrep.cli import main
from sentrep.objectives import Contrastive
from sentrep.testing import check_objective
from support import (
    FAMILIES,
    assert_equal_to_one_process,
    loss_and_gradients,
    run_processes,
    seeded_runs_here,
    shared_path,
    text_batch,
    tiny_encoder,
    toy_sentences,
    write_workplace,
)

ROOT = Path(__file__).resolve().parents[2]
README = "README.md"
OTHERS = ("index", "results", "commands", "benchmarks", "reproduction", "keys")
"""README once more, pages of numbers, whose commands take hours, and the lists of options and keys."""
WALKS = ("docs/fine-tune.md", "docs/journeys/resume.md")
"""The tasks of a newcomer: pages that are followed to the letter, and end as they print."""
LONGEST = 30
"""Lines of an example of a plug-in that are neither blank nor imports."""
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# ([\w./]+\.(?:py|yaml))\n")
"""The first line of a block that is a file."""
TEXTS = {
    "sentences.txt": ("wiki/heldout.txt", 1200),
    "lines.txt": ("wiki/heldout.txt", 20),
    "pairs.tsv": ("pairs/wiki_rewrites.tsv", 1200),
    "pairs.csv": ("pairs/nli_triplets.csv", 321),
}
"""The user's files that are the first lines of one of ../shared/data."""
STEPS = "--trainer.max_steps 2 --trainer.val_check_interval 2"
SHORT = {
    "quickstart": STEPS,
    "fit": f"{STEPS} --trainer.log_every_n_steps 1",
    "encode": "--overwrite true",  # a page may show several ways to one output
}
"""Flags that cut a command short; the last of two equal flags counts."""
OFFLINE = "--data.train sentences.txt --data.val []"
"""For recipes whose text is on the Hub."""
HUB = "--mteb"
"""Names tasks whose data are on the Hub alone: without a network the command ends with a sentence that says so."""
REPLACED = {
    r"^(torchrun .* -m |RAY_ADDRESS=auto )sentrep": "sentrep",
    r"s3://bucket": "memory://bucket",
    r"/shared/vectors": "shared-vectors",
}
"""Replacements for launchers, buckets and disks that this machine does not have."""
ELSEWHERE = (
    "pip install",  # its extras are checked
    "hf upload",  # needs an account
    "jupyter lab",  # is a server
    "tensorboard",  # is a server
    "python examples/llm_rewrites.py corpus.txt",  # asks a server
)
"""Commands that are not run."""


def blocks(page: str, *languages: str) -> list[tuple[str, str]]:
    """Language and text of the page's blocks, in order."""
    found = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    return [block for block in found if block[0] in languages] if languages else found


def pages(folder: str) -> list[str]:
    """Of a folder below the repository's root, by name."""
    found = (path.relative_to(ROOT).as_posix() for path in sorted((ROOT / folder).glob("*.md")))
    return [page for page in found if Path(page).stem not in OTHERS]


PLUGINS = pages("docs/writing")
"""The pages for those who write plug-ins: an example with its tests, and its configuration."""
READ = [page for page in (README, *pages("docs"), *pages("docs/journeys")) if blocks(page, "console", "python")]
CONFIGURATIONS = [
    pytest.param(page, text, id=f"{Path(page).stem}-{number}")
    for page in (*pages("docs"), *PLUGINS)
    for number, (_, text) in enumerate(blocks(page, "yaml"))
    if page in PLUGINS or re.match(r"(seed_everything|model|data|trainer):", text)
]


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


def test_every_page_for_authors_has_a_tested_example_and_stands_in_the_entry_page() -> None:
    entry = (ROOT / "docs/writing/objective.md").read_text(encoding="utf-8")
    for page in PLUGINS:
        ((_, example),) = blocks(page, "python")
        code = [line for line in example.splitlines() if line.strip() and not re.match(r"#|import |from ", line)]
        assert len(code) <= LONGEST, page
        assert re.search(r"^def test_", example, re.MULTILINE), page
        assert "    assert " in example or ".assert_" in example, page
        assert blocks(page, "yaml"), page
        assert page.endswith("/objective.md") or f"]({Path(page).name})" in entry, page


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a user, with a small run; modules that are imported from it are forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("PL_GLOBAL_SEED", raising=False)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # else Ray writes into the home folder
    seeded_runs_here(monkeypatch)
    before = set(sys.modules)
    write_workplace(tmp_path)
    yield tmp_path
    if "ray" in sys.modules:  # whose processes would stay until the end
        sys.modules["ray"].shutdown()
    for name in sys.modules.keys() - before:
        if (tmp_path / f"{name}.py").exists():
            del sys.modules[name]


@pytest.fixture(scope="module")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a tiny model with random weights that reads words as the models of ../shared do."""
    folder = tmp_path_factory.mktemp("models") / "small"
    torch.manual_seed(0)
    small = {**FAMILIES["bert"], "vocab_size": 30522, "max_position_embeddings": 256}
    real = str(shared_path("models/all-MiniLM-L6-v2"))
    SentenceEncoder(small, pooling="mean", tokenizer=real, max_seq_length=128).save_pretrained(folder)
    return folder


def put_models(desk: Path, shown: str, model: Path | None) -> None:
    """The names of the Hub and of the page, each a link to a model, or to one of ../shared."""
    links = {
        "all-MiniLM-L6-v2": "all-MiniLM-L6-v2",
        "sentence-transformers/all-MiniLM-L6-v2": "all-MiniLM-L6-v2",
        "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2": "all-MiniLM-L6-v2",
        "prajjwal1/bert-mini": "bert-mini",
        "bert-small-wiki": "bert-small-wiki",
        "bert-base-uncased": "bert-mini",
        "princeton-nlp/unsup-simcse-bert-base-uncased": "bert-mini",
    }
    for name in ("MODEL", "runs/simcse-minilm/version_0/model"):
        if name in shown:
            links[name] = "all-MiniLM-L6-v2"
    for name, real in links.items():
        (desk / name).parent.mkdir(exist_ok=True, parents=True)
        (desk / name).symlink_to(model or shared_path(f"models/{real}"))


def put_files(desk: Path, shown: str) -> None:
    """The user's texts, and a run's checkpoint, where the page names them."""
    shutil.copy(desk / "run.yaml", desk / "recipe.yaml")
    for name, (source, count) in TEXTS.items():
        if name in shown or (name == "sentences.txt" and "simcse/" in shown):
            with shared_path(f"data/{source}").open(encoding="utf-8") as file:
                (desk / name).write_text("".join(itertools.islice(file, count)), encoding="utf-8")
    if "SentEval/data" in shown:
        (desk / "SentEval").mkdir()
        (desk / "SentEval/data").symlink_to(shared_path("data/senteval"))
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
    if "best.ckpt" in shown:
        assert main(["fit", "-c", "run.yaml", "--trainer.log_every_n_steps", "1"]) == 0
        shutil.copy(next(desk.glob("runs/*/version_0/checkpoints/last.ckpt")), desk / "best.ckpt")


class Page:
    """A page that is run from its first block to the last."""

    def __init__(self, desk: Path, page: str) -> None:
        self.desk, self.page = desk, page
        self.names: dict[str, Any] = {}
        self.printed = ""

    def run(self) -> None:
        """Run every block. A text block after Python of README is compared with the printed text."""
        before = ""
        for language, text in blocks(self.page):
            if name := FILE.match(text):
                self.file(name[1], text)
            elif language == "python":
                self.printed = self.python(text)
            elif language == "console":
                for command, printed in commands(text):
                    self.command(command, printed)
            elif language == "text" and before == "python" and self.page == README:
                assert_alike(self.printed, text)
            before = language

    def file(self, name: str, text: str) -> None:
        """Write a file, and run its tests."""
        (self.desk / name).write_text(text)
        importlib.invalidate_caches()
        if "\ndef test_" in text:
            module = importlib.import_module(name.removesuffix(".py"))
            for test in [value for name, value in vars(module).items() if name.startswith("test_")]:
                test()

    def python(self, text: str) -> str:
        """What the code prints; it sees the names of the blocks before it."""
        with redirect_stdout(StringIO()) as out:
            exec(compile(text, self.page, "exec"), self.names)
        return out.getvalue()

    def command(self, command: str, printed: list[str]) -> None:
        """Run a command of the console; its last lines are compared where it ran at full length."""
        if command.startswith(ELSEWHERE):
            return
        for pattern, stand_in in REPLACED.items():
            command = re.sub(pattern, stand_in, command)
        words = shlex.split(command, comments=True)
        if words[0] == "python":
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(sys, "argv", words[1:])
                runpy.run_path(words[1], run_name="__main__")
            return
        if words[0] != "sentrep":
            subprocess.run(["bash", "-c", f"set -eo pipefail; {command}"], check=True, cwd=self.desk)
            return
        complete = self.page == README and words[1] == "quickstart"
        with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
            status = main(words[1:] if complete else [*words[1:], *shorter(words)])
        said = f"{self.page}: {command}\n{out.getvalue()[-2000:]}{err.getvalue()[-2000:]}"
        if HUB in words:
            assert "cannot be downloaded from the Hub" in said, said
            return
        assert status == 0, said
        if complete:
            shown = [line for line in printed if re.match(r" \S", line) and re.search(r"\d\.\d", line)]
            found = [*map(numbers, out.getvalue().splitlines())]
            assert [line for line in shown if numbers(line) not in found] == []


def shorter(words: list[str]) -> list[str]:
    """Flags that make a command short, and keep it off the Hub."""
    if words[1] == "fit" and "--trainer.devices" in words:
        return ["--print_config"]
    given = " ".join(words)
    flags = SHORT.get(words[1], "").split()
    if "--seeds" in words:
        flags += ["--seeds", "1", "--data.test", "[toy-test]"]
        flags += ["--row", "bert-base"] if "tables/ablation" in given else []
    if "--suite" in words:
        flags += ["--sets", "[mrpc]"]  # trec takes 20 seconds
    elif words[1] == "evaluate" and not {"--sets", HUB} & {*words}:
        flags += ["--sets", "[stsb-dev]"]
    on_hub = re.search(r"(?<!objectives\.)simcse\b|ablation\b", given)
    if words[1] == "fit" and "--data.sts_folder" not in words and on_hub:
        flags += OFFLINE.split() if "--data.train" not in words else OFFLINE.split()[2:]
    return flags


def numbers(line: str) -> list[str]:
    return re.findall(r"[-+]?\d+\.?\d*", line)


def assert_alike(printed: str, shown: str) -> None:
    """The same lines, numbers with a decimal point up to 0.02: another processor rounds otherwise."""
    parts = [re.split(r"(\d+\.\d+)", text.strip()) for text in (printed, shown)]
    assert len(parts[0]) == len(parts[1]), printed
    for one, other in zip(*parts, strict=True):
        assert one == other or float(one) == pytest.approx(float(other), abs=0.02)


class Walk(Page):
    """A page that is followed to the letter."""

    def command(self, command: str, printed: list[str]) -> None:
        """Run a command, which must print the lines that the page shows, in this order."""
        seen = follow(command, printed)
        rest = iter(map(in_words, seen))
        wanted = [line for line in printed if line.strip() not in ("", "...", "^C")]
        missing = [line for line in wanted if in_words(line) not in rest]
        assert not missing, "\n".join([*missing, "-- was not printed, in this order, but:", *seen])


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


def in_words(line: str) -> str:
    """A line without its numbers, which depend on the reader's text and processor."""
    return " ".join(re.sub(r"-?\d[\d.:e-]*", "N", line).split())


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("page", READ)
def test_every_block_of_a_page_runs(page: str, desk: Path, small_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = (ROOT / page).read_text(encoding="utf-8")
    put_models(desk, shown, None if page == README else small_model)
    put_files(desk, shown)
    if "opus-mt" in shown:
        for seed, way in enumerate(("en-zh", "zh-en")):
            save_tiny_marian(desk / f"Helsinki-NLP/opus-mt-{way}", seed)
    if "mteb.evaluate" in shown:
        mteb = pytest.importorskip("mteb", reason="needs mteb, the extra `mteb`")
        evaluate = mteb.evaluate  # the page's own call has no options, and its data are on the Hub
        monkeypatch.setattr(mteb, "evaluate", lambda *tasks, **options: options and evaluate(*tasks, **options))
    walked = (Walk if page in WALKS else Page)(desk, page)
    walked.run()
    if page == "docs/notebook.md":  # which trains in full
        before, after = (walked.names["right"](walked.names[name]) for name in ("before", "after"))
        assert after >= max(22, before + 1)  # of 24


def on_processes(page: str) -> Any:
    return pytest.param(page, marks=pytest.mark.slow) if page.endswith("processes.md") else page


@pytest.mark.parametrize("page", [*map(on_processes, PLUGINS)])
def test_the_example_of_a_page_runs(page: str, desk: Path) -> None:
    Page(desk, page).run()


def test_the_objective_of_readme_keeps_its_promises(desk: Path) -> None:
    put_examples(desk, README)
    check_objective(importlib.import_module("hinge").HardestNegative)


def put_examples(desk: Path, *pages: str) -> None:
    """The files that the pages show."""
    for page in pages:
        for _, text in blocks(page, "python"):
            if name := FILE.match(text):
                (desk / name[1]).write_text(text)


@pytest.mark.parametrize(("page", "text"), CONFIGURATIONS)
def test_what_a_page_configures_is_accepted_and_that_of_a_plugin_trains(
    page: str, text: str, desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (desk / "page.yaml").write_text(text, encoding="utf-8")
    words = ["fit", "-c", "run.yaml", "-c", "page.yaml"]
    if page not in PLUGINS:
        assert main([*words, "--print_config"]) == 0
        return
    put_examples(desk, *PLUGINS)
    if "rank: " in text:
        pytest.importorskip("peft")
    if "objectives:" in text and "simcse" not in text and "UncertaintyWeighted" not in text:
        words += ["--model.objectives.simcse", "null"]
    trained: list[Any] = []
    fit = Trainer.fit

    def watched(trainer: Trainer, model: Any, **options: Any) -> None:
        trained.extend([*model.modules(), *trainer.callbacks])
        fit(trainer, model, **options)

    monkeypatch.setattr(Trainer, "fit", watched)
    assert main([*words, "--model.head", "null", "--trainer.max_steps", "2"]) == 0
    assert list(desk.rglob("last.ckpt"))
    named = re.findall(r"class_path: ([\w.]+)", text)
    assert {name.rpartition(".")[2] for name in named} <= {type(part).__name__ for part in trained}


def step() -> dict[str, Any]:
    """Loss and gradients of the terms of the pages; each process holds its share of eight rows."""
    past, state, weighting, second, processes = (
        importlib.import_module(name) for name in ("hard_past", "reservoir", "hardness", "bootstrap", "triplet")
    )
    samplers = {"past": past.HardestPast(size=16), "even": state.Reservoir(8)}
    terms = {
        "contrastive": Contrastive(negatives=samplers, weighting=weighting.Hardness(2.0)),
        "bootstrap": second.Bootstrap(0.9),
        "triplet": processes.RandomTriplet(),
    }
    found = {}
    for name, term in terms.items():
        module = SentRepModule(tiny_encoder(dropout=0.0, pooling="mean"), {name: term})
        for sampler in samplers.values() if name == "contrastive" else ():
            sampler.after_step(torch.randn(12, 32, generator=torch.Generator().manual_seed(3)))
        sentences = toy_sentences(16)
        found[name] = loss_and_gradients(module, text_batch(module.encoder, sentences[:8], sentences[8:]))
    return found


@pytest.mark.slow
def test_the_examples_on_two_processes_equal_one(desk: Path) -> None:
    put_examples(desk, *PLUGINS)
    shares = run_processes(step, 2)
    for name, (loss, gradients) in step().items():
        bound = 1e-6 if name == "triplet" else 1e-10  # its cosines are in float32
        assert_equal_to_one_process([share[name] for share in shares], loss, gradients, bound)
