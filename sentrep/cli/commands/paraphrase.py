"""``sentrep paraphrase``: a paraphrase and a contrary sentence for every sentence, from a language model."""

from __future__ import annotations

import functools

from sentrep.data.augmentation.filters import PairFilter
from sentrep.data.augmentation.model_options import Price, Request, Server

REQUEST, FILTER, SERVER, PRICE = Request(), PairFilter(min_ratio=0.2, max_ratio=5.0), Server(), Price()


def paraphrase(
    *,
    input: str,
    output: str,
    base_url: str,
    model: str,
    column: str | None = None,
    skip_failed: bool = False,
    overwrite: bool = False,
    request: Request = REQUEST,
    filter: PairFilter = FILTER,
    server: Server = SERVER,
    price: Price = PRICE,
) -> None:
    """Ask a language model for a paraphrase and a contrary sentence of every sentence of a file.

    For example: sentrep paraphrase --input corpus.txt --output triplets.parquet --base_url http://localhost:8000/v1
    --model Qwen/Qwen2.5-7B-Instruct

    The work may be interrupted at any moment, even by kill -9 or a full disk: the same command resumes, and asks only
    for the answers that are not in the files. The contrary sentence can serve as a hard negative.

    Args:
        input: .txt (a sentence a line), .csv, .tsv, .jsonl or .parquet, compressed or not; a hub data set.
        output: file to write, .parquet, with the columns sent0 (sentence), sent1 (paraphrase), hard_neg (contrary).
        base_url: address of any OpenAI-compatible server, for example http://localhost:8000/v1.
        model: the model's name at that server.
        column: name of the column with the sentences.
        skip_failed: leave out sentences that get no answer, instead of leaving the work unfinished.
        overwrite: replace an output that is there already, or the beginning of other work.
        request: the content of a request.
        filter: which paraphrases are left out.
        server: how to treat the server.
        price: of a million tokens.

    Raises:
        InputError: for anything wrong with the files, the settings or the server.
    """
    from sentrep.cli.commands.augmentation import (
        ROWS_ASKED,
        ask_about,
        open_sentences,
        print_verdicts,
        triplet,
        usage,
        versions,
    )
    from sentrep.data.augmentation.finished_pairs import record, save_rows, write_pairs
    from sentrep.data.augmentation.language_model import COUNTS, LanguageModel
    from sentrep.data.augmentation.prompt import Prompt
    from sentrep.data.parts import Parts, parts_of
    from sentrep.data.text.cells import TRIPLET

    prompt = Prompt("paraphrase")
    asked = LanguageModel(base_url, model, prompt, request, server)
    corpus, text = open_sentences(input, column, output, ".parquet")
    settings = {"command": "paraphrase", "model": model, **vars(request), "prompt": prompt.fingerprint, **vars(filter)}
    parts = Parts(parts_of(output, overwrite), text, ROWS_ASKED, ".parquet", save_rows, settings, overwrite)
    ask_about(corpus, parts, asked, functools.partial(triplet, check=filter), skip_failed, price)
    about = record(parts, COUNTS, {"input": corpus.name, "base_url": asked.host, **versions("openai")})
    write_pairs(parts, output, TRIPLET, about)
    print_verdicts("paraphrases", about["verdicts"], output, usage(about, price))
