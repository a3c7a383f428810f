"""Attacks of a stranger by a checkpoint, weights, paths or texts: nothing of theirs runs or gets out of its place."""

from __future__ import annotations

import contextlib
import copy
import html
import io
import json
import pickle
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from markdown_it import MarkdownIt
from rich.console import Console
from safetensors import safe_open

from sentrep import InputError, SentenceEncoder, SentRepModule
from sentrep.checkpoint.rebuild import recorded_arguments
from sentrep.checkpoint.trust import refuse_foreign_classes
from sentrep.cli import main, recipe
from sentrep.cli.layers import whole_tree
from sentrep.cli.words import sort_words, split
from sentrep.encoder import Dense
from sentrep.evaluation import Evaluation
from sentrep.evaluation.comparison import Comparison
from sentrep.evaluation.published import Published
from sentrep.evaluation.report import suite_table
from sentrep.evaluation.results import TaskResult
from sentrep.evaluation.significance import RecipeScores
from sentrep.evaluation.table import write_report
from sentrep.io.text import printable
from sentrep.negatives import GaussianNegatives
from sentrep.objectives import Contrastive, Objective
from support import checkpoint_of, tiny_encoder

ROOT = Path(__file__).resolve().parents[2]
OURS = {"class_path": "sentrep.objectives.Contrastive", "init_args": {}}


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A checkpoint of one step."""
    module = SentRepModule(tiny_encoder(), {"simcse": Contrastive(negatives={"noise": GaussianNegatives()})})
    return torch.load(checkpoint_of(module, tmp_path_factory.mktemp("honest")), weights_only=True)


@pytest.fixture
def checkpoint(honest: dict[str, Any]) -> dict[str, Any]:
    return copy.deepcopy(honest)


def written(checkpoint: dict[str, Any], folder: Path) -> Path:
    torch.save(checkpoint, folder / "stranger.ckpt")
    return folder / "stranger.ckpt"


class Spy(Objective):
    """Stands for foreign code: tells when it is built."""

    built = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).built += 1

    def forward(self, views: Any, batch: Any) -> torch.Tensor:
        return views.anchor.square().mean()


SPY = f"{__name__}.Spy"


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.update(objectives={"x": {"class_path": SPY}}),
        lambda model: model.update(objectives=[SPY]),
        lambda model: model.update(objectives={"x": {"class_path": "sentrep.module.os.system"}}),
        lambda model: model.update(objectives={"x": {"class_path": "sentrep.cli.main"}}),
        lambda model: model.update(objectives={"x": {"class_path": ["sentrep.objectives.Contrastive"]}}),
        lambda model: model.update(objectives={"x": {"class_path": "sentrepx.Contrastive"}}),
        lambda model: model.update(objectives={"x": {**OURS, "init_args": {"negatives": {"n": SPY}}}}),
        lambda model: model.update(objectives={"x": {**OURS, "dict_kwargs": {"y": [{"z": {"class_path": SPY}}]}}}),
        lambda model: model.update(views={"class_path": "subprocess.Popen", "init_args": {"args": "x"}}),
        lambda model: model.update(optimizer={"class_path": "torch.optim.sgd.cast"}),
        lambda model: model["encoder"].update(class_path=SPY),
    ],
)
def test_foreign_classes_are_refused(
    change: Callable[[dict[str, Any]], Any], checkpoint: dict[str, Any], tmp_path: Path
) -> None:
    change(checkpoint["hyper_parameters"])
    path = written(checkpoint, tmp_path)
    Spy.built = 0
    with pytest.raises(InputError, match=r"stranger\.ckpt: it asks for .*trust_plugins"):
        SentRepModule.load_from_checkpoint(path)
    with pytest.raises(InputError, match="trust_plugins"):
        refuse_foreign_classes(SentRepModule, recorded_arguments(checkpoint, path), str(path))
    assert Spy.built == 0


@pytest.fixture
def stranger(checkpoint: dict[str, Any], tmp_path: Path) -> Path:
    """A checkpoint that asks for a foreign class."""
    checkpoint["hyper_parameters"]["objectives"] = {"x": {"class_path": SPY}}
    return written(checkpoint, tmp_path)


def test_a_foreign_class_is_built_for_those_who_trust_the_file(stranger: Path) -> None:
    module = SentRepModule.load_from_checkpoint(stranger, strict=False, trust_plugins=True)
    assert type(module.objectives.terms["x"]).__name__ == "Spy"
    again = SentRepModule.load_from_checkpoint(stranger, strict=False, objectives={"mine": Contrastive()})
    assert list(again.objectives.terms) == ["mine"]


def test_the_command_line_asks_for_trust(stranger: Path) -> None:
    """But for a class that the user names himself."""
    (stranger.parent / "mine.yaml").write_text(json.dumps({"model": {"objectives": {"x": {"class_path": SPY}}}}))
    command = ["--ckpt_path", str(stranger)]
    saved = recorded_arguments(torch.load(stranger, weights_only=True), stranger)
    trusted = [["--trust-plugins"], ["--trust_plugins=true"], ["--model.objectives.x", SPY]]
    for words in (*trusted, ["-c", str(stranger.parent / "mine.yaml")]):
        assert whole_tree("test", *sort_words(split([*command, *words])))["model"] == saved
    with pytest.raises(InputError, match="--trust_plugins"):
        whole_tree("test", *sort_words(split(command)))


def test_the_encoder_alone_builds_no_objective(stranger: Path, tmp_path: Path) -> None:
    Spy.built = 0
    SentenceEncoder.from_pretrained(stranger)
    (tmp_path / "lines.txt").write_text("a dog\n")
    model, output = str(stranger), str(tmp_path / "v.npy")
    assert main(["encode", model, "--input", str(tmp_path / "lines.txt"), "--output", output]) == 0
    assert main(["export", model, "--output", str(tmp_path / "model")]) == 0
    (tmp_path / "pairs.csv").write_text("sentence1,sentence2,score\na dog,a cat,1\na dog,the hound,4\n")
    assert main(["evaluate", model, "--sets", str(tmp_path / "pairs.csv")]) == 0
    assert Spy.built == 0


class Bomb:
    """Pickled code."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return (Path.touch, (self.target,))


@pytest.mark.parametrize("form", ["torch", "pickle"])
def test_pickled_code_does_not_run(form: str, checkpoint: dict[str, Any], tmp_path: Path) -> None:
    path, target = tmp_path / "x.ckpt", tmp_path / "ran"
    checkpoint["callbacks"] = Bomb(target)
    if form == "torch":
        torch.save(checkpoint, path)
    else:
        path.write_bytes(pickle.dumps(Bomb(target)))
    for load in (SentRepModule.load_from_checkpoint, SentenceEncoder.from_pretrained):
        with pytest.raises(InputError, match=r"x\.ckpt"):
            load(path)
    assert not target.exists()


def test_pickled_code_in_a_dense_layer_does_not_run(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    tiny_encoder(pooling="mean", modules=[Dense("tanh")]).save_pretrained(folder)
    (folder / "2_Dense/model.safetensors").unlink()
    torch.save({"linear.weight": Bomb(tmp_path / "ran")}, folder / "2_Dense" / "pytorch_model.bin")
    with pytest.raises(InputError, match="this folder holds no model"):
        SentenceEncoder.from_pretrained(folder)
    assert not (tmp_path / "ran").exists()


UNSAFE = r"torch\.load\(|pickle\.load|allow_pickle=(?!False)|yaml\.(unsafe_|full_)?load\(|\beval\(['\"]|\bexec\("


def test_every_load_of_torch_runs_no_code(tmp_path: Path) -> None:
    loads = [
        line
        for path in (ROOT / "sentrep").rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(UNSAFE, line)
    ]
    assert len(loads) >= 2
    ours = r"weights_only=True|yaml\.BaseLoader"  # which makes texts of everything
    assert all(re.search(ours, line) for line in loads), loads
    (tmp_path / "x.yaml").write_text("a: !!python/object/apply:os.getcwd []")
    with pytest.raises(InputError, match="no valid YAML"):
        recipe.read(str(tmp_path / "x.yaml"))


EVIL = """
from pathlib import Path
Path(__file__).with_name("ran").touch()
from transformers import BertConfig as Config, BertModel as Model, BertTokenizerFast as Tokenizer
class Module: pass
"""
AUTO = {"AutoConfig": "evil.Config", "AutoModel": "evil.Model", "AutoTokenizer": ["evil.Tokenizer", "evil.Tokenizer"]}


@pytest.mark.parametrize(
    ("file", "keys"),
    [
        ("config.json", {"auto_map": AUTO}),
        ("config.json", {"auto_map": AUTO, "trust_remote_code": True}),
        ("config.json", {"auto_map": AUTO, "model_type": "evil"}),
        ("config.json", {"_attn_implementation": "evil/kernel"}),
        ("config.json", {"quantization_config": {"quant_method": "evil"}}),
        ("tokenizer_config.json", {"auto_map": AUTO, "tokenizer_class": "EvilTokenizer"}),
        ("sentence_bert_config.json", {"model_args": {"trust_remote_code": True}, "auto_map": AUTO}),
        ("modules.json", "evil.Module"),
        ("modules.json", "sentrep.evil.Module"),
        ("modules.json", "os.system"),
    ],
)
def test_a_strangers_folder_runs_no_code(file: str, keys: Any, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    tiny_encoder(pooling="mean").save_pretrained(folder)
    (folder / "evil.py").write_text(EVIL)
    content = json.loads((folder / file).read_text())
    if file == "modules.json":
        content[1]["type"] = keys
    else:
        content |= keys
        if "model_args" in keys:
            config = json.loads((folder / "config.json").read_text())
            (folder / "config.json").write_text(json.dumps({**config, "auto_map": AUTO}))
    (folder / file).write_text(json.dumps(content))
    with contextlib.suppress(InputError):
        SentenceEncoder.from_pretrained(folder)
    assert not list(tmp_path.rglob("ran"))
    assert not any("evil" in name for name in sys.modules)


def test_a_checkpoint_cannot_give_itself_permission(checkpoint: dict[str, Any], tmp_path: Path) -> None:
    settings = checkpoint["hyper_parameters"]["encoder"].setdefault("init_args", {})
    settings["backbone"] = {"name": "evil/model", "trust_remote_code": True}
    assert recorded_arguments(checkpoint, "x.ckpt")["encoder"]["init_args"]["backbone"] == "x.ckpt"


@pytest.mark.parametrize("name", ["../outside.txt", "/outside.txt", "..", "a\0b"])
def test_the_files_of_a_checkpoint_stay_in_its_folder(name: str, checkpoint: dict[str, Any], tmp_path: Path) -> None:
    checkpoint["sentrep"]["files"][name] = "x"
    with pytest.raises(InputError, match=r"stranger\.ckpt: "):
        SentenceEncoder.from_pretrained(written(checkpoint, tmp_path))


@pytest.mark.parametrize(("place", "inner"), [(0, "../other"), (1, "/etc"), (1, "1_Pooling/../..")])
def test_the_modules_of_a_folder_stay_in_it(place: int, inner: str, tmp_path: Path) -> None:
    tiny_encoder(pooling="mean").save_pretrained(tmp_path / "model")
    file = tmp_path / "model" / "modules.json"
    modules = json.loads(file.read_text())
    modules[place]["path"] = inner
    file.write_text(json.dumps(modules))
    with pytest.raises(InputError, match="leads out of the model folder"):
        SentenceEncoder.from_pretrained(tmp_path / "model")


@pytest.mark.parametrize("inner", ["../secret.safetensors", "/etc/secret.safetensors"])
@pytest.mark.parametrize("index", ["model.safetensors.index.json", "pytorch_model.bin.index.json"])
def test_the_weights_of_a_folder_stay_in_it(index: str, inner: str, tmp_path: Path) -> None:
    tiny_encoder(pooling="mean").save_pretrained(tmp_path / "model")
    weights = tmp_path / "model" / "model.safetensors"
    with safe_open(weights, "pt") as file:
        places = dict.fromkeys(file.keys(), inner.replace("/etc", str(tmp_path)))
    (tmp_path / "model" / index).write_text(json.dumps({"metadata": {}, "weight_map": places}))
    weights.rename(tmp_path / "secret.safetensors")
    with pytest.raises(InputError, match=rf"{index}: the path .* leads out of the model folder"):
        SentenceEncoder.from_pretrained(tmp_path / "model")


HOSTILE = {
    "html": "<script>alert(1)</script>",
    "row": "a | b\n| c \\| d |",
    "colour": "[red]a[/red] [link=http://x]b[/link]",
    "escape": "\x1b[2J\x1b]0;title\x07\x9b31m",
    "turn": "\u202edcba\u2066",
    "surrogate": "a\ud800b",
}
"""Texts that are shown as they are, in files and on a terminal."""


@pytest.mark.parametrize("name", HOSTILE)
def test_a_report_shows_hostile_texts_as_they_are(name: str, tmp_path: Path) -> None:
    text = HOSTILE[name]
    task = TaskResult(text, text, {"pairs": 3}, {"spearman": 1.0}, text)
    report = Evaluation(text, "f", "cls", text, None, {}, 1.0, [task])
    report.write(tmp_path / "r.json")
    assert json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["prompt"] == text
    table = suite_table([task])
    write_report(tmp_path / "r.md", table, table, {}, [text])
    page = MarkdownIt("gfm-like", {"linkify": False}).render((tmp_path / "r.md").read_text(encoding="utf-8"))
    assert {*re.findall(r"<(\w+)", page)} == {"table", "thead", "tbody", "tr", "th", "td", "p"}
    assert html.unescape(re.sub(r"<[^>]*>", "", page)).count(printable(text)) >= 3  # set, protocol, note
    report.print(Console(width=400, file=(screen := io.StringIO())))
    assert screen.getvalue().count(printable(text)) >= 2  # set and protocol
    assert "\x1b" not in "".join([screen.getvalue(), *(path.read_text("utf-8") for path in tmp_path.iterdir())])


def test_texts_are_harmless_in_a_comparisons_report_and_picture(tmp_path: Path) -> None:
    names = [*HOSTILE.values(), "$\\frac{x$", "$\\undefined$"]
    gold = {"a": np.arange(5.0)}
    recipes = {name: RecipeScores((0,), {"a": np.arange(5.0)[None] + row}, gold) for row, name in enumerate(names)}
    published = Published(HOSTILE["html"], HOSTILE["escape"], {names[1]: (70.1, None)})
    comparison = Comparison(recipes, names[0], published)
    comparison.print(Console(width=400, file=(screen := io.StringIO())))
    assert HOSTILE["colour"] in screen.getvalue()
    comparison.write(tmp_path)
    reports = [(tmp_path / f"report.{kind}").read_text(encoding="utf-8") for kind in ("csv", "md", "tex", "svg")]
    assert not re.search("[\x1b\u202e]", "".join([screen.getvalue(), *reports]))
    assert "\\<script>" in reports[1]
    assert "<script>" not in reports[3]


def test_messages_do_not_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "no\x1b[2Jmodel", "--sets", "x\x07y.csv"]) == 1
    assert not re.search("[\x07\x1b]", capsys.readouterr().err)
