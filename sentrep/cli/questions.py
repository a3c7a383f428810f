"""``sentrep questions``: pairs of a question and its passage, from a language model or a sequence-to-sequence model."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from sentrep.adaptation.questions import (
    ASKED,
    LONGEST,
    Generated,
    RoundTrip,
    judge,
    one_line,
    question_prompt,
    read_questions,
    write_pairs,
)
from sentrep.cli.augmentation import Price, ask_all, open_sentences, print_verdicts, progress_bar, usage, versions
from sentrep.cli.encode import load_encoder
from sentrep.cli.functions import run_function
from sentrep.data.augmentation.asking import COUNTS, Asking
from sentrep.data.augmentation.backtranslation import batches_of
from sentrep.data.augmentation.endpoint import Endpoint, Request, Server
from sentrep.data.augmentation.filters import KEPT
from sentrep.data.augmentation.parts import PartStore
from sentrep.data.augmentation.translation import Generation, Translator
from sentrep.data.text.corpus import Corpus
from sentrep.data.text.shard import Shard
from sentrep.errors import InputError
from sentrep.io.paths import check_name, check_target, expanded

ROUND_TRIP, REQUEST, SERVER, PRICE = RoundTrip(), Request(), Server(), Price()
GENERATION = Generation(sample=True, top_p=0.95, max_tokens=512)


def run(command: str, words: list[str]) -> int:
    """Run the command."""
    run_function(questions, command, words)
    return 0


def questions(
    *,
    input: str,
    output: str,
    model: str,
    base_url: str | None = None,
    column: str | None = None,
    count: int = 3,
    concurrency: int = 16,
    batch_size: int = 32,
    skip_failed: bool = False,
    round_trip: RoundTrip = ROUND_TRIP,
    request: Request = REQUEST,
    server: Server = SERVER,
    price: Price = PRICE,
    generation: Generation = GENERATION,
) -> None:
    """Ask a model for questions about every passage of a file; write the pairs that lead back to their passage.

    The work may be ended at any moment, even by kill -9 or a full disk: the same command goes on behind what is
    finished. All questions are kept beside the output, so that another --round_trip asks for none again.

    Args:
        input: .txt (a passage a line), .csv, .tsv, .jsonl or .parquet, compressed or not; a hub data set.
        output: file to write, .tsv, with the columns sent0 (question) and sent1 (passage).
        model: with base_url the model's name there; else a sequence-to-sequence model, a folder or a hub id such as
            BeIR/query-gen-msmarco-t5-base-v1.
        base_url: address of any OpenAI-compatible server, for example http://localhost:8000/v1.
        column: name of the column with the passages.
        count: questions of a passage.
        concurrency: requests under way at a time.
        batch_size: answers that are written together, passages that a sequence-to-sequence model reads at a time.
        skip_failed: leave out passages that get no answer, instead of leaving the work unfinished.
        round_trip: which questions are kept.
        request: what is asked for.
        server: how to treat the server.
        price: of a million tokens.
        generation: how a sequence-to-sequence model writes.

    Raises:
        InputError: for anything wrong with the files, the settings, the models or the server.
    """
    check_name(model, "the model")
    check_target(output, [input])
    if Path(output).suffix != ".tsv":
        raise InputError(f"cannot write {output}: the output file must end in .tsv")
    prompt = question_prompt(count)
    encoder = None if round_trip.encoder is None else load_encoder(round_trip.encoder, None, None)
    asked = expanded(output).with_suffix(".asked.parquet")
    settings: dict[str, Any] = {"command": "questions", "count": count}
    if base_url is not None:
        endpoint = Endpoint(base_url, model, request, server, prompt)
        corpus, total = open_sentences(input, column, str(asked))
        settings |= {"input": corpus.fingerprint, "model": model, **vars(request), "prompt": prompt.fingerprint}
        notes = {"input": corpus.name, "base_url": endpoint.host, **versions("openai")}
        store = PartStore(asked, ASKED, settings, notes, COUNTS)
        if store.record is None:
            work = Asking(store, endpoint, ASKED, lambda passage, texts: KEPT, concurrency, batch_size)
            ask_all(corpus, total, work, endpoint, price, skip_failed)
    else:
        corpus, total = open_sentences(input, column, str(asked))
        store = _generate(corpus, total, asked, model, generation, settings, batch_size)
    assert store.record is not None
    pairs = list(read_questions(asked))
    verdicts = judge(pairs, [one_line(row.sentences[0]) for row in corpus.rows()], round_trip, encoder)
    write_pairs(output, [pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict == KEPT])
    more = {f"passages: {name}": f"{number:,}" for name, number in store.record["verdicts"].items() if name != KEPT}
    more |= {} if base_url is None else usage(store.record, price)
    print_verdicts("questions", dict(Counter(verdicts).most_common()), output, more)


def _generate(
    corpus: Corpus, total: int, asked: Path, model: str, generation: Generation, settings: dict[str, Any], size: int
) -> PartStore:
    """Let a sequence-to-sequence model write, and publish the questions."""
    count = settings["count"]
    if size < 1:
        raise InputError(f"batch_size {size}: expected at least 1")
    if count > 1 and not generation.sample:
        raise InputError(f"count {count}: without sampling a model has one question; give --generation.sample true")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    translate = Translator(model, generation, device=device, most_tokens=LONGEST)
    settings |= {"input": corpus.fingerprint, "model": translate.fingerprint, **generation.settings(device)}
    notes = {"input": corpus.name, "model": model, "batch_size": size, **versions("torch", "transformers")}
    store = PartStore(asked, ASKED, settings, notes)
    if store.record is None:
        print(f"{total} rows; {len(store)} of them were done before", file=sys.stderr)
        with store.claim("generating"), progress_bar() as progress:
            task = progress.add_task("Generating", total=total, note="")
            batches = batches_of(Shard(0, 1, ""), corpus.rows(), size)
            store.map(batches, Generated(translate, count), lambda rows: progress.advance(task, rows))
        store.publish()
    return store
