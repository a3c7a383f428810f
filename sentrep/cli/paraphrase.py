"""``sentrep paraphrase``: a paraphrase and a contrary sentence for every sentence, from a language model."""

from __future__ import annotations

import asyncio
import math
import sys
from typing import Any

from sentrep.cli.augmentation import open_sentences, print_verdicts, progress_bar, versions
from sentrep.cli.functions import run_function
from sentrep.data.augmentation.endpoint import Endpoint, Question
from sentrep.data.augmentation.filters import PairFilter
from sentrep.data.augmentation.paraphrasing import Paraphrasing, publish_triplets
from sentrep.data.augmentation.parts import PartStore, check_output
from sentrep.data.augmentation.prompt import prompt_fingerprint
from sentrep.data.text.corpus import Corpus
from sentrep.errors import InputError
from sentrep.io.paths import check_name

PATIENCE = 10.0
"""Seconds without an answer after which that is said."""


def run(command: str, words: list[str]) -> int:
    """Run the command."""
    run_function(paraphrase, command, words)
    return 0


def paraphrase(
    *,
    input: str,
    output: str,
    base_url: str,
    model: str,
    column: str | None = None,
    concurrency: int = 16,
    batch_size: int = 32,
    timeout: float = 120.0,
    retries: int = 10,
    attempts: int = 2,
    answer_format: str = "json_schema",
    fields: dict[str, Any] | None = None,
    seed: int = 0,
    min_ratio: float = 0.2,
    max_ratio: float = 5.0,
    input_price: float | None = None,
    output_price: float | None = None,
    skip_failed: bool = False,
    key_variable: str = "OPENAI_API_KEY",
) -> None:
    """Ask a language model for a paraphrase and a contrary sentence of every sentence of a file.

    The work may be ended at any moment, even by kill -9 or a full disk: the same command goes on, and asks for no
    answer twice that is in the files. The contrary sentence can serve as a hard negative.

    Args:
        input: .txt (a sentence a line), .csv, .tsv, .jsonl or .parquet, compressed or not; a hub data set.
        output: file to write, .parquet, with the columns sent0 (sentence), sent1 (paraphrase), hard_neg (contrary).
        base_url: address of any OpenAI-compatible server, for example http://localhost:8000/v1.
        model: the model's name at that server.
        column: name of the column with the sentences.
        concurrency: requests under way at a time.
        batch_size: answers that are written together; a kill loses fewer than these, and the requests under way.
        timeout: seconds that one try may take.
        retries: further tries after 429, 5xx, a timeout or a lost connection; pauses grow, or are as Retry-After says.
        attempts: how often to ask when an answer is not the JSON that was asked for.
        answer_format: json_schema, json_object or text: how the server is told to answer in JSON.
        fields: further fields of every request as JSON, such as {"temperature": 0.7}.
        seed: of the lengths and constructions that are asked for.
        min_ratio: least length of the paraphrase over that of the sentence, in characters.
        max_ratio: greatest such ratio.
        input_price: price of a million input tokens, to print the cost.
        output_price: price of a million output tokens.
        skip_failed: leave out sentences that get no answer, instead of leaving the work unfinished.
        key_variable: environment variable with the API key; the key is never written anywhere.

    Raises:
        InputError: for anything wrong with the files, the settings or the server.
    """
    check_name(model, "the model")
    for name, price in (("input_price", input_price), ("output_price", output_price)):
        if price is not None and not 0 <= price < math.inf:
            raise InputError(f"{name} {price}: expected 0 or more, the price of a million tokens")
    question = Question(model, answer_format, attempts, seed, fields or {})
    endpoint = Endpoint(base_url, question, timeout=timeout, retries=retries, key_variable=key_variable)
    check = PairFilter(min_ratio=min_ratio, max_ratio=max_ratio)
    check_output(output, [input])
    corpus, total = open_sentences(input, column)
    settings = {
        "command": "paraphrase",
        "input": corpus.fingerprint,
        **vars(question),
        "prompt": prompt_fingerprint(),
        **vars(check),
    }
    store = PartStore(output, settings, {"input": corpus.name, "base_url": endpoint.host, **versions("openai")})
    if store.record is None:
        work = Paraphrasing(store, endpoint, check, concurrency, batch_size)
        with store.claim("paraphrasing"):
            _work(corpus, total, work, endpoint, (input_price, output_price))
            if work.failed and skip_failed:
                work.give_up_on_failed()
            if work.failed:
                raise InputError(
                    f"{len(work.failed)} of {total} sentences got no answer ({work.reason}); the others are kept in "
                    f"{store.folder}: run the same command again to ask once more, or with --skip_failed true to leave "
                    "them out"
                )
            publish_triplets(store)
    assert store.record is not None
    usage = {
        name.replace("_", " "): f"{store.record[name]:,}" for name in ("requests", "input_tokens", "output_tokens")
    }
    spent = cost(store.record["input_tokens"], store.record["output_tokens"], input_price, output_price)
    print_verdicts(store, "paraphrases", usage | ({} if spent is None else {"cost": f"{spent:,.2f}"}))


def cost(input_tokens: int, output_tokens: int, input_price: float | None, output_price: float | None) -> float | None:
    """Of these tokens at prices per million; None without prices.

    Example:
        >>> cost(2_000_000, 500_000, 1.5, 8.0)
        7.0
    """
    if input_price is None and output_price is None:
        return None
    return (input_tokens * (input_price or 0.0) + output_tokens * (output_price or 0.0)) / 1e6


def _work(
    corpus: Corpus, total: int, work: Paraphrasing, endpoint: Endpoint, prices: tuple[float | None, float | None]
) -> None:
    print(f"{total} rows; {len(work.store)} of them were done before", file=sys.stderr)
    tokens = [0, 0]
    with progress_bar() as progress:
        task = progress.add_task("Asking", total=total, note="")

        def advance(rows: int, input_tokens: int, output_tokens: int) -> None:
            tokens[0] += input_tokens
            tokens[1] += output_tokens
            spent = cost(tokens[0], tokens[1], *prices)
            note = f"{tokens[0]:,} tokens in, {tokens[1]:,} out" + ("" if spent is None else f", cost {spent:,.2f}")
            note += f", {work.malformed} malformed" if work.malformed else ""
            progress.update(task, advance=rows, note=note)

        async def watch() -> None:
            done = -1.0
            while True:
                await asyncio.sleep(PATIENCE)
                if done == (done := progress.tasks[task].completed):
                    print(f"{endpoint.host}: no answer for {PATIENCE:g} seconds; {endpoint.patience}", file=sys.stderr)

        async def ask() -> None:
            async with endpoint:
                watcher = asyncio.create_task(watch())
                try:
                    await work.run(corpus.rows())
                finally:
                    watcher.cancel()

        work.advance = advance
        asyncio.run(ask())
