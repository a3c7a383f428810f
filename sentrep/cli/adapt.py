"""``sentrep adapt``: a model made better on a text of one's own, or the word that it was better before."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from rich.console import Console

from sentrep import checks
from sentrep.adaptation.account import curve_of, settings_of
from sentrep.adaptation.choice import choose
from sentrep.adaptation.neighbours import aligned_maps, changed_neighbours
from sentrep.adaptation.outcome import Adaptation
from sentrep.adaptation.preparation import CHOOSE, JUDGE, PASSAGES, Material, Remembered, prepare, write_sentences
from sentrep.adaptation.report import write_report
from sentrep.adaptation.splitting import Split, split_documents
from sentrep.adaptation.verdict import Judgement, judge
from sentrep.cli.adapt_folder import AdaptationFolder, is_checkpoint
from sentrep.cli.configuration import Tree, parse_request
from sentrep.cli.errors import UsageError
from sentrep.cli.functions import run_function
from sentrep.cli.logs import say, show_log
from sentrep.cli.precision import has_bf16
from sentrep.data.sets.proxy_tasks import load_proxy_tasks
from sentrep.data.text.corpus import open_corpus
from sentrep.data.text.documents import Document, load_documents
from sentrep.encoder import LexicalFeatures, SentenceEncoder, fit_lexical
from sentrep.errors import InputError
from sentrep.evaluation.proxy import word_matching
from sentrep.evaluation.training_report import MODEL
from sentrep.extras import lacking
from sentrep.io.files import write_text
from sentrep.io.paths import check_target, expanded
from sentrep.reports.frames import as_frame, screen_table
from sentrep.reports.text import screen_text

_NO_STRUCTURE = (
    "Nothing can be judged: too few documents have a title or several sentences and words of their own, so the text's "
    "own structure gives no questions with known answers"
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
    checks.whole("adapt", 0, 2**32 - 1, seed=seed)
    check_target(output, [text], folder=True)
    if Path(os.path.realpath(expanded(output))).is_relative_to(os.path.realpath(expanded(text))):
        raise UsageError(
            f"adapt: {output} lies in {text}, and its report would be read as text; choose another --output"
        )
    show_log()
    if absent := lacking("bm25s"):
        say(f"without the package {absent}, what matching words alone give is not shown: pip install 'sentrep[adapt]'")
    work = AdaptationFolder(expanded(output), minutes, seed)
    with work.held():
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
        model = Remembered(start, bf16=has_bf16(start.device))
        with work.timed("preparing"):
            pairs = [] if asked is None else [row.sentences for row in asked.rows() if not row.blank]
            material = prepare(documents, split, model, work.files, passages, seed, pairs)
        if status := work.fit(files, start, source):
            return status
        _report(_judged(work, model, material, split, given, lexical, force), work)
        return 0


def _blind(
    work: AdaptationFolder,
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
        folder = work.folder / MODEL
        work.end(start).save_pretrained(folder)
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


def _judged(
    work: AdaptationFolder, model: Remembered, material: Material, split: Split, given: Tree, lexical: bool, force: bool
) -> Adaptation:
    """Mix the start and the end of the training, choose among the mixtures, judge the chosen one, export it."""
    assert work.trained is not None
    with work.timed("mixing"):
        passages = pq.read_table(work.files / PASSAGES)["text"].to_pylist() if lexical else []
        words = fit_lexical(model.encoder, passages, seed=work.seed) if lexical else None
        end = Remembered(work.end(model.encoder), model.bf16)
        choice = choose(load_proxy_tasks(work.files / CHOOSE), model, end, words)
    with work.timed("judging"):
        tasks = load_proxy_tasks(work.files / JUDGE)
        matched = word_matching(tasks)
        judgement = judge(tasks, model, choice.model, matched)
    folder = work.folder / MODEL if judgement.verdict == "better" or force else None
    if folder is not None:
        choice.model.encoder.save_pretrained(folder)
    with work.timed("pictures"):
        texts = list(tasks.passages.values())
        vectors = model(texts).numpy(), choice.model(texts).numpy()
        map_before, map_after, shown = aligned_maps(texts, *vectors)
        neighbours = changed_neighbours(texts, *vectors)
    return Adaptation(
        verdict=judgement.verdict, sentence=_sentence(judgement, folder, len(split.judge)), **given,
        folder=None if folder is None else str(folder), passages=material.passages, pairs=material.pairs,
        tasks=judgement.tasks, curve=curve_of(work.trained), interpolation=choice.shares, lexical=choice.weights,
        neighbours=neighbours, map_before=map_before, map_after=map_after, map_texts=shown, seconds=work.seconds,
        settings=settings_of(work.trained, choice.share) | {"weight of matching words": f"{choice.weight:g}"},
    )  # fmt: skip


def _sentence(judgement: Judgement, folder: Path | None, documents: int) -> str:
    gain = judgement.difference
    said = (
        f"nDCG@10 {gain.value:+.2f} (95 % interval {gain.low:+.2f} to {gain.high:+.2f}) over the tasks of {documents} "
        "held-out documents"
    )
    if judgement.verdict == "better":
        return f"The adapted model is better on this text: {said}; it is in {folder}."
    kept = "nothing is exported" if folder is None else f"the adapted one is in {folder} as you asked"
    return f"Your model was already better at this; {kept}: the best candidate gave {said}."


def _report(outcome: Adaptation, work: AdaptationFolder) -> None:
    """Print the verdict and the table; write the numbers and the report."""
    numbers = dataclasses.asdict(outcome) | {"map_before": outcome.map_before.tolist()}
    numbers["map_after"] = outcome.map_after.tolist()
    write_text(work.folder / "outcome.json", json.dumps(numbers, indent=1, ensure_ascii=False) + "\n")
    places = {"numbers": work.folder / "outcome.json", "report": write_report(outcome, work.folder)}
    console = Console()
    if outcome.tasks:
        rows = [
            {
                "task": task.name,
                "queries": str(task.queries),
                "words": f"{task.overlap:.0%}",
                "BM25": "—" if task.bm25 is None else f"{task.bm25:.1f}",
                "before": f"{task.start.value:.1f}",
                "after": f"{task.adapted.value:.1f}",
                "difference": f"{task.difference.value:+.2f} ± {(task.difference.high - task.difference.low) / 2:.2f}",
            }
            for task in outcome.tasks
        ]
        console.print(screen_table(as_frame(rows)))
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
    if (pooling is not None or not is_checkpoint(backbone)) and start.sentence_modules.state_dict():
        names = ", ".join(type(module).__name__ for module in start.sentence_modules)
        raise InputError(
            f"{backbone}: behind its pooling are modules with weights ({names}), which training takes from a "
            "checkpoint alone; give the .ckpt that it was exported from, without --pooling, or another model"
        )


def _source(start: SentenceEncoder, backbone: str, pooling: str | None, work: AdaptationFolder) -> str:
    """What training loads: the model with another pooling is written first, since its teacher must pool alike."""
    if pooling is None:
        return backbone
    source = str(work.files / "start")
    start.save_pretrained(source)
    return source
