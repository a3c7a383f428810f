"""Tables of papers: rows, what they change, and what a comparison prints beside its scores."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from sentrep.cli import main
from sentrep.cli.errors import UsageError
from sentrep.cli.tables import published, read_table

TABLE = """\
title: Table 2
base: run.yaml
metric: one seed
rows:
  whole: {published: 77.2}
  noise-0.8: {published: -6.01 ± 0.61, change: {model.objectives.simcse.temperature: 0.5, data.batch_size: 2}}
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
    assert [row.published for row in rows.values()] == [(77.2, None), (-6.01, 0.61), None]
    assert list(read_table(table).only(["without", "whole"]).rows) == ["whole", "without"]
    assert rows["whole"].sets == {}


def test_a_table_has_the_numbers_of_single_sets(table: str) -> None:
    text = TABLE.replace("77.2}", "77.2, sets: {sts16: 78.4 ± 1.06, stsb: 79}}")
    text += "  glove: {published: 61.3, sets: {stsb: 58.02}, absent: no word vectors here}"
    Path(table).write_text(text, encoding="utf-8")
    found = published(table, ["whole", "noise-0.8", "without"])
    assert found.sets["whole"] == {"sts16": (78.4, 1.06), "stsb": (79.0, None)}
    assert found.sets["glove"] == {"stsb": (58.02, None)}
    assert found.sets["without"] == {}


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("title:", "tittle:", "table.yaml: "),
        ("-6.01 ± 0.61", "-6.01 +- 0.61", "table.yaml, row noise-0.8: "),
        ("without: {change", "without: {chnage", "table.yaml, row without: "),
        ("base: run.yaml", "base: gone.yaml", "table.yaml, row whole: gone.yaml: "),
        ("  whole:", "  ../whole:", "table.yaml, row ../whole: a name has letters"),
    ],
)
def test_a_mistake_is_named_with_its_row(old: str, new: str, place: str, table: str) -> None:
    Path(table).write_text(TABLE.replace(old, new), encoding="utf-8")
    with pytest.raises(UsageError) as refusal:
        read_table(table)
    assert str(refusal.value).startswith(place)


WITH_OTHERS = TABLE.replace(
    "  whole:",
    "  glove: {published: 61.3, absent: no word vectors here}\n  cls: {published: 31.4, untrained: true}\n  whole:",
)


def test_the_baseline_is_the_one_named_or_the_first_row_that_trains(table: str) -> None:
    Path(table).write_text(WITH_OTHERS, encoding="utf-8")
    found = read_table(table)
    assert (found.first, found.only(["glove", "cls", "without"]).first) == ("whole", "without")
    assert found.only(["glove", "cls"]).first == "cls"
    Path(table).write_text(WITH_OTHERS + "baseline: without", encoding="utf-8")
    assert (read_table(table).first, read_table(table).only(["whole"]).first) == ("without", "whole")


def test_a_row_with_nothing_to_run_is_no_run(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(table).write_text(WITH_OTHERS, encoding="utf-8")
    assert main(["fit", "--table", table, "--row", "glove"]) == 2
    assert "row glove cannot be run: no word vectors" in capsys.readouterr().err


def test_a_row_trains_in_a_folder_of_its_name_and_flags_win(table: str, workplace: Path) -> None:
    words = ["fit", "--row", "noise-0.8", "--data.batch_size=3", f"--table={table}", "--trainer.max_steps=2"]
    assert main(words) == 0
    config = yaml.safe_load((workplace / "runs/noise-0.8/version_0/config.yaml").read_text())
    assert config["model"]["objectives"]["simcse"]["init_args"]["temperature"] == 0.5
    assert (config["data"]["batch_size"], config["trainer"]["max_steps"]) == (3, 2)
    words = ["test", "--table", table, "--row", "noise-0.8", "--ckpt_path=last", "--data.test=[dev.csv]"]
    assert main(words) == 0
