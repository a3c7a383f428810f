"""``sentrep adapt``: a model made better on a text of one's own, or the reason why it cannot be called better."""

from __future__ import annotations

import os
from pathlib import Path

from sentrep import checks
from sentrep.cli.errors import UsageError
from sentrep.io.paths import check_target, expanded


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
    """Fine-tune a model on your own text, judge it without labels, and export it if it is better.

    For example: sentrep adapt notes --backbone sentence-transformers/all-MiniLM-L6-v2 --lexical true

    Documents are held out, and their own structure asks the questions: which text has this title, which document lacks
    this sentence, which passages are neighbours. Two fifths of these documents choose, the others judge. After an
    interruption the same command resumes.

    Args:
        text: a folder of .txt and .md files; a .jsonl, .parquet or .csv with a title and a text; a .txt with a
            document or a sentence a line; or a data set of the hub.
        backbone: the model to start from, as a folder, a checkpoint or a hub id.
        output: folder for the model, the report and the intermediate files; new or empty for the first run.
        columns: the columns [title,text], or [text]; by default the usual names.
        recipe: configuration files of the training, later ones win; by default adapt/pairs.
        questions: file of questions and passages (sent0, sent1) to train on as well, as sentrep questions writes them
            of OUTPUT/work/passages.parquet.
        minutes: the most minutes of training. On a CPU, preparing, mixing and judging take about as long again; fewer
            passages are read where the time is short.
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
    from sentrep.adaptation.outcome import Adaptation
    from sentrep.adaptation.preparation import Remembered, prepare, write_sentences
    from sentrep.adaptation.splitting import split_documents
    from sentrep.cli.commands.adapt_folder import AdaptationFolder
    from sentrep.cli.commands.adapt_steps import choose_and_judge, leave_unjudged, load, report, source
    from sentrep.cli.config.configuration import parse_request
    from sentrep.cli.runs.logs import say, show_log
    from sentrep.cli.runs.precision import has_bf16
    from sentrep.data.text.corpus import open_corpus
    from sentrep.data.text.documents import load_documents

    checks.positive("adapt", minutes=minutes)  # else one second of training would be judged
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
            start = load(backbone, pooling)
            split = split_documents(documents, seed)
        asked = None if questions is None else open_corpus(questions, ["sent0", "sent1"])
        files = recipe or ["adapt/simcse" if split is None else "adapt/pairs"]
        tree = parse_request([word for file in files for word in ("-c", file)]).tree
        more = {"recipe": tree, "minutes": minutes, "questions": asked and asked.fingerprint}
        work.claim(documents, backbone=backbone, pooling=pooling, passages=passages, **more)
        trained_from = source(start, backbone, pooling, work)
        outcome = Adaptation(text=text, backbone=backbone, documents=len(documents), seconds=work.seconds)
        outcome.settings = {"recipe": ", ".join(files)}
        if split is None:
            if force:
                outcome.passages = write_sentences(documents, work.files)
                if status := work.fit(tree, start, trained_from):
                    return status
            leave_unjudged(outcome, work, start, force)
        else:
            model = Remembered(start, bf16=has_bf16(start.device))
            say(f"{minutes:g} minutes of training, and on a CPU about as long to prepare, mix and judge")
            with work.timed("preparing"):
                pairs = [] if asked is None else [row.sentences for row in asked.rows() if not row.blank]
                outcome.passages, outcome.pairs = prepare(
                    documents, split, model, work.files, minutes, passages, seed, pairs
                )
            if status := work.fit(tree, start, trained_from):
                return status
            choose_and_judge(outcome, work, model, lexical, force)
        report(outcome, work)
        return 0
