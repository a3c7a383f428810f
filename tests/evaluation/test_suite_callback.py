"""Task suites in a run's validations and test: the numbers of `evaluate_suite`, on one process and on two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch.callbacks import EarlyStopping

from evaluation.mteb_tasks import local_task, split
from sentrep import InputError, SentRepDataModule, SentRepModule
from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.evaluation import SuiteEvaluation, SuiteSets, evaluate_suite, load_suite
from sentrep.evaluation.selection import Selection
from sentrep.objectives import Contrastive
from support import quiet_trainer, run_processes, tiny_encoder, toy_sentences

SENTENCES = toy_sentences(40)


mteb = pytest.importorskip("mteb", reason="needs mteb, the extra `mteb`")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def write_pairs(folder: Path) -> list[str]:
    """A similarity set."""
    pairs = [f'"{a}","{b}",{abs(len(a) - len(b))}' for a, b in zip(SENTENCES[:20], SENTENCES[20:], strict=True)]
    (folder / "pairs.csv").write_text("\n".join(["sentence1,sentence2,score", *pairs]))
    return [str(folder / "pairs.csv")]


def get_task(name: str, **choice: Any) -> Any:
    """A task of this kind over local sentences."""
    kinds = [len(text.split()) % 2 for text in SENTENCES]
    if name == "Clustering":
        data = {"test": split({"sentences": SENTENCES, "labels": kinds})}
        return local_task(name, "v_measure", data, max_fraction_of_documents_to_embed=None)
    parts = {"train": slice(0, 24), "test": slice(24, 40)}
    data = {part: split({"text": SENTENCES[rows], "label": kinds[rows]}) for part, rows in parts.items()}
    return local_task(name, "accuracy", data)


TASKS = ["Classification", "Clustering"]


def test_a_run_tests_what_evaluate_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mteb, "get_task", get_task)
    run = quiet_trainer(callbacks=[SuiteEvaluation("mteb", sets=TASKS)])
    module = SentRepModule(tiny_encoder(pooling="mean"), [Contrastive()])
    run.test(module, SentRepDataModule("toy", test=write_pairs(tmp_path)), verbose=False)
    found = evaluate_suite("mteb", module.encoder, load_suite("mteb", SuiteSets(TASKS)), show_progress_bar=False)
    expected = {"": sum(result.main_score for result in found) / len(found)}
    for result in found:
        expected[f"/{result.name}"] = result.main_score
        expected |= {f"/{result.name}/{metric}": score for metric, score in result.scores.items()}
    for name, score in expected.items():
        assert float(run.callback_metrics[f"test/mteb{name}"]) == pytest.approx(score, abs=1e-4)


def logged_scores() -> dict[str, float]:
    """What the callback logs, with this process's share of the encoding."""
    logged: dict[str, float] = {}
    mteb.get_task = get_task
    module = SentRepModule(tiny_encoder(pooling="mean"), [Contrastive()])
    module.log = lambda name, value, **_: logged.update({name: float(value)})  # type: ignore[method-assign,assignment]
    callback = SuiteEvaluation("mteb", sets=TASKS, batch_size=4)
    callback.setup(None, module, "test")  # type: ignore[arg-type]
    callback.on_test_epoch_end(None, module)  # type: ignore[arg-type]
    return logged


@pytest.mark.slow
def test_two_processes_give_the_scores_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mteb, "get_task", mteb.get_task)  # restored after the test
    torch.set_num_threads(1)
    expected = logged_scores()
    assert len(expected) > 4
    assert run_processes(logged_scores, 2) == [expected, expected]


def test_validations_score_it_and_a_test_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mteb, "get_task", get_task)
    pairs = write_pairs(tmp_path)
    (tmp_path / "corpus.txt").write_text("\n".join(SENTENCES))
    module = SentRepModule(tiny_encoder(), [Contrastive()])
    data = SentRepDataModule(str(tmp_path / "corpus.txt"), val=pairs, test=pairs, batch_size=8)
    run = quiet_trainer(callbacks=[SuiteEvaluation("mteb", "val", TASKS[:1])], max_epochs=1)
    run.fit(module, data)
    assert 0 <= float(run.callback_metrics["val/mteb/Classification/accuracy"]) <= 100
    run.test(module, data, verbose=False)
    assert not any(name.startswith("test/mteb") for name in run.callback_metrics)


def test_a_missing_set_is_told_before_training(tmp_path: Path) -> None:
    data = SentRepDataModule("toy", val=write_pairs(tmp_path))
    suite = SuiteEvaluation("transfer", "val", ["mr"], sts_folder=str(tmp_path / "nowhere"))
    run = quiet_trainer(callbacks=[suite], max_steps=1)
    with pytest.raises(InputError, match="nowhere"):
        run.fit(SentRepModule(tiny_encoder(), [Contrastive()]), data)
    assert run.global_step == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"suite": "transfer", "stage": "train"}, "stage"),
        ({"suite": "sts"}, "data.val"),
        ({"suite": "x"}, "suite must be 'sts' or 'transfer' or 'mteb'"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SuiteEvaluation(**arguments).setup(None, None, "test")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("criterion", "labels"),
    [
        ("val/transfer/trec", ("transfer/trec",)),
        ("val/dev/alignment", ("dev",)),  # of the pairs with a high gold score
        ("val/dev/alignment_all", ()),  # of all pairs, whatever their gold scores
        ("val/dev/uniformity", ()),
        ("val/dev/uniformity_first", ()),
    ],
)
def test_a_choice_by_a_suite_is_a_choice_by_labels(criterion: str, labels: tuple[str, ...]) -> None:
    run = quiet_trainer(callbacks=[EarlyStopping(criterion)], max_steps=1)
    assert Selection.of(run, [ScoredPairs("dev", ["a"], ["b"], [1.0])]).labels == labels
