"""sentrep evaluate: suites on the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import scipy.stats
from evaluation.mteb_tasks import local_task, split

from sentrep.cli import main
from sentrep.data import load_sts
from sentrep.data.sets import sts
from sentrep.encoder import SentenceEncoder
from sentrep.evaluation import evaluate_sts
from support import shared_path, tiny_encoder, toy_sentences

SENTENCES = toy_sentences(60)


@pytest.fixture(autouse=True)
def _workplace(in_folder: Path) -> None:
    rows = [f'"{a}","{b}",{row % 4}\n' for row, (a, b) in enumerate(zip(SENTENCES[:30], SENTENCES[30:], strict=True))]
    Path("mine.csv").write_text("sentence1,sentence2,score\n" + "".join(rows))


def test_a_file_of_pairs_is_scored_and_written(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--sets", "[mine.csv]", "--output", "scores.json", "--device", "cpu"]
    assert main(["evaluate", model, *words]) == 0
    out = capsys.readouterr().out
    assert "Spearman" in out
    assert "mine" in out
    report = json.loads(Path("scores.json").read_text())
    assert (report["suite"], report["pooling"], report["precision"]) == ("sts", "mean", "fp32")
    (result,) = report["results"]
    assert (result["name"], result["pairs"]) == ("mine", 30)
    assert {"spearman", "pearson", "dataset"} <= set(result)
    assert report["seconds"] > 0


def test_a_single_set_needs_no_brackets(model: str) -> None:
    assert main(["evaluate", model, "--sets", "mine.csv", "--output", "scores.csv"]) == 0
    assert Path("scores.csv").read_text().startswith("set,subset,pairs,protocol,spearman,pearson")


def test_nothing_is_replaced_unasked(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("scores.csv").write_text("mine")
    words = ["evaluate", model, "--sets", "mine.csv", "--output", "scores.csv"]
    assert main(words) == 1
    assert "scores.csv: is there already; name another output, or replace it" in capsys.readouterr().err
    assert Path("scores.csv").read_text() == "mine"
    assert main([*words, "--overwrite", "true"]) == 0
    assert Path("scores.csv").read_text() != "mine"


def test_tasks_of_mteb_are_scored_with_the_prompts_of_the_model(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mteb = pytest.importorskip("mteb", reason="needs mteb, the extra `mteb`")
    shutil.copytree(model, "prompted")
    Path("prompted/config_sentence_transformers.json").write_text(json.dumps({"prompts": {"STS": "the dog : "}}))
    pairs = {"sentence1": SENTENCES[:30], "sentence2": SENTENCES[30:], "score": [row % 4 for row in range(30)]}
    task = local_task("STS", "cosine_spearman", {"test": split(pairs)}, min_score=0, max_score=4)
    monkeypatch.setattr(mteb, "get_task", lambda name, **choice: task)
    assert main(["evaluate", "prompted", "--mteb", "LocalSTS", "--output", "scores.json"]) == 0
    assert "LocalSTS" in capsys.readouterr().out
    report = json.loads(Path("scores.json").read_text())
    (result,) = report["results"]
    assert (report["suite"], result["name"]) == ("mteb", "LocalSTS")
    encoder = SentenceEncoder.from_pretrained("prompted")
    prompted = [["the dog : " + text for text in texts] for texts in (SENTENCES[:30], SENTENCES[30:])]
    expected = scipy.stats.spearmanr(encoder.pairwise_cosine(*prompted), pairs["score"]).statistic
    assert result["cosine_spearman"] == pytest.approx(100 * expected, abs=1e-3)


def write_senteval(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A SentEval folder with 4 to 6 pairs of every set; the expected numbers of pairs are cut to these."""
    words = iter(toy_sentences(400))
    for year in range(12, 17):
        place = folder / "STS" / f"STS{year}-en-test"
        place.mkdir(parents=True)
        for subset in ("news", "forum"):
            (place / f"STS.input.{subset}.txt").write_text("".join(f"{next(words)}\t{next(words)}\n" for _ in range(3)))
            (place / f"STS.gs.{subset}.txt").write_text("1\n3\n2\n")
        monkeypatch.setitem(sts._SETS, f"sts{year}", sts._SETS[f"sts{year}"]._replace(pairs=6))
    place = folder / "STS" / "STSBenchmark"
    place.mkdir()
    rows = [f"main\tnews\t1\t{row}\t{row}\t{next(words)}\t{next(words)}\n" for row in range(5)]
    (place / "sts-test.csv").write_text("".join(rows))
    monkeypatch.setitem(sts._SETS, "stsb", sts._SETS["stsb"]._replace(pairs=5))
    (folder / "SICK").mkdir()
    for name in ("train", "trial", "test_annotated"):
        rows = [f"{row}\t{next(words)}\t{next(words)}\t{row % 3}\tX\n" for row in range(4)]
        (folder / "SICK" / f"SICK_{name}.txt").write_text("pair\ta\tb\tscore\tx\n" + "".join(rows))
    monkeypatch.setitem(sts._SETS, "sickr", sts._SETS["sickr"]._replace(pairs=4))
    monkeypatch.setitem(sts._SETS, "sickr-all", sts._SETS["sickr-all"]._replace(pairs=12))


def test_sts_under_both_protocols(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_senteval(tmp_path / "data", monkeypatch)
    assert main(["evaluate", model, "--sts_folder", "data", "--output", "scores.json"]) == 0
    out = capsys.readouterr().out
    lines = [line.split() for line in out.splitlines() if line.strip()]
    assert lines[0] == ["set", "pairs", "protocol", "Spearman"]
    assert [line[0] for line in lines].count("Avg.") == 2
    report = json.loads(Path("scores.json").read_text())
    sick = {result["name"]: result["spearman"] for result in report["results"] if "sickr" in result["name"]}
    encoder = tiny_encoder(pooling="mean").eval()
    split, all_pairs = evaluate_sts(encoder, [load_sts(name, "data") for name in ("sickr", "sickr-all")])
    assert sick == pytest.approx({"sickr": split.main_score, "sickr-all": all_pairs.main_score}, abs=1e-3)

    assert main(["evaluate", model, "--sts_folder", "data", "--sets", "[sts12,stsb]", "--detail", "true"]) == 0
    out = capsys.readouterr().out
    assert "Pearson" in out
    assert "forum" in out


@pytest.mark.slow
def test_real_transfer_task(capsys: pytest.CaptureFixture[str]) -> None:
    model, folder = shared_path("models/all-MiniLM-L6-v2"), shared_path("data/senteval")
    words = ["--suite", "transfer", "--sts_folder", str(folder), "--sets", "[trec]", "--output", "scores.json"]
    assert main(["evaluate", str(model), *words]) == 0
    (result,) = json.loads(Path("scores.json").read_text())["results"]
    assert (result["train"], result["test"]) == (5452, 500)
    assert 85 < result["accuracy"] < 99
