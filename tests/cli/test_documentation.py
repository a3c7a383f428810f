"""What the documentation shows is run as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from sentrep.cli import main

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_recipe_with_all_plugins_at_once_trains(workplace: Path, teacher: str) -> None:
    (recipe,) = re.findall(r"```yaml\n(.*?)```", (DOCS / "plugins.md").read_text(encoding="utf-8"), re.DOTALL)
    (workplace / "all.yaml").write_text(recipe.replace("TRAINED_SIMCSE", teacher))
    arguments = ["fit", "-c", "run.yaml", "-c", "all.yaml", "--model.head", "null", "--trainer.max_steps", "2"]
    assert main(arguments) == 0
    assert list(workplace.rglob("last.ckpt"))


def test_the_recipe_with_a_corpus_and_pairs_trains(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, recipe = re.findall(r"```yaml\n(.*?)```", (DOCS / "pairs.md").read_text(encoding="utf-8"), re.DOTALL)
    (workplace / "joined.yaml").write_text(recipe)
    sentences = (workplace / "corpus.txt").read_text().splitlines()
    pq.write_table(pa.table({"sent0": sentences[:5], "sent1": sentences[1:6]}), workplace / "pairs.parquet")
    assert main(["fit", "-c", "run.yaml", "-c", "joined.yaml", "--trainer.max_steps", "2"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "one run: run.yaml, overridden by joined.yaml"
    (line,) = [line for line in said if "without a pair" in line]
    assert line.startswith(f"corpus.txt with the pairs of pairs.parquet: {len(sentences)} rows (")
    assert f", {len(sentences) - 5} without a pair and their own positive, " in line
    config = yaml.safe_load((workplace / "runs/run/version_0/config.yaml").read_text())
    assert config["data"]["pairs"] == "pairs.parquet"


def test_the_documented_folders_and_files_exist() -> None:
    root = DOCS.parent
    for page in [root / "README.md", *DOCS.rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which does not exist"
