"""``sentrep adapt``: a model made better on a text of one's own, or the word that it was better before."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch

from sentrep import checks
from sentrep.adaptation.choice import Choice, choose, recipe_for
from sentrep.adaptation.neighbours import changed_neighbours
from sentrep.adaptation.outcome import Adaptation, settings_of
from sentrep.adaptation.preparation import CHOOSE, JUDGE, PASSAGES, Remembered, prepare, write_sentences
from sentrep.adaptation.report import task_table, write_report
from sentrep.adaptation.splitting import split_documents
from sentrep.adaptation.verdict import Judgement, judge
from sentrep.cli.adapt_folder import AdaptationFolder, is_checkpoint
from sentrep.cli.configuration import parse_request
from sentrep.cli.errors import UsageError
from sentrep.cli.logs import say, show_log
from sentrep.cli.precision import has_bf16
from sentrep.data.sets.proxy_tasks import load_proxy_tasks
from sentrep.data.text.corpus import open_corpus
from sentrep.data.text.documents import load_documents
from sentrep.encoder import SentenceEncoder, fit_lexical
from sentrep.encoder.loading.model_card import CARD
from sentrep.errors import InputError
from sentrep.evaluation.proxy import word_matching
from sentrep.evaluation.training_report import MODEL
from sentrep.io.files import write_text
from sentrep.io.paths import check_target, expanded
from sentrep.reports.report import Report

_NO_STRUCTURE = (
    "Nothing can be judged: too few documents have a title or several sentences and words of their own, so the text's "
    "own structure gives no questions with known answers"
)


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
    lexical: bool = False,
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
        output: folder for the model, the report and the intermediate files; new or empty for the first run.
        columns: the columns [title,text], or [text]; by default the usual names.
        recipe: configuration files of the training, later ones win; by default adapt/pairs, or adapt/plain for a model
            that finds less than half of what matching words do.
        questions: file of questions and passages (sent0, sent1) to train on as well, as sentrep questions writes them
            of OUTPUT/work/passages.parquet.
        minutes: of training at most; preparing, mixing and judging take their time beside.
        pooling: replaces the model's own, for a plain transformers folder for example.
        passages: to train on and to search in; of a larger text so many are drawn.
        lexical: let the vectors match words beside meaning, where that scores higher: they get 384 dimensions more, and
            sentence-transformers needs sentrep to load them.
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
    work = AdaptationFolder(expanded(output), minutes, seed)
    with work.held():
        documents = load_documents(text, columns)
        with work.timed("reading"):
            start = _load(backbone, pooling)
            split = split_documents(documents, seed)
        asked = None if questions is None else open_corpus(questions, ["sent0", "sent1"])
        tree = None if recipe is None else parse_request([word for file in recipe for word in ("-c", file)]).tree
        more = {"recipe": tree, "minutes": minutes, "questions": asked and asked.fingerprint}
        work.claim(documents, backbone=backbone, pooling=pooling, passages=passages, **more)
        source = _source(start, backbone, pooling, work)
        outcome = Adaptation(text=text, backbone=backbone, documents=len(documents), seconds=work.seconds)
        if split is None:
            files = recipe or ["adapt/simcse"]
            outcome.settings = {"recipe": ", ".join(files)}
            if force:
                outcome.passages = write_sentences(documents, work.files)
                if status := work.fit(files, start, source):
                    return status
            _leave_unjudged(outcome, work, start, force)
        else:
            model = Remembered(start, bf16=has_bf16(start.device))
            with work.timed("preparing"):
                pairs = [] if asked is None else [row.sentences for row in asked.rows() if not row.blank]
                material = prepare(documents, split, model, work.files, passages, seed, pairs)
                found, why = recipe_for(load_proxy_tasks(work.files / CHOOSE), model)
            outcome.passages, outcome.pairs = material.passages, material.pairs
            files = recipe or [found]
            outcome.settings = {"recipe": ", ".join(files)} | ({"why": why} if recipe is None else {})
            say(why if recipe is None else f"Trained by {', '.join(recipe)}, as you asked.")
            if status := work.fit(files, start, source):
                return status
            _choose_and_judge(outcome, work, model, len(split.judge), lexical, force)
        _report(outcome, work)
        return 0


def _leave_unjudged(outcome: Adaptation, work: AdaptationFolder, start: SentenceEncoder, force: bool) -> None:
    """A text without a structure: there is no truth to choose or to judge by."""
    done = "nothing is exported (--force true trains blindly)"
    if force:
        assert work.trained is not None
        outcome.take_from(work.trained)
        outcome.folder = str(work.folder / MODEL)
        work.end(start).save_pretrained(outcome.folder)
        done = f"it was trained all the same and is in {outcome.folder}"
    outcome.sentence = f"{_NO_STRUCTURE}; {done}."


def _choose_and_judge(
    outcome: Adaptation, work: AdaptationFolder, model: Remembered, documents: int, lexical: bool, force: bool
) -> None:
    """Mix the start and the end of the training, choose among the mixtures, judge the chosen one, export it."""
    assert work.trained is not None
    say("mixing the untouched model with the trained one")
    with work.timed("mixing"):
        words = fit_lexical(model.encoder, pq.read_table(work.files / PASSAGES)["text"].to_pylist(), seed=work.seed)
        end = Remembered(work.end(model.encoder), model.bf16)
        choice = choose(load_proxy_tasks(work.files / CHOOSE), model, end, words)
    chosen = choice.worded if lexical and choice.worded is not None else choice.model
    say("judging the best of them")
    with work.timed("judging"):
        tasks = load_proxy_tasks(work.files / JUDGE)
        judgement = judge(tasks, model, chosen, word_matching(tasks))
    outcome.take_from(work.trained)
    outcome.verdict, outcome.tasks = judgement.verdict, judgement.tasks
    outcome.interpolation, outcome.lexical = choice.shares, choice.weights
    outcome.settings |= settings_of(work.trained) | {"share of the trained weights": f"{choice.share:g}"}
    if chosen is choice.worded:
        outcome.settings["weight of matching words"] = f"{chosen.weight:g}"
    sentence = _sentence(judgement, documents)
    if judgement.verdict == "better" or force:
        outcome.folder = str(work.folder / MODEL)
        chosen.encoder.save_pretrained(outcome.folder)
        card = Path(outcome.folder, CARD)
        write_text(card, f"{card.read_text(encoding='utf-8')}\n## Adaptation\n\n{sentence} No labels were used.\n")
    where = "Nothing is exported." if outcome.folder is None else f"It is in {outcome.folder}."
    outcome.sentence = f"{sentence} {where}{'' if chosen is choice.worded else _offer(choice, model)}"
    with work.timed("neighbours"):
        texts = list(tasks.passages.values())
        outcome.neighbours = changed_neighbours(texts, model(texts).numpy(), chosen(texts).numpy())


def _sentence(judgement: Judgement, documents: int) -> str:
    gain = judgement.difference
    said = (
        f"nDCG@10 {gain.value:+.2f} (95 % interval {gain.low:+.2f} to {gain.high:+.2f}) over the tasks of {documents} "
        "held-out documents"
    )
    if judgement.verdict == "better":
        return f"The adapted model is better on this text: {said}."
    return f"Your model was already better at this: the best candidate gave {said}."


def _offer(choice: Choice, model: Remembered) -> str:
    """What matching words would add, and for what."""
    if choice.worded is None:
        return ""
    widths = [encoder.embedding_dim for encoder in (choice.worded.encoder, model.encoder)]
    return (
        f" Matching words would add {choice.gain:.1f} on the questions that choose, with {widths[0]} dimensions in the "
        f"place of {widths[1]} and where sentrep is installed: --lexical true."
    )


def _report(outcome: Adaptation, work: AdaptationFolder) -> None:
    """Print the verdict and the table; write the numbers and the report."""
    numbers = json.dumps(dataclasses.asdict(outcome), indent=1, ensure_ascii=False)
    write_text(work.folder / "outcome.json", numbers + "\n")
    places = {"numbers": work.folder / "outcome.json", "report": write_report(outcome, work.folder)}
    table = task_table(outcome.tasks, intervals=False).drop(columns=["verdict", "queries / texts"], errors="ignore")
    took = ", ".join(f"{part} {seconds:.0f} s" for part, seconds in outcome.seconds.items())
    written = [f"{name:<8}  {place}" for name, place in places.items()]
    Report(table, notes=[outcome.sentence, f"took      {took}", *written]).print()


def _load(backbone: str, pooling: str | None) -> SentenceEncoder:
    """The untouched model, which training can begin from.

    Raises:
        InputError: training would begin without the weights of the model's modules.
    """
    changes: dict[str, Any] = {} if pooling is None else {"pooling": pooling}
    start = SentenceEncoder.from_pretrained(backbone, **changes)
    if (pooling is not None or not is_checkpoint(backbone)) and start.sentence_modules.state_dict():
        names = ", ".join(type(module).__name__ for module in start.sentence_modules)
        raise InputError(
            f"{backbone}: behind its pooling are modules with weights ({names}), which training takes from a "
            "checkpoint alone; give the .ckpt that it was exported from, without --pooling, or another model"
        )
    return start.to("cuda" if torch.cuda.is_available() else "cpu")


def _source(start: SentenceEncoder, backbone: str, pooling: str | None, work: AdaptationFolder) -> str:
    """What training loads: the model with another pooling is written first, since its teacher must pool alike."""
    if pooling is None:
        return backbone
    source = str(work.files / "start")
    start.save_pretrained(source)
    return source
