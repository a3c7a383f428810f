"""Task suites in a run's validations and test: the numbers of `evaluate_suite`, on one process and on two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch.callbacks import EarlyStopping

from evaluation.sets import write_beir
from sentrep import InputError, SentRepDataModule, SentRepModule, distributed
from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.evaluation import SuiteEvaluation, SuiteSets, evaluate_suite, load_suite
from sentrep.evaluation.selection import Selection
from sentrep.objectives import Contrastive
from support import quiet_trainer, run_processes, tiny_encoder, toy_sentences

SENTENCES = toy_sentences(40)


pytest.importorskip("mteb", reason="needs mteb, the extra `mteb`")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def write_sets(folder: Path) -> dict[str, list[str]]:
    """A set for every suite that reads local files, and similarity pairs."""
    documents = {f"d{row}": text for row, text in enumerate(SENTENCES[:30])}
    queries = {f"q{row}": text for row, text in enumerate(SENTENCES[30:])}
    judgements = {f"q{row}": {f"d{3 * row}": 1} for row in range(10)}
    write_beir(folder / "beir", documents, queries, judgements)
    rows = [f'"{text}",{len(text.split()) % 2}' for text in SENTENCES]
    (folder / "topics").mkdir()
    for part, lines in (("train", rows[:24]), ("test", rows[24:])):
        (folder / "topics" / f"{part}.csv").write_text("\n".join(["text,label", *lines]))
    pairs = [f'"{a}","{b}",{abs(len(a) - len(b))}' for a, b in zip(SENTENCES[:20], SENTENCES[20:], strict=True)]
    (folder / "pairs.csv").write_text("\n".join(["sentence1,sentence2,score", *pairs]))
    return {
        "retrieval": [str(folder / "beir")],
        "mteb": [str(folder / "topics"), str(folder / "topics" / "test.csv")],
        "pairs": [str(folder / "pairs.csv")],
    }


def test_a_run_tests_what_evaluate_gives(tmp_path: Path) -> None:
    sets = write_sets(tmp_path)
    pairs = sets.pop("pairs")
    run = quiet_trainer(callbacks=[SuiteEvaluation(suite, sets=names) for suite, names in sets.items()])
    module = SentRepModule(tiny_encoder(pooling="mean"), [Contrastive()])
    run.test(module, SentRepDataModule("toy", test=pairs), verbose=False)
    for suite, names in sets.items():
        found = evaluate_suite(suite, module.encoder, load_suite(suite, SuiteSets(names)), show_progress_bar=False)
        expected = {"": sum(result.main_score for result in found) / len(found)}
        for result in found:
            expected[f"/{result.name}"] = result.main_score
            expected |= {f"/{result.name}/{metric}": score for metric, score in result.scores.items()}
        for name, score in expected.items():
            assert float(run.callback_metrics[f"test/{suite}{name}"]) == pytest.approx(score, abs=1e-4)


def logged_scores(folder: str) -> dict[str, float]:
    """What the callback logs, with this process's share of the encoding."""
    logged: dict[str, float] = {}
    mine = Path(folder) / f"{distributed.rank()}-of-{distributed.world_size()}"
    mine.mkdir()
    module = SentRepModule(tiny_encoder(pooling="mean"), [Contrastive()])
    module.log = lambda name, value, **_: logged.update({name: float(value)})  # type: ignore[method-assign,assignment]
    sets = write_sets(mine)
    del sets["pairs"]
    for suite, names in sets.items():
        callback = SuiteEvaluation(suite, sets=names, batch_size=4)
        callback.setup(None, module, "test")  # type: ignore[arg-type]
        callback.on_test_epoch_end(None, module)  # type: ignore[arg-type]
    return logged


@pytest.mark.slow
def test_two_processes_give_the_scores_of_one(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    expected = logged_scores(str(tmp_path))
    assert len(expected) > 9
    assert run_processes(logged_scores, 2, str(tmp_path)) == [expected, expected]


def test_validations_score_it_and_a_test_does_not(tmp_path: Path) -> None:
    sets = write_sets(tmp_path)
    (tmp_path / "corpus.txt").write_text("\n".join(SENTENCES))
    module = SentRepModule(tiny_encoder(), [Contrastive()])
    data = SentRepDataModule(str(tmp_path / "corpus.txt"), val=sets["pairs"], test=sets["pairs"], batch_size=8)
    run = quiet_trainer(callbacks=[SuiteEvaluation("retrieval", "val", sets["retrieval"])], max_epochs=1)
    run.fit(module, data)
    assert 0 <= float(run.callback_metrics["val/retrieval/beir/ndcg@10"]) <= 100
    run.test(module, data, verbose=False)
    assert not any(name.startswith("test/retrieval") for name in run.callback_metrics)


def test_a_missing_set_is_told_before_training(tmp_path: Path) -> None:
    sets = write_sets(tmp_path)
    data = SentRepDataModule("toy", val=sets["pairs"])
    run = quiet_trainer(callbacks=[SuiteEvaluation("retrieval", "val", [str(tmp_path / "nowhere")])], max_steps=1)
    with pytest.raises(InputError, match="nowhere"):
        run.fit(SentRepModule(tiny_encoder(), [Contrastive()]), data)
    assert run.global_step == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"suite": "transfer", "stage": "train"}, "stage"),
        ({"suite": "sts"}, "data.val"),
        ({"suite": "x"}, "suite must be one of"),
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
