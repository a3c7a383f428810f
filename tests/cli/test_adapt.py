"""``sentrep adapt``: from a text to a verdict, an export where it is deserved, and a run that goes on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from adaptation.texts import documents, write_corpus

from sentrep import SentenceEncoder
from sentrep.cli import main
from sentrep.cli.commands.adapt_folder import AdaptationFolder
from sentrep.encoder import LexicalFeatures, Normalize
from support import tiny_encoder

STEPS = {
    "model": {"encoder": {"max_length": 32}, "optimizer": {"init_args": {"lr": 0.003}}},
    "data": {"batch_size": 16},
    "trainer": {
        "max_steps": 60, "val_check_interval": 30, "accelerator": "cpu", "enable_progress_bar": False,
        "enable_model_summary": False,
    },
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a text, a model and a recipe that takes seconds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PL_GLOBAL_SEED", raising=False)
    write_corpus(tmp_path / "docs.jsonl", documents(260))
    model = tiny_encoder(seed=9, pooling="mean", max_seq_length=48, modules=[Normalize()])
    model.prompts = {"query": "ask: "}
    model.save_pretrained(tmp_path / "model")
    (tmp_path / "few.yaml").write_text(json.dumps(STEPS))
    return tmp_path


def recipe(name: str) -> list[str]:
    configs = Path(__file__).resolve().parents[2] / "configs" / "adapt"
    return ["--recipe", f"[{configs / name}.yaml,few.yaml]"]


def outcome(folder: Path) -> dict[str, object]:
    return json.loads((folder / "outcome.json").read_text())


@pytest.mark.slow
def test_a_model_that_gets_better_is_exported_and_the_same_command_goes_on(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["adapt", "docs.jsonl", "--backbone", "model", *recipe("pairs")]
    assert main(command) == 0
    told, numbers = capsys.readouterr().out, outcome(folder / "adapted")
    assert numbers["verdict"] == "better", told
    assert "is better at questions made from this text: nDCG@10 +" in told.replace("\n", " ")
    assert {task["task"] for task in numbers["tasks"]} >= {"title to text", "sentence to rest"}  # type: ignore[attr-defined]
    assert [row["step"] for row in numbers["curve"]] == [0, 30, 60]  # type: ignore[attr-defined]
    assert [share for share, _ in numbers["interpolation"]] == [0, 0.25, 0.5, 0.75, 1]  # type: ignore[attr-defined]
    chosen, untouched = dict(numbers["lexical"])[0], numbers["curve"][0]["proxy"]  # type: ignore[call-overload, index]
    assert chosen > untouched - 1e-4  # on all questions that choose
    model = SentenceEncoder.from_pretrained(folder / "adapted" / "model")
    assert (model.pooling, model.max_seq_length, model.normalizes) == ("mean", 48, True)
    assert model.prompts == {"query": "ask: "}
    assert model.embedding_dim == SentenceEncoder.from_pretrained("model").embedding_dim
    assert numbers["curve"][-1]["minutes"] > 0  # type: ignore[index]
    assert numbers["seen"] == 60 * 16
    card = (folder / "adapted" / "model" / "README.md").read_text()
    assert "Objectives: pairs (Contrastive), remember (Distillation)" in card
    assert "Fingerprint of the training text" in card
    assert "better at questions made from this text: nDCG@10 +" in card
    vectors = model.encode(["the old house"])
    assert main(command) == 0  # nothing is trained again
    assert "it is trained already" in capsys.readouterr().err
    again = outcome(folder / "adapted")
    assert {**again, "seconds": 0} == {**numbers, "seconds": 0}
    np.testing.assert_array_equal(
        SentenceEncoder.from_pretrained(folder / "adapted" / "model").encode(["the old house"]), vectors
    )
    weights = dict(numbers["lexical"])  # type: ignore[call-overload]
    assert weights.keys() == {0, 0.1, 0.2}
    best = max(weights, key=lambda weight: weights[weight])
    assert best > 0
    assert "--lexical true" in told
    monkeypatch.setattr("sentrep.cli.commands.adapt_steps.TRUSTED", 99.0)
    assert main(command) == 0
    told, numbers = capsys.readouterr().out, outcome(folder / "adapted")
    assert (numbers["verdict"], numbers["folder"]) == ("cannot be told", None)
    assert "A gain below 99 may only show that the questions resemble the training pairs." in told
    assert "model     none was exported" in told
    assert main([*command, "--lexical", "true"]) == 0  # of the same training
    numbers = outcome(folder / "adapted")
    assert (numbers["verdict"], numbers["advice"]) == ("better", [])  # matching words are no training
    model = SentenceEncoder.from_pretrained(folder / "adapted" / "model")
    words = [module.weight for module in model.sentence_modules if isinstance(module, LexicalFeatures)]
    assert words == [best]
    assert main([*command, "--seed", "1"]) == 2
    assert "holds an adaptation with other settings" in capsys.readouterr().err


@pytest.mark.slow
def test_an_adaptation_goes_with_lora_bf16_and_accumulation(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("peft")
    more = {
        "model": {"encoder": {"trainable": {"rank": 4, "targets": ["query", "value"]}}},
        "trainer": {"precision": "bf16-mixed", "accumulate_grad_batches": 2},
    }
    (folder / "more.yaml").write_text(json.dumps(more))
    command = ["adapt", "docs.jsonl", "--backbone", "model", *recipe("pairs"), "--force", "true"]
    command[-3] = command[-3].replace("]", ",more.yaml]")
    assert main(command) == 0
    assert "held-out documents" in capsys.readouterr().out.replace("\n", " ")
    adapted = SentenceEncoder.from_pretrained(folder / "adapted" / "model")
    assert [share for share, _ in outcome(folder / "adapted")["interpolation"]] == [0, 0.25, 0.5, 0.75, 1]  # type: ignore[attr-defined]
    assert adapted.backbone.state_dict().keys() == SentenceEncoder.from_pretrained("model").backbone.state_dict().keys()


@pytest.mark.parametrize("able", [True, False])
def test_training_is_in_bf16_where_the_cpu_multiplies_it(
    able: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: {"avx512_bf16": able}, raising=False)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    work = AdaptationFolder(tmp_path, 1.0, 0)
    start = tiny_encoder(pooling="mean")
    assert work._overlay({}, start, "model")["trainer"].get("precision") == ("bf16-mixed" if able else None)
    assert "precision" not in work._overlay({"trainer": {"precision": "32-true"}}, start, "model")["trainer"]


@pytest.mark.parametrize("record", ['{"step": 3', "", "[]", "\udcff"])
def test_a_run_whose_record_was_cut_by_a_crash_has_not_come_to_its_end(record: str, tmp_path: Path) -> None:
    run = tmp_path / "work" / "run" / "version_0"
    run.mkdir(parents=True)
    (run / "selection.json").write_bytes(record.encode("utf-8", "surrogateescape"))
    assert AdaptationFolder(tmp_path, 1.0, 0).trained is None
    (run / "selection.json").write_text('{"step": 3}')
    assert AdaptationFolder(tmp_path, 1.0, 0).trained == run


@pytest.mark.parametrize(("minutes", "between"), [(2.0, 180), (15.0, 180), (60.0, 720)])
def test_validations_leave_most_of_the_minutes_to_training(minutes: float, between: int, tmp_path: Path) -> None:
    by_clock = {"trainer": {"val_check_interval": "00:00:01:00"}}
    overlay = AdaptationFolder(tmp_path, minutes, 0)._overlay(by_clock, tiny_encoder(pooling="mean"), "model")
    assert overlay["trainer"]["val_check_interval"] == {"seconds": between}


@pytest.mark.slow
def test_a_model_that_gets_worse_is_not_exported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["adapt", "docs.jsonl", "--backbone", "model", *recipe("pairs"), "--output", "good"]) == 0
    trainer = {key: value for key, value in STEPS["trainer"].items() if key != "val_check_interval"}  # by the clock
    bad = {**STEPS, "trainer": trainer, "model": {"optimizer": {"init_args": {"lr": 0.1}}}}
    (folder / "few.yaml").write_text(json.dumps(bad))
    few = ["--minutes", "0.2"]
    command = ["adapt", "docs.jsonl", "--backbone", "good/model", *recipe("tsdae"), "--output", "bad", *few]
    assert main(command) == 0
    told = capsys.readouterr().out
    assert "Your model was already better at this" in told
    assert "model     none was exported" in told
    assert not (folder / "bad" / "model").exists()
    assert outcome(folder / "bad")["verdict"] == "not better"


def test_a_text_without_structure_is_not_judged(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "lines.txt").write_text("".join(f"{d.title}\n" for d in documents(260)))
    assert main(["adapt", "lines.txt", "--backbone", "model"]) == 0
    told = capsys.readouterr().out
    assert "Nothing can be judged" in told
    assert "model     none was exported" in told
    assert not (folder / "adapted" / "model").exists()
    assert outcome(folder / "adapted")["verdict"] == "cannot be told"


@pytest.mark.slow
def test_a_text_without_structure_is_trained_on_by_force(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "lines.txt").write_text("".join(f"{d.title}\n" for d in documents(260)))
    assert main(["adapt", "lines.txt", "--backbone", "model", "--force", "true", *recipe("simcse")]) == 0
    assert SentenceEncoder.from_pretrained(folder / "adapted" / "model").pooling == "mean"
    assert outcome(folder / "adapted")["verdict"] == "cannot be told"
    assert (
        main(
            ["adapt", "lines.txt", "--backbone", "model", "--force", "true", "--recipe", "adapt/pairs", "--output", "b"]
        )
        == 1
    )
    assert "no such file" in capsys.readouterr().err
