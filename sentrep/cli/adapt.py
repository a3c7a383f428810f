"""``sentrep adapt``: a model made better on a text of one's own, or the word that it was better before."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from rich.console import Console

from sentrep import checks
from sentrep.adaptation.account import curve_of, settings_of
from sentrep.adaptation.interpolation import SHARES, interpolate
from sentrep.adaptation.neighbours import aligned_maps, changed_neighbours
from sentrep.adaptation.outcome import Adaptation, Estimate
from sentrep.adaptation.preparation import (
    CHOOSE,
    JUDGE,
    PAIRS,
    PASSAGES,
    SENTENCES,
    Material,
    Remembered,
    prepare,
    write_sentences,
)
from sentrep.adaptation.report import write_report
from sentrep.adaptation.splitting import Split, split_documents
from sentrep.adaptation.verdict import compare_tasks, decide
from sentrep.adaptation.words import WEIGHTS, WithWords
from sentrep.cli import trainer
from sentrep.cli.configuration import Tree, parse_request
from sentrep.cli.errors import UsageError
from sentrep.cli.functions import run_function
from sentrep.cli.logs import say, show_log
from sentrep.cli.precision import cpu_has_bf16
from sentrep.data.sets.proxy_tasks import load_proxy_tasks
from sentrep.data.text.corpus import open_corpus
from sentrep.data.text.documents import Document, load_documents
from sentrep.data.text.fingerprints import hash_of
from sentrep.encoder import LexicalFeatures, SentenceEncoder, fit_lexical, with_lexical
from sentrep.encoder.loading.folders import settings
from sentrep.errors import InputError
from sentrep.evaluation.proxy import CRITERION, proxy_values, rank_passages, score_rankings, word_matching
from sentrep.evaluation.report import plain_table
from sentrep.evaluation.runs import version_of
from sentrep.evaluation.selection import FILE as SELECTION
from sentrep.evaluation.training_report import MODEL
from sentrep.io.files import hold, write_text
from sentrep.io.harmless import screen_text
from sentrep.io.paths import check_target

PATIENCE = 4
"""Validations without a better one that end the training."""
_NO_STRUCTURE = (
    "Nothing can be judged: too few documents have a title or several sentences, so the text's own structure gives no "
    "questions with known answers"
)


def run(command: str, words: list[str]) -> int:
    """Run the command."""
    return run_function(adapt, command, words)


def adapt(
    text: str,
    *,
    backbone: str,
    output: str = "adapted",
    columns: list[str] | None = None,
    recipe: list[str] | None = None,
    questions: str | None = None,
    minutes: float = 15.0,
    pooling: str | None = None,
    passages: int = 10_000,
    lexical: bool = True,
    seed: int = 42,
    force: bool = False,
) -> int:
    """Make a model better on a text of yours, judge that without labels, and export it where it is better.

    Documents are held out, and their own structure asks the questions: which text has this title, which document lacks
    this sentence, which passages are neighbours. One half of them chooses, the other half judges. The same command
    goes on where it was interrupted.

    Args:
        text: a folder of .txt and .md files; a .jsonl, .parquet or .csv with a title and a text; a .txt with a
            document or a sentence a line; or a data set of the hub.
        backbone: the model to start from, as a folder, a checkpoint or a hub id.
        output: folder for the model, the report and what was made on the way.
        columns: the columns [title,text], or [text]; by default the usual names.
        recipe: configuration files of the training, later ones win; by default adapt/pairs.
        questions: file of questions and passages (sent0, sent1) to train on as well, as sentrep questions writes them
            of OUTPUT/work/passages.parquet.
        minutes: of training at most; preparing, mixing and judging take their time beside.
        pooling: replaces the model's own, for a plain transformers folder for example.
        passages: to train on and to search in; of a larger text so many are drawn.
        lexical: let the vectors match words beside meaning, where that scores higher: they get 384 dimensions more.
        seed: of every draw.
        force: export in any case, better or not.

    Returns:
        The exit status.

    Raises:
        InputError: for anything wrong with the text, the model or the folder.
    """
    checks.positive("adapt", minutes=minutes)
    checks.whole("adapt", 100, passages=passages)
    check_target(output, [text], folder=True)
    if Path(output).expanduser().resolve().is_relative_to(Path(text).expanduser().resolve()):
        raise UsageError(
            f"adapt: {output} lies in {text}, and its report would be read as text; choose another --output"
        )
    show_log()
    work = _Work(Path(output).expanduser(), minutes, seed)
    with hold(work.folder / ".lock", f"the adaptation in {output}"):
        documents = load_documents(text, columns)
        files = recipe or ["adapt/pairs"]
        tree = parse_request([word for file in files for word in ("-c", file)]).tree
        _check_devices(tree)
        with work.timed("reading"):
            start = _load(backbone, pooling)
            _check_modules(start, backbone, pooling)
            split = split_documents(documents, seed)
        asked = None if questions is None else open_corpus(questions, ["sent0", "sent1"])
        more = {"recipe": tree, "lexical": lexical, "minutes": minutes, "questions": asked and asked.fingerprint}
        work.claim(documents, backbone=backbone, pooling=pooling, passages=passages, **more)
        source = _source(start, backbone, pooling, work)
        given = {"text": text, "backbone": backbone, "documents": len(documents)}
        if split is None:
            return _blind(work, documents, start, source, recipe or ["adapt/simcse"], given, force)
        model = Remembered(start)
        with work.timed("preparing"):
            pairs = [] if asked is None else [row.sentences for row in asked.rows() if not row.blank]
            material = prepare(documents, split, model, work.files, passages, seed, pairs)
        if status := work.fit(files, start, source):
            return status
        return _judge(work, model, material, split, given, lexical, force)


class _Work:
    """The folder of an adaptation, and how long its parts took.

    Args:
        folder: of everything.
        minutes: of training.
        seed: of the training.
    """

    def __init__(self, folder: Path, minutes: float, seed: int) -> None:
        self.folder, self.files = folder, folder / "work"
        self.files.mkdir(parents=True, exist_ok=True)
        self.minutes, self.seed = minutes, seed
        self.seconds: dict[str, float] = {}
        self.settings: dict[str, str] = {}

    def claim(self, documents: Sequence[Document], **settings: Any) -> None:
        """Note what is asked for; refuse a folder of something else.

        Raises:
            UsageError: there is another adaptation in the folder.
        """
        texts = hash_of([(document.title, document.sentences) for document in documents])
        asked = json.dumps({"text": texts, "seed": self.seed, **settings}, sort_keys=True)
        note = self.files / "settings.json"
        if note.exists() and note.read_text(encoding="utf-8") != asked:
            raise UsageError(f"adapt: {self.folder} holds an adaptation with other settings; choose another --output")
        write_text(note, asked)

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Note how long a part takes."""
        began = time.monotonic()
        yield
        self.seconds[part] = self.seconds.get(part, 0.0) + time.monotonic() - began

    @property
    def trained(self) -> Path | None:
        """The run that has come to its end; None where there is none."""
        runs = [path.parent for path in self.files.glob(f"run/version_*/{SELECTION}")]
        return max(runs, key=version_of, default=None)

    def fit(self, recipes: Sequence[str], start: SentenceEncoder, backbone: str) -> int:
        """Train, or go on with it; returns the exit status."""
        if self.trained is not None:
            say(f"{self.trained} is trained already")
            return 0
        files = [word for file in recipes for word in ("-c", file)]
        tree = parse_request(files).tree
        with self.timed("training"):
            words = [*files, "-c", json.dumps(self._overlay(tree, start, backbone)), "--ckpt_path", "last"]
            status = trainer.run("fit", words)
        if status == 0 and self.trained is None:
            raise UsageError("adapt: the recipe switches the report off, which writes the model; leave it on")
        return status

    def _overlay(self, tree: Tree, start: SentenceEncoder, backbone: str) -> Tree:
        """What is laid over the recipe: the model as it is used, the files, the time."""
        encoder: Tree = {"backbone": backbone, "pooling": start.pooling, "max_seq_length": start.max_seq_length}
        if start.prompt is not None:
            encoder["prompt"] = {"template": start.prompt, "subtract": start.subtract_template}
        if not _is_checkpoint(backbone):  # which brings its own
            encoder["modules"] = settings(start)["modules"]
        terms = tree.get("model", {}).get("objectives", {})
        teachers = {
            name: {"init_args": {"model": backbone}}
            for name, term in terms.items()
            if isinstance(term, dict) and str(term.get("class_path")).rpartition(".")[2] == "Distillation"
        }
        several = len(tree.get("data", {}).get("columns") or []) > 1
        choose = self.files / CHOOSE
        training: Tree = {"max_time": _days(60 * self.minutes), "devices": 1}
        own = tree.get("trainer", {})
        if isinstance(own.get("devices"), list):
            training["devices"] = own["devices"]  # which one
        if isinstance(own.get("val_check_interval"), str):
            training["val_check_interval"] = _days(max(1.0, 60 * self.minutes / 5))
        if own.get("precision") is None and not torch.cuda.is_available() and cpu_has_bf16():
            training["precision"] = "bf16-mixed"  # more than twice the steps in the same minutes (docs/benchmarks.md)
        if choose.is_dir():
            stop = {"monitor": f"val/{CRITERION}", "mode": "max", "patience": PATIENCE}
            stop["check_on_train_epoch_end"] = False  # left open, it asks for an interval in steps
            name = "lightning.pytorch.callbacks.EarlyStopping"
            training["callbacks"] = [*(own.get("callbacks") or []), {"class_path": name, "init_args": stop}]
        logger = {"save_dir": str(self.files), "name": "run"}
        training["logger"] = {"class_path": "lightning.pytorch.loggers.TensorBoardLogger", "init_args": logger}
        return {
            "seed_everything": self.seed,
            "model": {"encoder": encoder, "objectives": teachers},
            "data": {
                "train": str(self.files / (PAIRS if several else SENTENCES)),
                "val": [str(choose)] if choose.is_dir() else [],
            },
            "trainer": training,
        }


def _blind(
    work: _Work,
    documents: Sequence[Document],
    start: SentenceEncoder,
    source: str,
    files: list[str],
    given: Tree,
    force: bool,
) -> int:
    """A text without a structure: there is no truth to choose or to judge by."""
    folder, count = None, 0
    if force:
        count = write_sentences(documents, work.files)
        if status := work.fit(files, start, source):
            return status
        assert work.trained is not None
        folder = work.folder / MODEL
        _end(work.trained, start).save_pretrained(folder)
    done = "nothing is exported (--force true trains blindly)"
    if folder is not None:
        done = f"it was trained all the same and is in {folder}"
    sentence = f"{_NO_STRUCTURE}; {done}."
    empty = np.zeros((0, 2))
    outcome = Adaptation(
        verdict="cannot be told", sentence=sentence, **given, folder=None if folder is None else str(folder),
        passages=count, pairs=0, tasks=(), curve=(), interpolation=(), lexical=(), neighbours=(), map_before=empty,
        map_after=empty, map_texts=(), seconds=work.seconds, settings={"recipe": ", ".join(files)},
    )  # fmt: skip
    _report(outcome, work)
    return 0


def _judge(
    work: _Work, model: Remembered, material: Material, split: Split, given: Tree, lexical: bool, force: bool
) -> int:
    """Mix the start and the end of the training, choose among the mixtures, judge the chosen one, export it."""
    assert work.trained is not None
    start = model.encoder
    with work.timed("mixing"):
        tasks = load_proxy_tasks(work.files / CHOOSE)
        end = _end(work.trained, start)
        candidates = {0.0: model, **{share: Remembered(interpolate(start, end, share)) for share in SHARES}}
        candidates[1.0] = Remembered(end)
        found = {
            share: proxy_values(score_rankings(tasks, rank_passages(tasks, encode)))[CRITERION]
            for share, encode in candidates.items()
        }
        best = max(found, key=lambda share: found[share])  # of equals the nearest to the untouched model
        chosen, weight, with_words = candidates[best], 0.0, {0.0: found[best]}
        if lexical:
            words_of = fit_lexical(start, pq.read_table(work.files / PASSAGES)["text"].to_pylist(), seed=work.seed)
            for share in WEIGHTS:
                ranked = rank_passages(tasks, WithWords(chosen, words_of, share))
                with_words[share] = proxy_values(score_rankings(tasks, ranked))[CRITERION]
            weight = max(with_words, key=lambda share: with_words[share])
            if weight:
                chosen = Remembered(with_lexical(deepcopy(chosen.encoder), words_of, weight))
    with work.timed("judging"):
        tasks = load_proxy_tasks(work.files / JUDGE)
        before, after = (rank_passages(tasks, encode) for encode in (model, chosen))
        scores = score_rankings(tasks, before), score_rankings(tasks, after)
        words = word_matching(tasks)
        outcomes = compare_tasks(tasks, scores[0], scores[1], words)
        verdict, gain = decide(*scores)
    if words is None:
        say("what matching words alone gives (BM25) needs the package bm25s: pip install 'sentrep[adapt]'")
    folder = work.folder / MODEL if verdict == "better" or force else None
    if folder is not None:
        chosen.encoder.save_pretrained(folder)
    with work.timed("pictures"):
        pictures = _pictures(list(tasks.passages.values()), model, chosen)
    outcome = Adaptation(
        verdict=verdict, sentence=_sentence(verdict, gain, folder, len(split.judge)),
        **given, folder=None if folder is None else str(folder), passages=material.passages, pairs=material.pairs,
        tasks=outcomes, curve=curve_of(work.trained), interpolation=tuple(found.items()),
        lexical=tuple(with_words.items()), **pictures, seconds=work.seconds,
        settings=settings_of(work.trained, best) | {"weight of matching words": f"{weight:g}"},
    )  # fmt: skip
    _report(outcome, work)
    return 0


def _sentence(verdict: str, gain: Estimate, folder: Path | None, documents: int) -> str:
    said = (
        f"nDCG@10 {gain.value:+.2f} (95 % interval {gain.low:+.2f} to {gain.high:+.2f}) over the tasks of {documents} "
        "held-out documents"
    )
    if verdict == "better":
        return f"The adapted model is better on this text: {said}; it is in {folder}."
    kept = "nothing is exported" if folder is None else f"the adapted one is in {folder} as you asked"
    return f"Your model was already better at this; {kept}: the best candidate gave {said}."


def _pictures(texts: list[str], before: Remembered, after: Remembered) -> dict[str, Any]:
    """Neighbours and maps, for the report."""
    vectors = before(texts).numpy(), after(texts).numpy()
    first, second, shown = aligned_maps(texts, *vectors)
    near = changed_neighbours(texts, *vectors)
    return {"neighbours": near, "map_before": first, "map_after": second, "map_texts": shown}


def _report(outcome: Adaptation, work: _Work) -> None:
    """Print the verdict and the table; write the numbers and the report."""
    numbers = dataclasses.asdict(outcome) | {"map_before": outcome.map_before.tolist()}
    numbers["map_after"] = outcome.map_after.tolist()
    write_text(work.folder / "outcome.json", json.dumps(numbers, indent=1, ensure_ascii=False) + "\n")
    places = {"numbers": work.folder / "outcome.json", "report": write_report(outcome, work.folder)}
    console = Console()
    if outcome.tasks:
        table = plain_table("task", "queries", "words", "BM25", "before", "after", "difference")
        for task in outcome.tasks:
            gain = task.difference
            table.add_row(
                task.name, str(task.queries), f"{task.overlap:.0%}", "—" if task.bm25 is None else f"{task.bm25:.1f}",
                f"{task.start.value:.1f}", f"{task.adapted.value:.1f}",
                f"{gain.value:+.2f} ± {(gain.high - gain.low) / 2:.2f}",
            )  # fmt: skip
        console.print(table)
    took = ", ".join(f"{part} {seconds:.0f} s" for part, seconds in outcome.seconds.items())
    for line in (outcome.sentence, f"took      {took}", *(f"{name:<8}  {place}" for name, place in places.items())):
        console.print(screen_text(line), soft_wrap=True, highlight=False)


def _check_devices(tree: Tree) -> None:
    """A second process would be started as this command, and would begin at its beginning.

    Raises:
        UsageError: the recipe asks for several devices.
    """
    for key in ("devices", "num_nodes"):
        value = tree.get("trainer", {}).get(key)
        count = len(value) if isinstance(value, list) else value
        if str(count) not in ("None", "auto", "1"):
            raise UsageError(
                f"adapt: trainer.{key} {value}: adapt trains on one device; for several, run sentrep fit on the pairs "
                "that it has made"
            )


def _load(backbone: str, pooling: str | None) -> SentenceEncoder:
    changes: dict[str, Any] = {} if pooling is None else {"pooling": pooling}
    encoder = SentenceEncoder.from_pretrained(backbone, **changes)
    return encoder.to("cuda" if torch.cuda.is_available() else "cpu")


def _end(run: Path, start: SentenceEncoder) -> SentenceEncoder:
    """The trained model; a configuration has no place for the prompts by name, which belong to the model."""
    end = SentenceEncoder.from_pretrained(run / MODEL).to(start.device)
    end.prompts = dict(start.prompts)
    return end


def _check_modules(start: SentenceEncoder, backbone: str, pooling: str | None) -> None:
    """Refuse a model that training could not begin from, before the folder is claimed for it.

    Raises:
        InputError: training would begin without the weights of the model's modules.
    """
    if any(isinstance(module, LexicalFeatures) for module in start.sentence_modules):
        raise InputError(
            f"{backbone}: it was adapted before, and its vectors match the words of that text; give the model that it "
            "was adapted from"
        )
    if (pooling is not None or not _is_checkpoint(backbone)) and start.sentence_modules.state_dict():
        names = ", ".join(type(module).__name__ for module in start.sentence_modules)
        raise InputError(
            f"{backbone}: behind its pooling are modules with weights ({names}), which training takes from a "
            "checkpoint alone; give the .ckpt that it was exported from, without --pooling, or another model"
        )


def _source(start: SentenceEncoder, backbone: str, pooling: str | None, work: _Work) -> str:
    """What training loads: the model with another pooling is written first, since its teacher must pool alike."""
    if pooling is None:
        return backbone
    source = str(work.files / "start")
    start.save_pretrained(source)
    return source


def _is_checkpoint(backbone: str) -> bool:
    return Path(backbone).expanduser().is_file()


def _days(seconds: float) -> str:
    """As Lightning wants times: days:hours:minutes:seconds."""
    whole = max(1, round(seconds))
    return f"{whole // 86400:02d}:{whole // 3600 % 24:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"
