"""`sentrep recipes` and `sentrep quickstart`: what ships is found by its name, wherever a file is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sentrep.cli import main, run
from sentrep.cli.recipe import read
from sentrep.cli.recipes import read_about, shipped
from sentrep.cli.run_folder import run_name
from sentrep.cli.words import sort_words, split

CONFIGS = Path(__file__).resolve().parents[3] / "configs"


def test_every_file_of_configs_has_a_name() -> None:
    assert set(shipped().values()) == set(CONFIGS.rglob("*.yaml"))


@pytest.mark.parametrize("name", ["simcse/minilm", "simcse/minilm.yaml", "configs/simcse/minilm.yaml"])
def test_a_recipe_is_found_by_name(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    layers = sort_words(split(["-c", name]))[0]
    assert layers == [(str(CONFIGS / "simcse/minilm.yaml"), read(str(CONFIGS / "simcse/minilm.yaml")))]
    assert run_name([layers[0][0]]) == "simcse-minilm"


def test_a_file_comes_before_a_recipe_of_its_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    Path("quickstart").write_text("data: {batch_size: 3}\n")
    assert sort_words(split(["-c", "quickstart"]))[0] == [("quickstart", {"data": {"batch_size": 3}})]


def test_the_list_has_every_name_and_title(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name, path in shipped().items():
        assert lines[lines.index(name) + 1].strip() == read_about(path)["title"]


@pytest.mark.parametrize("name", ["simcse/minilm", "gs_infonce/tables/samples"])
def test_show_prints_the_file(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes", "show", name]) == 0
    assert capsys.readouterr().out == shipped()[name].read_text(encoding="utf-8")


def test_the_quick_start_is_its_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(run, "launch", lambda *arguments: seen.append(arguments) or 0)
    assert main(["quickstart", "--trainer.max_steps", "2"]) == 0
    command, ((file, _),), flags, own = seen[0]
    assert (command, file, flags, own) == ("fit", str(CONFIGS / "quickstart.yaml"), [("trainer.max_steps", "2")], {})
