"""``sentrep questions``: pairs of a question and its passage, from a language model or a sequence-to-sequence model."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

from sentrep import checks
from sentrep.adaptation.round_trip import RoundTrip
from sentrep.data.augmentation.filters import KEPT
from sentrep.data.augmentation.model_options import Generation, Price, Request, Server
from sentrep.errors import InputError
from sentrep.io.paths import expanded

ROWS = 256
"""Rows of a part of questions by a sequence-to-sequence model."""
ROUND_TRIP, REQUEST, SERVER, PRICE = RoundTrip(), Request(), Server(), Price()
GENERATION = Generation(sample=True, top_p=0.95, max_tokens=512)


def questions(
    *,
    input: str,
    output: str,
    model: str,
    base_url: str | None = None,
    column: str | None = None,
    count: int = 3,
    batch_size: int = 32,
    skip_failed: bool = False,
    overwrite: bool = False,
    round_trip: RoundTrip = ROUND_TRIP,
    request: Request = REQUEST,
    server: Server = SERVER,
    price: Price = PRICE,
    generation: Generation = GENERATION,
) -> None:
    """Ask a model for questions about every passage of a file; write the pairs that lead back to their passage.

    For example: sentrep questions --input passages.txt --output pairs.tsv --model BeIR/query-gen-msmarco-t5-base-v1

    The work may be interrupted at any moment, even by kill -9 or a full disk: the same command resumes after the last
    finished part. All questions are kept beside the output, so that another --round_trip asks for none again.

    Args:
        input: .txt (a passage a line), .csv, .tsv, .jsonl or .parquet, compressed or not; a hub data set.
        output: file to write, .tsv, with the columns sent0 (question) and sent1 (passage).
        model: with base_url the model's name there; else a sequence-to-sequence model, a folder or a hub id such as
            BeIR/query-gen-msmarco-t5-base-v1.
        base_url: address of any OpenAI-compatible server, for example http://localhost:8000/v1.
        column: name of the column with the passages.
        count: questions of a passage.
        batch_size: passages that a sequence-to-sequence model reads at a time.
        skip_failed: leave out passages that get no answer, instead of leaving the work unfinished.
        overwrite: replace an output that is there already, or the beginning of other work.
        round_trip: which questions are kept.
        request: the content of a request.
        server: how to treat the server.
        price: of a million tokens.
        generation: how a sequence-to-sequence model writes.

    Raises:
        InputError: for anything wrong with the files, the settings, the models or the server.
    """
    import torch

    from sentrep.adaptation.questions import LONGEST, generate, judge, one_line, read_questions, write_question_pairs
    from sentrep.cli.commands.augmentation import (
        ROWS_ASKED,
        ask_about,
        open_sentences,
        print_verdicts,
        questioned,
        usage,
    )
    from sentrep.cli.commands.maps import map_parts
    from sentrep.cli.commands.models import load_encoder, sentences_of
    from sentrep.data.augmentation.backtranslation import in_batches
    from sentrep.data.augmentation.finished_pairs import record, save_rows
    from sentrep.data.augmentation.language_model import COUNTS, LanguageModel
    from sentrep.data.augmentation.prompt import Prompt
    from sentrep.data.augmentation.translation import Translator, settings_of
    from sentrep.data.parts import Parts, parts_of
    from sentrep.data.shard import EVERYTHING

    checks.whole("questions", 1, count=count, batch_size=batch_size)
    if base_url is None and count > 1 and not generation.sample:
        raise InputError(f"count {count}: without sampling a model has one question; give --generation.sample true")
    prompt = Prompt("questions", count=count)
    asked = None if base_url is None else LanguageModel(base_url, model, prompt, request, server)
    encoder = None if round_trip.encoder is None else load_encoder(round_trip.encoder, None, None)
    corpus, text = open_sentences(input, column, output, ".tsv")
    output = str(expanded(output))
    folder = parts_of(output, overwrite)
    settings: dict[str, Any] = {"command": "questions", "count": count}
    if asked is not None:
        settings |= {"model": model, **vars(request), "prompt": prompt.fingerprint}
        parts = Parts(folder, text, ROWS_ASKED, ".parquet", save_rows, settings, overwrite)
        ask_about(corpus, parts, asked, functools.partial(questioned, count=count), skip_failed, price)
    else:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        translate = Translator(model, generation, device=device, most_tokens=LONGEST)
        settings |= {"model": translate.fingerprint, **settings_of(generation, device)}
        parts = Parts(folder, text, ROWS, ".parquet", save_rows, settings, overwrite)
        finish = functools.partial(generate, translate=translate, count=count)
        mapped = functools.partial(in_batches, size=batch_size, finish=finish)
        map_parts("Generating", parts, corpus.rows(), mapped, EVERYTHING)
    pairs = list(read_questions(parts))
    verdicts = judge(pairs, [one_line(passage) for passage in sentences_of(corpus)], round_trip, encoder)
    write_question_pairs(output, [pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict == KEPT])
    about = record(parts, () if asked is None else COUNTS)
    more = {f"passages: {name}": f"{number:,}" for name, number in about["verdicts"].items() if name != KEPT}
    more |= {} if asked is None else usage(about, price)
    print_verdicts("questions", dict(Counter(verdicts).most_common()), output, more)
