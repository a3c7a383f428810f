"""`sentrep recipes` and `sentrep quickstart`: what ships is found by its name, wherever a file is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sentrep.cli import main, run
from sentrep.cli.recipe import read
from sentrep.cli.recipes import read_about, shipped
from sentrep.cli.run_folder import run_name
from sentrep.cli.tables import read_table
from sentrep.cli.words import sort_words

CONFIGS = Path(__file__).resolve().parents[2] / "configs"


def test_every_file_of_configs_has_a_name() -> None:
    assert set(shipped().values()) == set(CONFIGS.rglob("*.yaml"))


@pytest.mark.parametrize("name", ["simcse/minilm", "simcse/minilm.yaml", "configs/simcse/minilm.yaml"])
def test_a_recipe_is_found_by_name(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    layers = sort_words(["-c", name])[0]
    assert layers == [(str(CONFIGS / "simcse/minilm.yaml"), read(str(CONFIGS / "simcse/minilm.yaml")))]
    assert run_name([layers[0][0]]) == "simcse-minilm"


def test_a_file_comes_before_a_recipe_of_its_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    Path("quickstart").write_text("data: {batch_size: 3}\n")
    assert sort_words(["-c", "quickstart"])[0] == [("quickstart", {"data": {"batch_size": 3}})]


@pytest.mark.parametrize("columns", ["80", "40"])
def test_the_list_loses_no_character(
    columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert main(["recipes"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= int(columns)
    assert {line.split()[0] for line in out.splitlines() if line.strip()} >= shipped().keys()
    assert "…" not in out
    words = {word for path in shipped().values() for word in read_about(path).score.split()}
    assert words <= set(out.split())


def test_show_prints_and_copy_writes_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (CONFIGS / "simcse/minilm.yaml").read_text(encoding="utf-8")
    assert main(["recipes", "show", "simcse/minilm"]) == 0
    assert capsys.readouterr().out == text
    assert main(["recipes", "copy", "simcse/minilm"]) == 0
    copy = Path("simcse-minilm.yaml")
    assert copy.read_text(encoding="utf-8") == text
    assert run_name([str(copy)]) == "simcse-minilm"
    copy.write_text("mine")
    assert main(["recipes", "copy", "simcse/minilm"]) == 1
    assert "--overwrite" in capsys.readouterr().err
    assert copy.read_text() == "mine"
    assert main(["recipes", "copy", "simcse/minilm", "--overwrite", "true"]) == 0
    assert copy.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("name", ["gs_infonce/tables/samples", "denosent/tables/methods"])
def test_a_copied_table_has_its_bases_still(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["recipes", "copy", name, "--output", "mine/table.yaml"]) == 0
    assert read_table("mine/table.yaml").rows == read_table(name).rows


def test_the_quick_start_is_its_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(run, "launch", lambda *arguments: seen.append(arguments) or 0)
    assert main(["quickstart", "--trainer.max_steps", "2"]) == 0
    command, ((file, _),), flags, own = seen[0]
    assert (command, file, flags, own) == ("fit", str(CONFIGS / "quickstart.yaml"), [("trainer.max_steps", "2")], {})
