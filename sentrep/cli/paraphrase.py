"""``sentrep paraphrase``: a paraphrase and a contrary sentence for every sentence, from a language model."""

from __future__ import annotations

import asyncio
import math
import sys
from collections import Counter
from dataclasses import dataclass

from sentrep.cli.augmentation import open_sentences, print_verdicts, progress_bar, versions
from sentrep.cli.functions import run_function
from sentrep.data.augmentation.endpoint import Endpoint, Request, Server
from sentrep.data.augmentation.filters import PairFilter
from sentrep.data.augmentation.paraphrasing import COUNTS, MALFORMED, TRIPLET, Paraphrasing
from sentrep.data.augmentation.parts import VERDICT, Finished, PartStore
from sentrep.data.augmentation.prompt import prompt_fingerprint
from sentrep.data.text.corpus import Corpus
from sentrep.errors import InputError
from sentrep.io.paths import check_name

PATIENCE = 10.0
"""Seconds without an answer after which that is said."""


@dataclass(frozen=True)
class Price:
    """Of a million tokens; without one there is no cost to print.

    Examples:
        >>> Price(1.5, 8.0).cost(2_000_000, 500_000), Price().cost(1, 1)
        ('7.00', '')

    Raises:
        InputError: a price is no number, or below 0.
    """

    input: float | None = None
    """of a million input tokens, to print the cost."""
    output: float | None = None
    """of a million output tokens."""

    def __post_init__(self) -> None:
        for name, price in vars(self).items():
            if price is not None and not 0 <= price < math.inf:
                raise InputError(f"price.{name} {price}: expected 0 or more, the price of a million tokens")

    def cost(self, input_tokens: int, output_tokens: int) -> str:
        """Of so many tokens; empty without prices."""
        if self.input is None and self.output is None:
            return ""
        return f"{(input_tokens * (self.input or 0.0) + output_tokens * (self.output or 0.0)) / 1e6:,.2f}"


REQUEST, FILTER, SERVER, PRICE = Request(), PairFilter(min_ratio=0.2, max_ratio=5.0), Server(), Price()


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
    skip_failed: bool = False,
    request: Request = REQUEST,
    filter: PairFilter = FILTER,
    server: Server = SERVER,
    price: Price = PRICE,
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
        skip_failed: leave out sentences that get no answer, instead of leaving the work unfinished.
        request: what is asked for.
        filter: which paraphrases are left out.
        server: how to treat the server.
        price: of a million tokens.

    Raises:
        InputError: for anything wrong with the files, the settings or the server.
    """
    check_name(model, "the model")
    endpoint = Endpoint(base_url, model, request, server)
    corpus, total = open_sentences(input, column, output)
    settings = {
        "command": "paraphrase",
        "input": corpus.fingerprint,
        "model": model,
        **vars(request),
        "prompt": prompt_fingerprint(),
        **vars(filter),
    }
    notes = {"input": corpus.name, "base_url": endpoint.host, **versions("openai")}
    store = PartStore(output, TRIPLET, settings, notes, COUNTS)
    if store.record is None:
        work = Paraphrasing(store, endpoint, filter, concurrency, batch_size)
        with store.claim("paraphrasing"):
            _work(corpus, total, work, endpoint, price)
            if work.failed and skip_failed:
                work.give_up_on_failed()
            if work.failed:
                raise InputError(
                    f"{len(work.failed)} of {total} sentences got no answer ({work.reason}); the others are kept in "
                    f"{store.folder}: run the same command again to ask once more, or with --skip_failed true to leave "
                    "them out"
                )
            store.publish()
    assert store.record is not None
    usage = {name.replace("_", " "): f"{store.record[name]:,}" for name in COUNTS}
    if cost := price.cost(store.record["input_tokens"], store.record["output_tokens"]):
        usage["cost"] = cost
    print_verdicts(store, "paraphrases", usage)


def _work(corpus: Corpus, total: int, work: Paraphrasing, endpoint: Endpoint, price: Price) -> None:
    print(f"{total} rows; {len(work.store)} of them were done before", file=sys.stderr)
    counts: Counter[str] = Counter()
    with progress_bar() as progress:
        task = progress.add_task("Asking", total=total, note="")

        def advance(finished: Finished | None) -> None:
            if finished:
                counts.update({name: finished[name] for name in COUNTS}, malformed=finished[VERDICT] == MALFORMED)
            read, written, malformed = counts["input_tokens"], counts["output_tokens"], counts["malformed"]
            note = f"{read:,} tokens in, {written:,} out"
            note += f", cost {cost}" if (cost := price.cost(read, written)) else ""
            progress.update(task, advance=1, note=note + (f", {malformed} malformed" if malformed else ""))

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
