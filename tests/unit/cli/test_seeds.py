"""``sentrep fit --seeds``: plans, kept and refused runs, failures, the table of a paper."""

from __future__ import annotations

import json
import re
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import torch
import yaml

from sentrep.cli import main, seeds
from sentrep.cli.errors import UsageError
from sentrep.cli.run_content import content_and_pairs
from sentrep.cli.seeds import LOCK, THESIS_SEEDS, Run, seed_list
from sentrep.cli.words import split
from sentrep.data.sets.sts import load_sts
from sentrep.encoder import SentenceEncoder
from sentrep.evaluation.run_scores import RECORD, SCORES
from sentrep.io.files import hold
from support import table_rows

TABLE = """\
title: Table 2
base: run.yaml
metric: one seed
rows:
  glove: {published: 61.3, absent: no word vectors here}
  cls: {published: 31.4, untrained: true, change: {model.encoder.pooling: mean_first_last}}
  whole: {published: 77.2 ± 0.5}
  noise-0.8: {published: 74.80 ± 1.2, change: {model.objectives.simcse.temperature: 0.5, data.batch_size: 2}}
"""
FIT = ["fit", "-c", "run.yaml", "--data.test", "[dev.csv]"]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, workplace: Path) -> list[str]:
    """Runs train and test in this process; the names of those that did."""
    done: list[str] = []

    def run_here(words: list[str], run: Run, jobs: int) -> str | None:
        done.append(f"{words[0]} {run.label}/{run.seed}")
        return None if main(words) == 0 else f"{words[0]} failed"

    monkeypatch.setattr(seeds, "_sentrep", run_here)
    return done


@pytest.mark.parametrize("text", ["0", "-1", "", "1,1", "a", "1.5", "[]", "1,-2"])
def test_wrong_seeds_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="give a number of seeds from 1 on, or different seeds"):
        seed_list(text)


def test_the_thesis_seeds_come_first_and_further_ones_are_always_the_same() -> None:
    assert seed_list("5") == list(THESIS_SEEDS)
    assert seed_list("8")[:5] == list(THESIS_SEEDS)
    assert seed_list("8") == seed_list("9")[:8]
    assert len(set(seed_list("50"))) == 50
    assert seed_list("3,1") == seed_list("[3, 1]") == [3, 1]


def test_a_recipe_and_its_variants_are_trained_tested_and_compared_once(here: list[str]) -> None:
    Path("over.yaml").write_text("model: {warmup_steps: 1}\n")
    words = [*FIT, "--variant=small=--data.batch_size 2 -c 'over.yaml'", "--seeds"]
    assert main([*words, "1"]) == 0
    assert here == [f"{what} {label}/19984" for label in ("run", "small") for what in ("fit", "test")]
    for label in ("run", "small"):
        folder = Path("runs/run", label, "seed-19984")
        config = yaml.safe_load((folder / "config.yaml").read_text())
        assert (config["seed_everything"], config["data"]["seed"]) == (19984, 19984)
        assert config["data"]["batch_size"] == (2 if label == "small" else 4)
        assert config["model"]["warmup_steps"] == int(label == "small")
        assert json.loads((folder / RECORD).read_text())["seed"] == 19984
        frame = pd.read_parquet(folder / SCORES)
        model = SentenceEncoder.from_pretrained(folder / "model")
        pairs = load_sts("dev.csv")
        expected = model.similarity_pairwise(model.encode(pairs.first), model.encode(pairs.second))
        np.testing.assert_allclose(frame["cosine"], expected, rtol=0, atol=1e-6)
        np.testing.assert_array_equal(frame["gold"], pairs.scores)
    report = Path("runs/run/report.md").read_text()
    assert re.search(
        r"\n\nsmall: data corpus.txt, steps \d, flags --data.batch_size 2 --model.warmup_steps 1.\n", report
    )
    here.clear()
    assert main([*words, "2"]) == 0
    assert here == [f"{what} {label}/5838" for label in ("run", "small") for what in ("fit", "test")]
    assert Path("runs/run/report.md").read_text() != report
    here.clear()
    unfinished = [Path("runs/run", name) for name in (".report.svg.0123abcd.tmp", "run/seed-19984/.x.0123abcd.tmp")]
    other = Path("runs/run/version_0/.last.ckpt.0123abcd.tmp")  # of a single run, which may be at work
    for place in (*unfinished, other):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    assert main([*words, "1"]) == 0
    assert here == []
    assert [place for place in (*unfinished, other) if place.exists()] == [other]
    assert Path("runs/run/report.md").read_text() == report  # of the seeds asked for


WRONG: dict[str, tuple[list[str], str]] = {
    "a variant's own seed": (["--variant", "x=--seed_everything 3"], "fit, x: --seeds sets the seeds"),
    "its own order": (["--variant", "x=--data.seed 3"], "fit, x: --seeds sets the seeds"),
    "a folder": (["--trainer.logger.save_dir", "there"], "--seeds sets the seeds and the folder"),
    "a name twice": (["--variant", "run=--data.batch_size 2"], "2: expected a new name"),
    "a name that is no folder": (["--variant", "../x=--data.batch_size 2"], "expected a new name"),
    "no flags": (["--variant", "x"], "expected a new name"),
    "no jobs": (["--jobs", "0"], "--jobs 0: expected a number from 1 on"),
    "no test": (["--data.test", "[]"], "it has no data.test"),
    "a text": (["--data.train", "gone.txt"], "gone.txt: no such file"),
    "a set": (["--data.test", "[gone.csv]"], "gone.csv: no such file"),
    "compiled code": (["--model.encoder.compute.compile", "true"], "compiled runs do not share their noise"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_mistake_is_found_before_the_first_run(
    wrong: str, here: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    flags, says = WRONG[wrong]
    assert main([*FIT, *flags, "--seeds", "2"]) != 0
    assert says in " ".join(capsys.readouterr().err.split())
    assert here == []


def test_options_of_seeds_alone_are_refused(here: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([*FIT, "--jobs", "2"], ["test", "--seeds", "2"], ["fit", "--seeds", "2", "--model.warmup_steps=1"]):
        assert main(words) == 2
        assert "--seeds" in capsys.readouterr().err


SOURCE = "from sentrep.objectives import Alignment\n\n\nclass Mine(Alignment):\n    pass\n"
GATE = """
from sentrep.encoder import SentenceModule


class Gate(SentenceModule):
    def forward(self, embedding, token_states, mask):
        return 2 * embedding
"""
CHANGES = {
    "text": ("corpus.txt", "a", "o"),
    "dev set": ("val.csv", ",0\n", ",3\n"),
    "recipe": ("run.yaml", '"max_steps": 4', '"max_steps": 3'),
    "tokenizer": ("backbone/tokenizer.json", "{", "{ "),
    "class": ("mine_{}.py", "pass", "factor = 2"),
    "class in a list": ("gate_{}.py", "2 *", "3 *"),
    "backbone": ("backbone/config.json", '"num_attention_heads": 2', '"num_attention_heads": 4'),
}
"""A file behind the words of a command, and what changes in it."""


@pytest.mark.parametrize("change", CHANGES)
def test_a_run_of_other_content_is_another_run(change: str, workplace: Path, model: str) -> None:
    """The words of the command stay the same."""
    shutil.copytree(model, "backbone")
    shutil.copy("dev.csv", "val.csv")
    own = change.replace(" ", "_")  # this process imports a name once
    Path(f"mine_{own}.py").write_text(SOURCE)
    Path(f"gate_{own}.py").write_text(GATE)
    words = [
        *(*FIT[1:], "--model.objectives.mine", f"mine_{own}.Mine", "--model.encoder.modules", f"[gate_{own}.Gate]"),
        *("--model.encoder.tokenizer", "null", "--model.encoder.backbone", "backbone", "--data.val", "[val.csv]"),
    ]
    contents = [content_and_pairs([*split(words)], trains=True)[0] for _ in range(2)]
    assert contents[0] == contents[1]
    name, old, new = CHANGES[change]
    file = Path(name.format(own))
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new, 1))
    assert content_and_pairs([*split(words)], trains=True)[0] != contents[0]


@pytest.mark.slow
def test_scores_of_other_pairs_are_made_again_without_training(here: list[str]) -> None:
    file = Path("test.csv")
    shutil.copy("dev.csv", file)
    words = [*FIT[:3], "--data.test", "[test.csv]", "--seeds", "1"]

    def mean() -> float:
        here.clear()
        assert main(words) == 0
        return float(json.loads(Path("runs/run/report.json").read_text())["rows"]["run"]["mean"])

    before, text = mean(), file.read_text()
    header, *rows = text.splitlines()
    file.write_text(f"{text.rstrip()}9\n")  # another gold score
    assert mean() != pytest.approx(before)
    assert here == ["test run/19984"]
    file.write_text("\n".join([header, *reversed(rows)]) + "\n")
    assert mean() == pytest.approx(before)
    assert here == ["test run/19984"]
    next(Path("runs").rglob(SCORES)).unlink()
    assert mean() == pytest.approx(before)
    assert here == ["test run/19984"]


@pytest.mark.slow
def test_scores_are_those_of_the_chosen_checkpoint_after_the_last_training(here: list[str]) -> None:
    assert main([*FIT, "--seeds", "1"]) == 0
    folder = Path("runs/run/run/seed-19984")
    scores, (chosen,) = folder / SCORES, folder.glob("checkpoints/step=*.ckpt")
    first = pd.read_parquet(scores)
    scores.unlink()
    last = str(folder / "checkpoints/last.ckpt")
    words = ["-c", "run.yaml", "--data.test", "[dev.csv]", "--ckpt_path"]
    assert main(["test", *words, last]) == 0
    assert not scores.exists()
    assert main(["test", *words, str(chosen)]) == 0
    pd.testing.assert_frame_equal(pd.read_parquet(scores), first)
    logger = {"save_dir": "runs/run", "name": "run", "version": "seed-19984"}
    place = [f"--trainer.logger.{key}={value}" for key, value in logger.items()]
    assert main(["fit", *words, last, *place, "--trainer.max_steps", "6", "--allow-changes"]) == 0
    assert not scores.exists()  # they were of the training before


@pytest.mark.slow
def test_a_run_trains_and_is_tested_in_processes_of_their_own(workplace: Path) -> None:
    assert main([*FIT, "--seeds", "1"]) == 0
    folder = Path(f"runs/run/run/seed-{THESIS_SEEDS[0]}")
    assert "`max_steps=4` reached" in (folder / "fit.log").read_text()
    assert (folder / SCORES).exists()


def test_of_two_commands_one_works_and_ctrl_c_ends_it(
    here: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*FIT, "--seeds", "1"]
    with hold(Path("runs/run", LOCK), "x"):
        assert main(words) == 1
    assert "at work on fit --seeds in runs/run" in " ".join(capsys.readouterr().err.split())

    def interrupted(*_: Any) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(seeds, "_sentrep", interrupted)
    assert main(words) == 130


def test_jobs_run_side_by_side(here: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(2, timeout=60)  # breaks unless two runs wait at it at the same time
    monkeypatch.setattr(seeds, "_sentrep", lambda *_: (together.wait() and None) or "no")
    assert main([*FIT, "--seeds", "2", "--jobs", "2"]) == 2


@pytest.mark.slow
def test_a_failed_run_is_reported_and_does_not_stop_the_others(
    here: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_here = seeds._sentrep

    def failing(words: list[str], run: Run, jobs: int) -> str | None:
        if (run.label, run.seed) != ("low", 2):
            return run_here(words, run, jobs)
        run.folder.mkdir(parents=True, exist_ok=True)
        (run.folder / RECORD).write_text(json.dumps({"seed": run.seed, "content": run.content, "settings": {}}))
        return "it broke"

    monkeypatch.setattr(seeds, "_sentrep", failing)
    words = [*FIT, "--variant", "low=--model.optimizer.lr 1e-7", "--seeds"]
    assert main([*words, "1,2"]) == 1
    assert "low, seed 2: it broke" in capsys.readouterr().err
    assert [row[:2] for row in table_rows(Path("runs/run/report.md"))[2:]] == [["run", "2"], ["low", "1"]]


@pytest.fixture
def table() -> str:
    Path("table.yaml").write_text(TABLE, encoding="utf-8")
    return "table.yaml"


@pytest.mark.slow
def test_the_rows_of_a_table_stand_beside_what_the_paper_printed(
    here: list[str], table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["fit", "--table", table, "--data.test", "[dev.csv]", "-c", "over.yaml", "--seeds", "1,2"]
    Path("over.yaml").write_text("model: {encoder: {pooling: mean}}")  # is for the rows that train
    assert main(words) == 0, capsys.readouterr().err
    trained = {f"{what} {row}/{seed}" for what in ("fit", "test") for row in ("whole", "noise-0.8") for seed in (1, 2)}
    assert {*here} == {"test cls/1", *trained}
    rows = json.loads(Path("runs/table-over/report.json").read_text(encoding="utf-8"))["rows"]
    assert (list(rows), rows["whole"]["verdict"]) == (["cls", "whole", "noise-0.8"], "baseline")
    assert (rows["cls"]["seeds"], rows["cls"]["mean sd"]) == (1, None)
    config = yaml.safe_load(Path("run.yaml").read_text())["model"]["encoder"]
    torch.manual_seed(1)
    encoder = SentenceEncoder(**{**config, "pooling": "mean_first_last"}).eval()
    pairs = load_sts("dev.csv")
    cosine = encoder.similarity_pairwise(encoder.encode(pairs.first), encoder.encode(pairs.second))
    expected = scipy.stats.spearmanr(cosine, pairs.scores).statistic
    assert rows["cls"]["sets"]["dev"] == pytest.approx([100 * expected])
    cells = {label: row for label, *row in table_rows(Path("runs/table-over/report.md"))}
    assert "61.30" in cells["glove"]
    assert cells["noise-0.8"][5:7] == ["74.80 ± 1.20", "-2.40 ± 1.30"]
    here.clear()
    Path(table).write_text(TABLE.replace("77.2", "78.9"), encoding="utf-8")  # a published number is no setting
    assert main([*words, "--row", "whole,noise-0.8"]) == 0
    assert here == []
    assert [label for label, *_ in table_rows(Path("runs/table-over/report.md"))[2:]] == ["whole", "noise-0.8"]
    Path(table).write_text(TABLE.replace("temperature: 0.5", "temperature: 0.6"), encoding="utf-8")
    assert main(words) == 2
    assert "noise-0.8/seed-1 holds a run of another text" in capsys.readouterr().err
