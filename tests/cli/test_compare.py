"""``sentrep compare``: planning, interruptions, failures and the report."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

from sentrep.cli import compare_runs, main, seeded_runs
from sentrep.cli.compare import competitors_of
from sentrep.cli.compare_runs import LOCK, THESIS_SEEDS, plan, seed_list
from sentrep.cli.seeded_runs import SCORES, Run, Wanted
from sentrep.data.sets import transfer
from sentrep.evaluation.history import METRICS
from sentrep.io.files import hidden, hold
from support import table_rows, tiny_encoder

SETS = ["--sets", "[dev.csv]"]


def seeds_of(run: Run) -> tuple[str, str]:
    return run.words[run.words.index("--seed_everything") + 1], run.words[run.words.index("--data.seed") + 1]


def test_the_thesis_seeds_come_first_and_further_ones_are_always_the_same() -> None:
    assert seed_list(5) == list(THESIS_SEEDS)
    assert seed_list(8)[:5] == list(THESIS_SEEDS)
    assert seed_list(8) == seed_list(9)[:8]
    assert len(set(seed_list(50))) == 50
    assert seed_list([3, 1]) == [3, 1]


@pytest.mark.parametrize(("vary", "noise", "order"), [("both", 2, 2), ("order", 1, 2), ("noise", 2, 1)])
def test_order_and_noise_have_seeds_of_their_own(vary: str, noise: int, order: int) -> None:
    words = ["-c", "a.yaml", "--config=b/a.yaml", "--model.optimizer.lr", "1e-4"]
    runs = plan(competitors_of(words).rows, Path("comparisons"), 2, vary)
    assert [(run.label, run.seed) for run in runs][:2] == [("-a", THESIS_SEEDS[0]), ("b-a", THESIS_SEEDS[0])]
    assert all(run.words[2:4] == ["--model.optimizer.lr", "1e-4"] for run in runs)
    assert [len(set(column)) for column in zip(*map(seeds_of, runs), strict=True)] == [noise, order]


def test_the_dose_of_a_recipe_is_the_mean_over_its_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runs = plan([("plain", "a.yaml", []), ("noise", "b.yaml", [])], tmp_path, 2)
    for number, run in enumerate(runs):
        for version in (0, 9, 10):  # of these the last counts
            place = run.folder / "fit" / f"version_{version}"
            place.mkdir(parents=True)
            share = version / 100 + number / 1000
            column = "train/simcse/dose/g" if run.label == "noise" else "train/loss"
            (place / METRICS).write_text(f"step,{column}\n10,{share}\n20,\n")
    assert compare_runs._doses(runs) == {"noise": pytest.approx(0.102)}


def test_a_trained_run_is_scored_on_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_encoder().save_pretrained(tmp_path)
    places: list[str] = []
    monkeypatch.setattr(seeded_runs.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(seeded_runs.SentenceEncoder, "to", lambda self, place: places.append(place) or self)
    seeded_runs._trained(tmp_path, {})
    assert places == ["cuda"]


def fake_runs(monkeypatch: pytest.MonkeyPatch, quality: dict[str, float]) -> list[str]:
    """Replace training and scoring: a recipe's cosines follow the gold scores as well as ``quality`` says."""
    trained: list[str] = []

    def score(run: Run, wanted: Wanted) -> str | None:
        if quality[run.label] < 0:
            return "training failed (no reason)"
        trained.append(f"{run.label}/{run.seed}")
        gold = np.linspace(0, 5, 60)
        noise = np.random.default_rng(run.seed).normal(0, 1, 60)
        np.savez(run.folder / SCORES, **{"cosine/dev": gold * quality[run.label] + noise, "gold/dev": gold})
        return None

    monkeypatch.setattr(compare_runs, "check_runs", lambda runs, wanted: {run.label: ("", "") for run in runs})
    monkeypatch.setattr(seeded_runs, "_train", lambda run, jobs: None)
    monkeypatch.setattr(seeded_runs, "_score", score)
    return trained


def recipes(*names: str) -> list[str]:
    for name in names:
        Path(f"{name}.yaml").write_text("model: {}\n")
    return [word for name in names for word in ("-c", f"{name}.yaml")]


def test_the_report_says_which_recipe_is_better(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    fake_runs(monkeypatch, {"plain": 0.2, "good": 5.0})
    assert main(["compare", *recipes("plain", "good"), *SETS]) == 0
    out = capsys.readouterr().out
    assert "baseline" in out
    assert "better" in out
    report = (tmp_path / "comparisons" / "report.md").read_text()
    assert ["plain", "5"] in [row[:2] for row in table_rows(tmp_path / "comparisons" / "report.md")]
    assert report.count(" ± ") >= 4
    assert "0.05 also after Holm's correction" in " ".join(report.split())
    assert "paired by seed" in report
    for name in ("report.png", "report.svg"):
        assert (tmp_path / "comparisons" / name).stat().st_size > 1000


@pytest.mark.parametrize("cut", [100, 0])
def test_damaged_scores_are_named_and_made_again_where_they_are_missing(
    cut: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    trained = fake_runs(monkeypatch, {"plain": 0.2, "good": 5.0})
    command = ["compare", *recipes("plain", "good"), *SETS, "--seeds", "2"]
    assert main(command) == 0
    report = (tmp_path / "comparisons" / "report.md").read_text()
    scores = tmp_path / "comparisons" / "plain" / f"seed-{THESIS_SEEDS[0]}" / SCORES
    scores.write_bytes(scores.read_bytes()[:cut])
    trained.clear()
    assert main(command) == 1
    assert "no readable scores" in capsys.readouterr().err
    scores.unlink()
    assert main(command) == 0
    assert trained == [f"plain/{THESIS_SEEDS[0]}"]
    assert (tmp_path / "comparisons" / "report.md").read_text() == report


def test_variants_compete_with_the_first_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    trained = fake_runs(monkeypatch, {"plain": 0.2, "good": 5.0, "small": 0.3, "low-lr": 0.2})
    variants = ["--variant", "small=--data.batch_size 4 -c 'over.yaml'", "--variant=low-lr=--model.warmup_steps=3"]
    Path("over.yaml").write_text("data: {seed: 3}\n")
    words = ["compare", *recipes("plain", "good"), *variants, *SETS, "--seeds", "2"]
    assert main([*words, "--data.batch_size", "2"]) == 0
    assert sorted(set(trained)) == sorted(
        f"{n}/{s}" for n in ("plain", "good", "small", "low-lr") for s in seed_list(2)
    )
    said = capsys.readouterr().err
    assert said.startswith("4 rows, each trained by itself, 2 seeds: good, small, low-lr against plain\n")
    rows = competitors_of([word for word in words[1:] if word not in (*SETS, "--seeds", "2")]).rows
    runs = {run.label: run.words for run in plan(rows, Path("comparisons"), 2)}
    assert runs["small"][:6] == ["-c", "plain.yaml", "--data.batch_size", "4", "-c", "over.yaml"]
    assert runs["low-lr"][:3] == ["-c", "plain.yaml", "--model.warmup_steps=3"]


def test_tables_for_papers_and_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    fake_runs(monkeypatch, {"plain": 0.2, "go_od": 5.0})
    words = ["compare", *recipes("plain", "go_od"), *SETS]
    assert main([*words, "--format", "latex"]) == 0
    endings = {"latex": "tex", "csv": "csv", "markdown": "md"}
    printed = {name: (tmp_path / f"comparisons/report.{end}").read_text() for name, end in endings.items()}
    assert capsys.readouterr().out == printed["latex"]
    assert ["go_od", "5"] in [row[:2] for row in table_rows(tmp_path / "comparisons/report.md")]
    assert printed["latex"].startswith("\\begin{tabular}{lrrrrrr}\n\\toprule\nrecipe & seeds & dev & mean")
    assert "go\\_od & 5 & " in printed["latex"]
    assert " ± " in printed["latex"]
    first, second = csv.DictReader(io.StringIO(printed["csv"]))
    assert (first["recipe"], first["verdict"], second["verdict"]) == ("plain", "baseline", "better")
    assert float(second["difference"]) == pytest.approx(float(second["mean"]) - float(first["mean"]))
    assert 0 < float(second["p"]) == float(second["p holm"]) < 0.05


def save_models(*folders: str) -> None:
    """Untrained models in the place of runs."""
    model = tiny_encoder(pooling="mean").eval()
    for folder in folders:
        model.save_pretrained(f"comparisons/{folder}/run/version_0/model")


@pytest.mark.usefixtures("workplace")
def test_a_list_is_read_as_fit_reads_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(seeded_runs, "_train", lambda run, jobs: None)
    save_models("run/seed-1")
    Path("other.csv").write_text(Path("dev.csv").read_text().replace("sentence1", "left"))
    columns = "{path: other.csv, columns: [left, sentence2, score]}"
    words = ["compare", "-c", "run.yaml", "--seeds", "[1]"]
    assert main([*words, "--data.test", f"[dev.csv, {columns}]"]) == 0, capsys.readouterr().err
    with np.load(f"comparisons/run/seed-1/{SCORES}") as arrays:
        assert set(arrays) == {"cosine/dev", "gold/dev", "cosine/other", "gold/other"}
        np.testing.assert_array_equal(arrays["cosine/dev"], arrays["cosine/other"])


WRONG = {
    "a model": (["--model.encoder.backbone", "./gone"], "./gone: no such folder or checkpoint"),
    "a second model": (
        ["--model.objectives.two", "{class_path: Distillation, init_args: {model: ./gone}}"],
        "./gone: no such folder or checkpoint",
    ),
    "a text": (["--data.train", "gone.txt"], "gone.txt: no such file"),
    "a column": (["--data.train", "dev.csv", "--data.columns", "[gone]"], "dev.csv: no column 'gone'"),
    "a set": (["--data.val", "[gone.csv]"], "gone.csv: no such file"),
    "a set at the end": (["--data.test", "[dev.csv,gone.csv]"], "gone.csv: no such file"),
    "no list": (["--data.test", "dev.csv"], "data.test: Expected a list"),
    "a value": (["--model.objectives.simcse.temperature", "-1"], "Contrastive: temperature must be positive"),
}
"""Of a recipe: words behind ``fit``, and what its run would end with."""


@pytest.mark.usefixtures("workplace")
@pytest.mark.parametrize("wrong", WRONG)
def test_what_a_run_would_end_with_is_found_before_the_first_one(
    wrong: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained: list[str] = []
    monkeypatch.setattr(seeded_runs, "_train", lambda run, jobs: trained.append(run.label) or "failed")
    flags, says = WRONG[wrong]
    command = ["compare", "-c", "run.yaml", "--seeds", "2", "--data.test", "[dev.csv]"]
    assert main([*command, "--variant", f"other={shlex.join(flags)}"]) != 0
    error = capsys.readouterr().err
    assert f"compare, other: {says}" in error
    assert trained == []
    assert main(command) == 2  # in the same folder
    assert "every run of run failed" in capsys.readouterr().err


def test_a_folder_in_which_nothing_was_trained_is_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["compare", *recipes("plain"), *SETS, "--seeds", "2"]
    fake_runs(monkeypatch, {"plain": -1.0})
    assert main(words) == 2
    fake_runs(monkeypatch, {"plain": 0.2})
    assert main([*words, "--model.warmup_steps", "1"]) == 0
    capsys.readouterr()
    assert main(words) == 2
    assert "holds a run with other settings" in capsys.readouterr().err
    for scores in tmp_path.rglob(SCORES):
        scores.rename(scores.with_name("last.ckpt"))  # of a run that was interrupted
    assert main(words) == 2
    assert "holds a run with other settings" in capsys.readouterr().err


@pytest.mark.usefixtures("workplace")
def test_another_suite_is_scored_on_the_same_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeded_runs, "_train", lambda run, jobs: None)
    monkeypatch.setitem(transfer._TASKS, "trec", transfer._TASKS["trec"]._replace(sizes={"train": 24, "test": 12}))
    Path("senteval/TREC").mkdir(parents=True)
    for name, count in (("train_5500", 12), ("TREC_10", 6)):
        rows = [f"{kind}:x {word} {row}\n" for row in range(count) for kind, word in (("NUM", "cat"), ("LOC", "dogs"))]
        Path(f"senteval/TREC/{name}.label").write_text("".join(rows))
    save_models("run/seed-1", "run/seed-2")
    words = ["compare", "-c", "run.yaml", "--seeds", "[1,2]", "--data.sts_folder", "senteval"]
    suite = ["--suite", "transfer", "--sets", "[trec]"]
    assert main([*words, *SETS]) == 0
    assert main([*words, *suite]) == 0
    folder = Path("comparisons/run/seed-1")
    assert {path.name for path in folder.glob("s*.*")} >= {SCORES, "scores-transfer.npz", "settings-transfer.json"}
    record = json.loads(Path("comparisons/report-transfer.json").read_text())
    report = Path("comparisons/report-transfer.md").read_text()
    assert "accuracy × 100, mean" in report
    assert "Spearman" not in report
    with np.load(folder / "scores-transfer.npz") as arrays:
        assert record["rows"]["run"]["sets"]["trec"] == [float(arrays["accuracy/trec"])] * 2
    assert main([*words, "--suite", "transfer", "--sets", "[trec,mr]"]) == 2  # other sets would be other scores
    assert main([*words, *suite, "--model.warmup_steps", "1"]) == 2
    assert main([*words, "--suite", "mteb"]) == 1  # needs sets


def test_only_what_is_missing_is_run_and_other_settings_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    trained = fake_runs(monkeypatch, {"plain": 0.2, "good": 5.0})
    words = ["compare", *recipes("plain"), *SETS]
    assert main([*words, "--seeds", "2"]) == 0
    assert main([*words, "-c", *recipes("good")[1:], "--seeds", "3"]) == 0
    assert sorted(trained) == sorted(f"{name}/{seed}" for name in ("plain", "good") for seed in THESIS_SEEDS[:3])
    left = hidden(tmp_path / "comparisons" / "report.md"), hidden(next(tmp_path.rglob(SCORES)))
    for path in left:
        path.touch()
    assert main([*words, "--seeds", "2"]) == 0
    assert not any(path.exists() for path in left)  # by a comparison that was killed
    assert main([*words, "--model.optimizer.lr", "1"]) == 2
    assert "holds a run with other settings" in capsys.readouterr().err


@pytest.mark.parametrize("change", ["text", "gold", "order", "backbone", "class"])
def test_a_finished_run_is_not_taken_for_one_of_other_content(
    change: str, workplace: Path, model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The words of the command stay the same; the content of a file changes."""
    monkeypatch.syspath_prepend(workplace)
    monkeypatch.setattr(seeded_runs, "_train", lambda run, jobs: None)
    shutil.copytree(model, "backbone")
    shutil.copy("dev.csv", "test.csv")
    source = "from sentrep.objectives import Alignment\n\n\nclass Mine(Alignment):\n    pass\n"
    Path(f"of_{change}.py").write_text(source)
    save_models("run/seed-1")
    objective = ["--model.objectives.mine", f"of_{change}.Mine"]
    backbone = ["--model.encoder.backbone", "backbone", "--model.encoder.tokenizer", "null"]
    words = ["compare", "-c", "run.yaml", "--seeds", "[1]", "--sets", "[test.csv]", *objective, *backbone]
    assert main(words) == 0, capsys.readouterr().err
    assert main(words) == 0
    rows = Path("test.csv").read_text().splitlines()
    if change == "text":
        Path("corpus.txt").write_text(Path("corpus.txt").read_text().replace("a", "o", 1))
    elif change == "gold":
        Path("test.csv").write_text("\n".join([*rows[:-1], f"{rows[-1]}9"]) + "\n")
    elif change == "order":
        Path("test.csv").write_text("\n".join([rows[0], *rows[:0:-1]]) + "\n")
    elif change == "backbone":
        tiny_encoder(seed=5, pooling="mean").save_pretrained("backbone")
    else:
        Path("of_class.py").write_text(source.replace("pass", "factor = 2"))
    capsys.readouterr()
    assert main(words) == 2
    what = "the pairs or scores of a set" if change in ("gold", "order") else "its text, its model or a class of yours"
    assert f"holds a run from before {what} changed" in capsys.readouterr().err


def test_of_two_comparisons_in_one_folder_one_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    trained = fake_runs(monkeypatch, {"plain": 0.2})
    words = ["compare", *recipes("plain"), *SETS, "--seeds", "2"]
    with hold(Path("comparisons", LOCK), "x"):
        assert main(words) == 1
    assert re.search(r"at work on the comparison in comparisons \(process \d+ on ", capsys.readouterr().err)
    assert trained == []
    assert main(words) == 0


def test_jobs_run_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fake_runs(monkeypatch, {"plain": 0.2, "good": 5.0})
    together = threading.Barrier(2, timeout=30)  # breaks unless two runs wait at it at the same time
    monkeypatch.setattr(seeded_runs, "_train", lambda run, jobs: together.wait() and None)
    assert main(["compare", *recipes("plain", "good"), *SETS, "--seeds", "2", "--jobs", "2"]) == 0


def test_a_failed_run_is_reported_and_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    fake_runs(monkeypatch, {"plain": 0.2, "broken": -1.0})
    assert main(["compare", *recipes("plain", "broken"), *SETS]) == 2
    assert "every run of broken failed" in capsys.readouterr().err
