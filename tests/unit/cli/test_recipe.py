"""From files and flags to one tree, without building anything."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest
import yaml

from sentrep.cli import main
from sentrep.cli.errors import UsageError
from sentrep.cli.recipe import merged, read, value_of, with_flags
from sentrep.cli.run_folder import run_name
from sentrep.cli.words import sort_words, split
from sentrep.errors import InputError
from sentrep.objectives import Contrastive
from sentrep.training import BestCheckpoint
from support import FAMILIES


def plugin(path: str, **arguments: Any) -> dict[str, Any]:
    """A plug-in as jsonargparse has it."""
    return {"class_path": path, "init_args": arguments}


LONG, ADAMW = "sentrep.objectives.Contrastive", plugin("torch.optim.adamw.AdamW", lr=3e-5)
MERGED: dict[str, tuple[Any, Any, Any]] = {
    "an argument over a name": ("a.B", {"c": 2}, plugin("a.B", c=2)),
    "an argument over a text": ("Sentence: [X]", {"template": "[X]"}, {"template": "[X]"}),
    "an argument over others": (plugin("B", c=1, d=1), {"c": 2}, plugin("B", c=2, d=1)),
    "a class over settings": ({"c": 1}, plugin("B", d=2), plugin("B", c=1, d=2)),
    "another class": (plugin("B", c=1), "D", {"class_path": "D"}),
    "another class with an argument": (plugin("B", c=1), plugin("my.D", e=2), plugin("my.D", e=2)),
    "the same class": (plugin("Contrastive", c=1), LONG, plugin(LONG, c=1)),
    "the same class with an argument": (plugin("Contrastive", c=1), plugin(LONG, d=2), plugin(LONG, c=1, d=2)),
    "the same class of torch": (ADAMW, "torch.optim.AdamW", plugin("torch.optim.AdamW", lr=3e-5)),
    "the same class of torch by its last name": (ADAMW, "AdamW", plugin("AdamW", lr=3e-5)),
    "the user's class of this name": (plugin("Contrastive", c=1), "my.Contrastive", {"class_path": "my.Contrastive"}),
    "ours over the user's": ({"class_path": "my.Contrastive"}, plugin("Contrastive", c=1), plugin("Contrastive", c=1)),
    "the user's class over torch's": (ADAMW, "my.AdamW", {"class_path": "my.AdamW"}),
    "the user's class with an argument": (ADAMW, plugin("my.AdamW", c=1), plugin("my.AdamW", c=1)),
}
"""A value, a second value that overrides it, and the merged value."""


@pytest.mark.parametrize("case", MERGED)
def test_a_value_is_laid_over_another(case: str) -> None:
    base, new, expected = MERGED[case]
    assert merged([{"here": base}, {"here": new}]) == {"here": expected}


def test_a_class_is_the_same_by_a_module_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = types.ModuleType("mymod")
    mine.Contrastive = Contrastive  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mymod", mine)
    found = merged([{"here": plugin("Contrastive", c=1)}, {"here": "mymod.Contrastive"}])
    assert found == {"here": plugin("mymod.Contrastive", c=1)}


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
    tree = with_flags(tree, [*flags.items()])
    objectives = tree["model"]["objectives"]
    assert objectives["a"]["init_args"] == {
        "negatives": {
            "b": {"class_path": "GaussianNegatives", "init_args": {"ratio": 2}},
            "c": {"class_path": "MemoryBank", "init_args": {"size": 64}},
        },
        "temperature": 1e-2,
    }
    assert objectives["new"] == {"class_path": "Denoising", "init_args": {"ratio": 0.3}}
    assert tree["model"]["encoder"] == {"pooling": "mean"}
    assert tree["data"] == {"predict": None}


YAML = {
    "1e-4": 1e-4, ".5": 0.5, "010": 10, "1:30": "1:30", "no": "no", "on": "on", "true": True,
    "2020-01-01": "2020-01-01", "null": None, "~": None, "[a, 2]": ["a", 2], "'2'": "2", "{a: 1}": {"a": 1},
}  # fmt: skip
"""Texts and their values in YAML 1.2."""


@pytest.mark.parametrize("text", YAML)
def test_files_and_flags_are_read_as_yaml_1_2(text: str, tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(f"key: {text}\nlist: [{text}]\n")
    assert read(str(file)) == {"key": YAML[text], "list": [YAML[text]]}
    assert value_of(text) == YAML[text]
    assert type(value_of(text)) is type(YAML[text])


@pytest.mark.parametrize("text", ['This: "[X]" means [MASK].', "{sentence} means [MASK].", "a: b", "- a", "#", "x #y"])
def test_a_flag_that_is_no_value_of_yaml_is_text(text: str) -> None:
    assert with_flags({}, [("model.encoder.prompt", text)])["model"]["encoder"]["prompt"] == text


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("a: 1\na: 2\n", "line 2"),
        ("a: [1", "no valid YAML"),
        ("- a\n", "found list"),
        ("", "found NoneType"),
    ],
)
def test_what_is_no_recipe_is_refused(content: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(content)
    with pytest.raises(UsageError, match=says) as refusal:
        read(str(tmp_path / "run.yaml"))
    assert str(refusal.value).startswith(str(tmp_path / "run.yaml"))


def test_words_are_sorted_into_files_flags_and_the_commands_own(tmp_path: Path) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text("model: {seed: 1, scheduler: linear}\n")
    second.write_text("model: {seed: 2}\n")
    words = f"-c {first} --data.train=x=y --config {second} --trainer.max_steps -1 --print_config --allow-changes"
    layers, flags, own = sort_words(split([*words.split(), "--sts_folder", "data"]))
    assert [name for name, _ in layers] == [str(first), str(second)]
    assert merged(tree for _, tree in layers) == {"model": {"seed": 2, "scheduler": "linear"}}
    assert flags == [("data.train", "x=y"), ("trainer.max_steps", "-1"), ("data.sts_folder", "data")]
    assert own == {"print_config": True, "allow_changes": True}


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
    ("files", "name"),
    [
        (["configs/dclr/bert-base.yaml"], "dclr-bert-base"),
        (["configs/dclr/tables/ablation.yaml, row bert-base"], "dclr-ablation-bert-base"),
        (["configs/quickstart.yaml"], "quickstart"),
        (["mine/run.yaml"], "mine-run"),
        (["run.yaml"], "run"),
        (["mine/table.yaml, row noise"], "noise"),
        ([], "default"),
        (["configs/simcse/minilm.yaml", "configs/overrides/lora.yaml"], "simcse-minilm-lora"),
        (["configs/simcse/minilm.yaml", "mine/a.yaml", "b.yaml"], "simcse-minilm-a-b"),
        (["configs/dclr/tables/ablation.yaml, row plain", "a.yaml"], "dclr-ablation-plain-a"),
    ],
)
def test_the_files_name_the_run(files: list[str], name: str) -> None:
    assert run_name(files) == name


@pytest.mark.parametrize(
    ("monitor", "mode", "found"),
    [("val/sts", None, "max"), ("val/sts", "min", "min"), (None, None, "min"), ("step", None, "max"),
     ("train/loss", "min", "min"), ("train/loss", None, None), ("val/dev", None, None)],
)  # fmt: skip
def test_a_monitor_needs_a_direction_but_for_the_mean_of_the_sets(
    monitor: str | None, mode: Any, found: str | None
) -> None:
    if found is None:
        with pytest.raises(InputError, match=r"checkpoint\.mode max or min"):
            BestCheckpoint(monitor, mode)
    else:
        assert BestCheckpoint(monitor, mode).mode == found
