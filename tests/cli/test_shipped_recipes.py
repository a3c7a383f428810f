"""`sentrep recipes` and `sentrep quickstart`: what ships is found by its name, wherever a file is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentrep.cli import main
from sentrep.cli.config.configuration import Request, parse_request, read_config
from sentrep.cli.config.paper_tables import read_table
from sentrep.cli.config.recipes import read_about, shipped
from sentrep.cli.runs import trainer

CONFIGS = Path(__file__).resolve().parents[2] / "configs"


def test_every_file_of_configs_has_a_name() -> None:
    assert set(shipped().values()) == set(CONFIGS.rglob("*.yaml"))


@pytest.mark.parametrize("name", ["simcse/minilm", "simcse/minilm.yaml", "configs/simcse/minilm.yaml"])
def test_a_recipe_is_found_by_name(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    request = parse_request(["-c", name])
    assert request.tree == read_config(str(CONFIGS / "simcse/minilm.yaml"))[1]
    assert request.name == "simcse-minilm"


def test_a_file_comes_before_a_recipe_of_its_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    Path("quickstart").write_text("data: {batch_size: 3}\n")
    assert read_config("quickstart") == ("quickstart", {"data": {"batch_size": 3}})


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
    assert parse_request(["-c", str(copy)]).name == "simcse-minilm"
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
    seen: list[Request] = []
    monkeypatch.setattr(trainer, "launch", lambda command, request: seen.append(request) or 0)
    assert main(["quickstart", "--trainer.max_steps", "2"]) == 0
    assert seen[0].files == [str(CONFIGS / "quickstart.yaml")]
    assert seen[0].flags == {"trainer.max_steps": "2"}
