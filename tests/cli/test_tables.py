"""Tables of papers: rows, what they change, and what a comparison prints beside its scores."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
import torch
import yaml

from sentrep.cli import compare_runs, main, seeded_runs
from sentrep.cli.errors import UsageError
from sentrep.cli.seeded_runs import SCORES, Run, Wanted
from sentrep.cli.tables import read_table
from sentrep.data.sets.sts import load_sts
from sentrep.encoder import SentenceEncoder, fit_whitening
from support import table_rows

TABLE = """\
title: Table 2
base: run.yaml
metric: one seed
rows:
  whole: {published: 77.2}
  noise-0.8: {published: 74.80 ± 1.1, change: {model.objectives.simcse.temperature: 0.5, data.batch_size: 2}}
  without: {change: {model.objectives.simcse: null, model.objectives.other: Contrastive}}
"""


@pytest.fixture
def table(workplace: Path) -> str:
    (workplace / "table.yaml").write_text(TABLE, encoding="utf-8")
    return "table.yaml"


def test_rows_are_whole_recipes_in_the_papers_order(table: str) -> None:
    rows = read_table(table).rows
    base = yaml.safe_load(Path("run.yaml").read_text())
    assert list(rows) == ["whole", "noise-0.8", "without"]
    assert rows["whole"].tree == base
    changed = rows["noise-0.8"].tree
    assert changed["model"]["objectives"]["simcse"]["init_args"] == {"temperature": 0.5}
    assert changed["data"] == {**base["data"], "batch_size": 2}
    assert list(rows["without"].tree["model"]["objectives"]) == ["other"]
    assert [row.published for row in rows.values()] == [(77.2, None), (74.8, 1.1), None]
    assert list(read_table(table).only(["without", "whole"]).rows) == ["whole", "without"]
    assert rows["whole"].sets == {}


def test_a_table_has_the_numbers_of_single_sets(table: str) -> None:
    text = TABLE.replace("77.2}", "77.2, sets: {sts16: 78.4 ± 1.06, stsb: 79}}")
    text += "  glove: {published: 61.3, sets: {stsb: 58.02}, absent: no word vectors here}"
    Path(table).write_text(text, encoding="utf-8")
    found = compare_runs.published(read_table(table))
    assert found.sets["whole"] == {"sts16": (78.4, 1.06), "stsb": (79.0, None)}
    assert found.sets["glove"] == {"stsb": (58.02, None)}
    assert found.sets["without"] == {}


def test_a_published_number_may_be_a_loss(table: str) -> None:
    Path(table).write_text(TABLE.replace("74.80 ± 1.1", "-6.01 ± 0.61"), encoding="utf-8")
    assert read_table(table).rows["noise-0.8"].published == (-6.01, 0.61)
    Path(table).write_text(TABLE.replace("74.80 ± 1.1", "6.01 ± -0.61"), encoding="utf-8")
    with pytest.raises(UsageError, match=r"row noise-0\.8: published is '6.01 ± -0.61'"):
        read_table(table)


def test_a_row_says_that_it_is_what_the_released_code_does(table: str) -> None:
    text = TABLE + "  as-run: {published: 77.2, reading: %s}"
    for reading in ("paper", "released"):
        Path(table).write_text(text % reading, encoding="utf-8")
        assert [row.reading for row in read_table(table).rows.values()] == ["paper"] * 3 + [reading]
    Path(table).write_text(text % "[mine]", encoding="utf-8")
    with pytest.raises(UsageError, match=r"row as-run: reading: .*mine"):
        read_table(table)


WITH_OTHERS = TABLE.replace(
    "  whole:",
    "  glove: {published: 61.3, absent: no word vectors here}\n  cls: {published: 31.4, untrained: true}\n  whole:",
)


def test_the_baseline_is_the_one_named_or_the_first_row_that_trains(table: str) -> None:
    Path(table).write_text(WITH_OTHERS, encoding="utf-8")
    found = read_table(table)
    assert (found.first, found.only(["glove", "cls", "without"]).first) == ("whole", "without")
    assert found.only(["glove", "cls"]).first == "cls"
    assert [file.stem for file in found.recipes(Path())] == ["cls", "whole", "noise-0.8", "without"]
    Path(table).write_text(WITH_OTHERS + "baseline: without", encoding="utf-8")
    assert (read_table(table).first, read_table(table).only(["whole"]).first) == ("without", "whole")


def test_an_untrained_row_scores_the_encoder_as_it_is_once(
    table: str, workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pooling = "mean_first_last"
    text = WITH_OTHERS.replace("untrained: true", f"untrained: true, change: {{model.encoder.pooling: {pooling}}}")
    change = f"model.encoder.pooling: {pooling}, data.train: pairs.tsv, data.columns: [sent0, sent1]"
    whitened = f"  white: {{untrained: whitened, change: {{{change}}}}}\n"
    Path(table).write_text(text + whitened, encoding="utf-8")
    words = Path("corpus.txt").read_text().split()
    sentences = [" ".join(words[place : place + 5]) for place in range(60)]
    two = zip(sentences[::2], sentences[1::2], strict=True)
    Path("pairs.tsv").write_text("sent0\tsent1\n" + "".join(f"{one}\t{other}\n" for one, other in two))
    words = ["compare", "--table", table, "--rows", "[glove,cls,white]", "--sets", "[dev.csv]"]
    Path("over.yaml").write_text("model: {encoder: {pooling: mean}}")  # is for the rows that train
    assert main([*words, "--seeds", "2", "--over", "[over.yaml]"]) == 0
    out = capsys.readouterr().out
    assert "absent" in out
    assert [path.parent.name for path in sorted(workplace.glob("comparisons/*/*/scores.npz"))] == ["seed-19984"] * 2
    assert not list(workplace.glob("comparisons/*/*/fit.log"))
    rows = json.loads((workplace / "comparisons/report.json").read_text(encoding="utf-8"))["rows"]
    assert list(rows) == ["cls", "white"]
    config = yaml.safe_load(Path("run.yaml").read_text())["model"]["encoder"]
    torch.manual_seed(19984)
    encoder = SentenceEncoder(**{**config, "pooling": pooling})
    pairs = load_sts("dev.csv")
    expected = scipy.stats.spearmanr(encoder.pairwise_cosine(pairs.first, pairs.second), pairs.scores).statistic
    assert rows["cls"]["sets"]["dev"] == pytest.approx([100 * expected])
    fit_whitening(encoder, sentences)
    expected = scipy.stats.spearmanr(encoder.pairwise_cosine(pairs.first, pairs.second), pairs.scores).statistic
    assert rows["white"]["sets"]["dev"] == pytest.approx([100 * expected])


def test_an_untrained_row_is_told_from_a_trained_one(
    table: str, workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(table).write_text(WITH_OTHERS.replace("  without:", "  without: {}\n  other:"), encoding="utf-8")
    trained = fake_runs(monkeypatch)
    assert main(["compare", "--table", table, "--sets", "[dev.csv]"]) == 0
    assert trained.count("cls") == 1
    assert trained.count("whole") == 5
    record = json.loads((workplace / "comparisons/report.json").read_text(encoding="utf-8"))
    row = record["rows"]["cls"]
    assert (row["seeds"], row["mean sd"], row["verdict"]) == (1, None, "better")
    cells = {label: row for label, *row in table_rows(workplace / "comparisons/report.md")}
    assert cells["glove"][:4] == ["", "", "", "61.30"]
    assert cells["whole"][-1] == "baseline"
    assert cells["cls"][0] == "1"


@pytest.mark.parametrize(
    ("row", "message"),
    [("cls", r"row cls trains nothing; it is scored by: compare"), ("glove", "row glove cannot be run: no word vect")],
)
def test_a_row_with_nothing_to_train_is_no_run(
    row: str, message: str, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(table).write_text(WITH_OTHERS, encoding="utf-8")
    assert main(["fit", "--table", table, "--row", row]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_row_trains_in_a_folder_of_its_name_and_flags_win(table: str, workplace: Path) -> None:
    words = ["fit", "--row", "noise-0.8", "--data.batch_size=3", f"--table={table}", "-c{trainer: {max_steps: 2}}"]
    assert main(words) == 0
    config = yaml.safe_load((workplace / "runs/noise-0.8/version_0/config.yaml").read_text())
    assert config["model"]["objectives"]["simcse"]["init_args"]["temperature"] == 0.5
    assert (config["data"]["batch_size"], config["trainer"]["max_steps"]) == (3, 2)
    words = ["test", "--table", table, "--row", "noise-0.8", "--ckpt_path=last", "--data.test=[dev.csv]"]
    assert main(words) == 0


def test_a_written_row_reads_as_itself(table: str, workplace: Path) -> None:
    text = (
        TABLE + "  odd: {change: {model.encoder.prompt: '1e-4', model.optimizer.lr: 1e-5, data.x: [yes, '2020-01-01']}}"
    )
    (workplace / table).write_text(text, encoding="utf-8")
    (content,) = read_table(table).only(["odd"]).recipes(Path()).values()
    (workplace / "odd.yaml").write_text(content)
    (workplace / "again.yaml").write_text("{base: odd.yaml, rows: {a: {}}}")
    assert read_table("again.yaml").rows["a"].tree == read_table(table).rows["odd"].tree


def fake_runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    trained: list[str] = []

    def score(run: Run, wanted: Wanted) -> None:
        trained.append(run.label)
        gold = np.linspace(0, 5, 60)
        cosine = gold + np.random.default_rng(run.seed).normal(0, 1, 60)
        np.savez(run.folder / SCORES, **{"cosine/dev": cosine, "gold/dev": gold})

    monkeypatch.setattr(compare_runs, "check_runs", lambda runs, wanted: {run.label: ("", "") for run in runs})
    monkeypatch.setattr(seeded_runs, "_train", lambda run, jobs: None)
    monkeypatch.setattr(seeded_runs, "_score", score)
    return trained


def test_a_comparison_prints_rows_beside_the_published_numbers(
    table: str, workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = fake_runs(monkeypatch)
    words = ["compare", "--table", table, "--seeds", "1"]
    assert main([*words, "--rows", "noise-0.8"]) == 0  # a table of one row
    assert main([*words, "--rows", "[without,whole]"]) == 0
    assert trained == ["noise-0.8", "whole", "without"]
    assert main([*words, "--sets", "[dev.csv]", "--output", "other"]) == 0
    out = capsys.readouterr().out
    assert "77.20" in out
    assert "not printed" in out
    assert "Table 2. Published: one seed. The scores here are over dev." in " ".join(out.split())
    assert (workplace / "other/report.md").read_text(encoding="utf-8").startswith("# Table 2\n")
    rows = [row[0:5:4] for row in table_rows(workplace / "other/report.md")[2:]]
    assert rows == [["whole", "77.20"], ["noise-0.8", "74.80 ± 1.10"], ["without", "not printed"]]
    record = json.loads((workplace / "other/report.json").read_text(encoding="utf-8"))
    assert (record["seeds"], record["max_steps"], record["batch_size"]) == ([19984], 4, 4)
    assert record["rows"]["noise-0.8"]["published difference"] == -2.4
    assert "published" in (workplace / "other/report.svg").read_text(encoding="utf-8")
    recipe = yaml.safe_load((workplace / "other/recipes/noise-0.8.yaml").read_text())
    assert recipe == read_table(table).rows["noise-0.8"].tree


def test_a_changed_row_is_not_mixed_with_its_former_runs(
    table: str, workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = fake_runs(monkeypatch)
    words = ["compare", "--table", table, "--rows", "[whole,noise-0.8]", "--seeds", "1"]
    with monkeypatch.context() as failing:
        failing.setattr(seeded_runs, "_train", lambda run, jobs: "training failed")
        (workplace / table).write_text(TABLE.replace("0.5", "0.4"), encoding="utf-8")
        assert main(words) == 2
    (workplace / table).write_text(TABLE, encoding="utf-8")
    assert main(words) == 0  # nothing was trained with the other value
    (workplace / table).write_text(TABLE.replace("77.2", "78.9"), encoding="utf-8")
    assert main(words) == 0  # what the paper printed is no setting
    (workplace / table).write_text(TABLE.replace("0.5", "0.6"), encoding="utf-8")
    assert main(words) == 2
    assert "noise-0.8/seed-19984 holds a run with other settings; choose another --output" in capsys.readouterr().err
    assert len(trained) == 2


def test_settings_are_adapted_in_the_rows_that_have_them(
    table: str, workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sam = "{class_path: SAM, init_args: {base_optimizer: {class_path: torch.optim.AdamW, init_args: {lr: 0.1}}}}"
    frozen = "{class_path: ComplementaryWeighting, init_args: {model: far/away}}"
    rows = f"  sam: {{change: {{model.optimizer: {sam}, model.objectives.simcse.weighting: {frozen}}}}}\n"
    (workplace / table).write_text(TABLE + rows, encoding="utf-8")
    read = read_table(table)
    adapted = read.adapt({"lr": 0.25, "weighting.model": "near", "batch_size": 4})
    tree = adapted.rows["sam"].tree
    assert tree["model"]["optimizer"]["init_args"]["base_optimizer"]["init_args"]["lr"] == 0.25
    assert tree["model"]["objectives"]["simcse"]["init_args"]["weighting"]["init_args"]["model"] == "near"
    assert all(row.tree["data"]["batch_size"] == 4 for row in adapted.rows.values())
    assert adapted.rows["whole"].tree["model"]["objectives"] == read.rows["whole"].tree["model"]["objectives"]
    assert read.rows["noise-0.8"].tree["data"]["batch_size"] == 2
    trained = fake_runs(monkeypatch)
    words = ["compare", "--table", table, "--rows", "whole", "--seeds", "1", "--adapt"]
    assert main([*words, "{lr: 0.25}"]) == 2
    assert f"{table}: no row has a key that ends with 'lr' (--adapt)" in capsys.readouterr().err
    assert main([*words, "{batch_size: 4}"]) == 0
    assert yaml.safe_load((workplace / "comparisons/recipes/whole.yaml").read_text())["data"]["batch_size"] == 4
    assert trained == ["whole"]


def test_hostile_texts_of_a_table_are_printed_harmless(
    table: str, workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_runs(monkeypatch)
    nasty = r'"\e[2J\u202e<script>[red]|x"'
    (workplace / table).write_text(TABLE.replace("Table 2", nasty).replace("one seed", nasty), encoding="utf-8")
    assert main(["compare", "--table", table, "--rows", "whole", "--seeds", "1"]) == 0
    printed = capsys.readouterr().out
    report = (workplace / "comparisons/report.md").read_text(encoding="utf-8")
    assert all("script" in text for text in (printed, report))
    assert not any(sign in text for text in (printed, report) for sign in ("\x1b", "\u202e"))
    assert "<script>" not in report
    assert "[red]" in printed
