"""Merging of files and flags, without building anything."""

from __future__ import annotations

import copy
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import yaml

from sentrep.cli import main
from sentrep.cli.config.building import build
from sentrep.cli.config.configuration import Request, merge, parse_request, read_config, with_flags
from sentrep.cli.config.sections import build_tree
from sentrep.objectives import Contrastive
from support import FAMILIES

PLUGIN = {"class_path": "Contrastive", "init_args": {"temperature": 0.05, "label_smoothing": 0.1}}


def test_dicts_merge_deeply_and_the_later_wins() -> None:
    base = {"model": {"objectives": {"a": PLUGIN}, "seed": 1}}
    new = {"model": {"objectives": {"a": {"init_args": {"temperature": 0.03}}, "b": "Denoising"}}}
    assert merge(base, new) == {
        "model": {
            "objectives": {
                "a": {"class_path": "Contrastive", "init_args": {"temperature": 0.03, "label_smoothing": 0.1}},
                "b": "Denoising",
            },
            "seed": 1,
        }
    }


def test_arguments_may_be_given_without_init_args() -> None:
    assert merge("a.Contrastive", {"temperature": 0.2}) == {
        "class_path": "a.Contrastive",
        "init_args": {"temperature": 0.2},
    }
    assert merge("Sentence: [X]", {"template": "[X]"}) == {"template": "[X]"}
    assert merge(PLUGIN, {"temperature": 0.2})["init_args"] == {"temperature": 0.2, "label_smoothing": 0.1}
    assert merge({"pooling": "cls"}, {"class_path": "Encoder", "init_args": {"prompt": "p"}}) == {
        "class_path": "Encoder",
        "init_args": {"pooling": "cls", "prompt": "p"},
    }


@pytest.mark.parametrize("other", ["Denoising", {"class_path": "my.Denoising", "init_args": {"ratio": 0.6}}])
def test_another_class_drops_the_arguments_of_the_old_one(other: object) -> None:
    assert merge(PLUGIN, other) == other


@pytest.mark.parametrize("same", ["Contrastive", "sentrep.objectives.Contrastive"])
def test_the_same_class_keeps_its_arguments(same: str) -> None:
    assert merge(PLUGIN, same) == PLUGIN
    assert merge(PLUGIN, {"class_path": same, "init_args": {"temperature": 1}})["init_args"]["label_smoothing"] == 0.1


def test_a_class_of_the_user_is_another_one_under_the_same_name(monkeypatch: pytest.MonkeyPatch) -> None:
    optimizer = {"class_path": "torch.optim.adamw.AdamW", "init_args": {"lr": 3e-5}}
    assert merge(PLUGIN, "mymod.Contrastive") == "mymod.Contrastive"
    assert merge({"class_path": "mymod.Contrastive"}, PLUGIN) == PLUGIN
    for own in ("mymod.AdamW", {"class_path": "mymod.AdamW", "init_args": {"lr": 0.1}}):
        assert merge(optimizer, own) == own
    assert merge(optimizer, "torch.optim.AdamW") == merge(optimizer, "AdamW") == optimizer
    mine = types.ModuleType("mymod")
    mine.Contrastive = Contrastive  # type: ignore[attr-defined]  # ours, by a longer way
    monkeypatch.setitem(sys.modules, "mymod", mine)
    assert merge(PLUGIN, "mymod.Contrastive") == PLUGIN


def test_one_class_by_two_paths_of_the_users_own_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "twoways").mkdir()
    (tmp_path / "twoways/__init__.py").write_text("from twoways.inner import Mine\n")
    (tmp_path / "twoways/inner.py").write_text("class Mine: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    base = {"class_path": "twoways.Mine", "init_args": {"strength": 2}}
    assert merge(base, "twoways.inner.Mine") == base
    assert merge(base, "twoways.broken.Mine") == "twoways.broken.Mine"


def test_flags_reach_a_plugin_inside_a_dict_inside_a_plugin_inside_a_dict() -> None:
    negatives = {"b": {"class_path": "GaussianNegatives", "init_args": {"ratio": 1}}, "c": "MemoryBank"}
    tree = {"model": {"objectives": {"a": {"class_path": "Contrastive", "init_args": {"negatives": negatives}}}}}
    flags = {
        "model.objectives.a.negatives.b.ratio": "2",
        "model.objectives.a.negatives.c.size": "64",
        "model.objectives.new": "Denoising",
        "model.objectives.new.ratio": ".3",
        "model.objectives.a.temperature": "1e-2",
        "model.encoder.pooling": "mean",
        "data.predict": "null",
    }
    tree = with_flags(tree, flags)
    objectives = tree["model"]["objectives"]
    assert objectives["a"]["init_args"] == {
        "negatives": {
            "b": {"class_path": "GaussianNegatives", "init_args": {"ratio": "2"}},
            "c": {"class_path": "MemoryBank", "init_args": {"size": "64"}},
        },
        "temperature": "1e-2",
    }
    assert objectives["new"] == {"class_path": "Denoising", "init_args": {"ratio": ".3"}}
    assert tree["model"]["encoder"] == {"pooling": "mean"}
    assert tree["data"] == {"predict": None}


def test_a_whole_plugin_can_be_given_inline() -> None:
    tree = with_flags(
        {"model": {"objectives": {}}},
        {"model.objectives.a": "{class_path: Contrastive, init_args: {temperature: 1e-2}}"},
    )
    assert tree["model"]["objectives"]["a"] == {"class_path": "Contrastive", "init_args": {"temperature": 0.01}}


@pytest.mark.parametrize("text", ["[MASK]", 'This: "[X]" means [MASK].', "{sentence} means [MASK].", "1", "yes"])
def test_text_stays_text(text: str) -> None:
    assert with_flags({}, {"model.encoder.prompt": text})["model"]["encoder"]["prompt"] == text


def test_words_are_sorted_into_files_flags_and_the_rest(tmp_path: Path) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text("model: {seed: 1, scheduler: linear}\n")
    second.write_text("model: {seed: 2}\n")
    words = [
        "-c",
        str(first),
        "--data.train=x=y",
        "--config",
        str(second),
        "--trainer.max_steps",
        "-1",
        "--print_config",
    ]
    request = parse_request([*words, "--config={data: {batch_size: 8}}"])
    assert request.tree == {"model": {"seed": 2, "scheduler": "linear"}, "data": {"batch_size": 8}}
    assert request.files == [str(first), str(second), "--config"]
    assert request.flags == {"data.train": "x=y", "trainer.max_steps": "-1"}
    assert request.rest == ["--print_config"]


def test_numbers_in_files_are_numbers(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("lr: 1e-4\n")  # YAML 1.1 takes this for text
    assert read_config(str(tmp_path / "run.yaml"))[1] == {"lr": 1e-4}


@pytest.mark.parametrize(
    "prompt",
    ['"[X]" means [MASK].', "Sentence: [X] is [MASK]", {"template": '"[X]" means [MASK].', "subtract": True}],
    ids=["quoted", "with a colon", "subtracted"],
)
def test_a_prompt_arrives_as_it_was_written(
    prompt: str | dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.yaml"
    encoder = {"backbone": FAMILIES["bert"], "tokenizer": "toy", "pooling": "mask", "prompt": prompt}
    file.write_text(yaml.safe_dump({"model": {"encoder": encoder, "objectives": {"simcse": "Contrastive"}}}))
    assert main(["fit", "-c", str(file), "--print_config"]) == 0
    found = yaml.safe_load(capsys.readouterr().out)["model"]["encoder"]
    assert found.get("init_args", found)["prompt"] == prompt


@pytest.mark.parametrize(
    ("file", "row", "name"),
    [
        ("configs/dclr/bert-base.yaml", None, "dclr-bert-base"),
        ("configs/dclr/tables/ablation.yaml", "bert-base", "dclr-ablation-bert-base"),
        ("configs/quickstart.yaml", None, "quickstart"),
        ("mine/run.yaml", None, "run"),
        ("mine/table.yaml", "noise", "noise"),
        ("--config", None, "default"),
    ],
)
def test_the_first_file_names_the_run(file: str, row: str | None, name: str) -> None:
    assert Request(files=[file, "configs/overrides/minilm.yaml"], row=row).name == name


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ([], "runs"),
        (["--trainer.default_root_dir=elsewhere"], "elsewhere"),
        (["--trainer.default_root_dir=elsewhere", "--trainer.logger.save_dir=logs"], "logs"),
        (["--trainer.default_root_dir=elsewhere", "--trainer.logger=false"], None),
    ],
)
def test_the_run_lies_in_the_root_that_was_asked_for(words: list[str], place: str | None) -> None:
    logger = build_tree("fit", parse_request(words), None)["trainer"]["logger"]
    assert (logger["init_args"]["save_dir"] if isinstance(logger, dict) else None) == place


@pytest.mark.parametrize(
    ("files", "words", "mode"),
    [
        ([], [], "max"),
        ([], ["--checkpoint.monitor=train/loss"], "min"),
        ([], ["--checkpoint.monitor=step"], "min"),
        ([], ["--checkpoint.monitor=val/dev"], "max"),
        ([], ["--checkpoint.monitor=val/dev/alignment"], "min"),
        ([], ["--checkpoint.mode=min"], "min"),
        ([], ["--checkpoint.monitor=train/loss", "--checkpoint.mode=max"], "max"),
        ([{"monitor": "val/dev/tau", "mode": "max"}], [], "max"),
        ([{"monitor": "val/sts", "mode": "max"}], ["--checkpoint.monitor=train/loss"], "min"),
        ([{"monitor": "val/sts", "mode": "max"}, {"init_args": {"monitor": "train/loss"}}], [], "min"),
        ([{"monitor": "train/loss"}, {"mode": "max"}], [], "max"),
        ([{"class_path": "ModelCheckpoint", "init_args": {"monitor": "val/sts"}}], [], "max"),
    ],
)
def test_a_monitor_has_its_own_direction(files: list[dict], words: list[str], mode: str, tmp_path: Path) -> None:
    for number, section in enumerate(files):
        (tmp_path / f"{number}.yaml").write_text(yaml.safe_dump({"checkpoint": section}))
        words = [*words, "-c", f"{tmp_path}/{number}.yaml"]
    assert build_tree("fit", parse_request(words), None)["checkpoint"]["init_args"]["mode"] == mode


def test_building_an_object_leaves_its_settings_as_they_are() -> None:
    settings = {
        "negatives": {"noise": {"class_path": "sentrep.negatives.GaussianNegatives", "init_args": {"ratio": 2.0}}}
    }
    before = copy.deepcopy(settings)
    assert build(Contrastive, "term", settings).init_args["negatives"]["noise"].ratio == 2.0
    assert settings == before
