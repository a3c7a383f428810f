"""The steps of ``sentrep adapt``: load the model, choose and judge the trained one, report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch

from sentrep.adaptation.choice import Choice, choose
from sentrep.adaptation.neighbours import changed_neighbours
from sentrep.adaptation.outcome import Adaptation
from sentrep.adaptation.preparation import CHOOSE, JUDGE, PASSAGES, Remembered
from sentrep.adaptation.report import task_table, write_report
from sentrep.adaptation.verdict import TRUSTED, Judgement, judge
from sentrep.cli.commands.adapt_folder import AdaptationFolder, is_checkpoint
from sentrep.cli.runs.logs import say
from sentrep.data.sets.proxy_tasks import document_of, load_proxy_tasks
from sentrep.encoder import SentenceEncoder, fit_lexical
from sentrep.encoder.loading.model_card import CARD
from sentrep.errors import InputError
from sentrep.evaluation.proxy import word_matching
from sentrep.evaluation.training_report import MODEL
from sentrep.io.files import write_text
from sentrep.reports.report import Report

_NO_STRUCTURE = (
    "Nothing can be judged: too few documents have a title or several sentences and words of their own, so the text's "
    "own structure gives no questions with known answers."
)


def leave_unjudged(outcome: Adaptation, work: AdaptationFolder, start: SentenceEncoder, force: bool) -> None:
    """Report a text without a structure: nothing can choose or judge."""
    outcome.sentence, outcome.advice = _NO_STRUCTURE, ("To train blindly, use --force true.",)
    if force:
        assert work.trained is not None
        outcome.take_from(work.trained)
        outcome.folder, outcome.advice = str(work.folder / MODEL), ("It was trained all the same.",)
        work.end(start).save_pretrained(outcome.folder)


def choose_and_judge(
    outcome: Adaptation, work: AdaptationFolder, model: Remembered, lexical: bool, force: bool
) -> None:
    """Mix the start and the end of the training, choose among the mixtures, judge the chosen one, export it."""
    assert work.trained is not None
    say("mixing the untouched model with the trained one; each mixture reads the questions that choose")
    with work.timed("mixing"):
        words = fit_lexical(model.encoder, pq.read_table(work.files / PASSAGES)["text"].to_pylist(), seed=work.seed)
        end = Remembered(work.end(model.encoder), model.bf16)
        choice = choose(load_proxy_tasks(work.files / CHOOSE), model, end, words)
    chosen = choice.worded if lexical and choice.worded is not None else choice.model
    say("judging the best of them")
    with work.timed("judging"):
        tasks = load_proxy_tasks(work.files / JUDGE)
        judgement = judge(tasks, model, chosen, word_matching(tasks), 0.0 if chosen is choice.worded else TRUSTED)
    outcome.take_from(work.trained)
    outcome.verdict, outcome.tasks = judgement.verdict, judgement.tasks
    outcome.interpolation, outcome.lexical = choice.shares, choice.weights
    outcome.settings["share of the trained weights"] = f"{choice.share:g}"
    if chosen is choice.worded:
        outcome.settings["weight of matching words"] = f"{chosen.weight:g}"
    outcome.sentence = _sentence(judgement, len({document_of(query) for query in tasks.queries}))
    outcome.advice = () if chosen is choice.worded else _advice(judgement, choice, model)
    if judgement.verdict == "better" or force:
        outcome.folder = str(work.folder / MODEL)
        chosen.encoder.save_pretrained(outcome.folder)
        card = Path(outcome.folder, CARD)
        about = f"\n## Adaptation\n\n{outcome.sentence} No labels were used.\n"
        write_text(card, card.read_text(encoding="utf-8") + about)
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
        return f"The adapted model is better at questions made from this text: {said}."
    if judgement.verdict == "not better":
        return f"Your model was already better at this: the best candidate gave {said}."
    return f"Whether people would find more cannot be told: the best candidate gave {said}."


def _advice(judgement: Judgement, choice: Choice, model: Remembered) -> tuple[str, ...]:
    """The doubt about a small gain of training, and the gain of matching words with its price."""
    told: list[str] = []
    if judgement.verdict == "cannot be told":
        told.append(f"A gain below {TRUSTED:g} may only show that the questions resemble the training pairs.")
    if choice.worded is not None:
        widths = [encoder.embedding_dim for encoder in (choice.worded.encoder, model.encoder)]
        told.append(
            f"Matching words would add {choice.gain:.1f} on the questions that choose (--lexical true); the vectors "
            f"then have {widths[0]} dimensions instead of {widths[1]}, and only a program with sentrep loads the model."
        )
    return tuple(told)


def report(outcome: Adaptation, work: AdaptationFolder) -> None:
    """Print the verdict and the table; write the numbers and the report."""
    numbers = json.dumps(outcome.record(), indent=1, ensure_ascii=False)
    write_text(work.folder / "outcome.json", numbers + "\n")
    lines = {
        "took": ", ".join(f"{part} {seconds:.0f} s" for part, seconds in outcome.seconds.items()),
        "model": outcome.folder or "none was exported",
        "numbers": work.folder / "outcome.json",
        "report": write_report(outcome, work.folder),
    }
    notes = [outcome.sentence, *outcome.advice, *(f"{name:<8}  {line}" for name, line in lines.items())]
    Report(task_table(outcome.tasks, brief=True), notes=notes).print()


def load(backbone: str, pooling: str | None) -> SentenceEncoder:
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


def source(start: SentenceEncoder, backbone: str, pooling: str | None, work: AdaptationFolder) -> str:
    """The model that training loads; with another pooling it is written first, for its teacher to pool alike."""
    if pooling is None:
        return backbone
    source = str(work.files / "start")
    start.save_pretrained(source)
    return source
