"""``sentrep paraphrase``: a paraphrase and a contrary sentence for every sentence, from a language model."""

from __future__ import annotations

from sentrep.cli.augmentation import Price, ask_all, open_sentences, print_verdicts, usage, versions
from sentrep.cli.functions import run_function
from sentrep.data.augmentation.asking import COUNTS, Asking
from sentrep.data.augmentation.endpoint import Endpoint, Request, Server
from sentrep.data.augmentation.filters import PairFilter
from sentrep.data.augmentation.paraphrasing import TRIPLET, Contrast
from sentrep.data.augmentation.parts import PartStore
from sentrep.data.augmentation.prompt import REWRITINGS
from sentrep.io.paths import check_name

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
        "prompt": REWRITINGS.fingerprint,
        **vars(filter),
    }
    notes = {"input": corpus.name, "base_url": endpoint.host, **versions("openai")}
    store = PartStore(output, TRIPLET, settings, notes, COUNTS)
    if store.record is None:
        work = Asking(store, endpoint, TRIPLET, Contrast(filter), concurrency, batch_size)
        ask_all(corpus, total, work, endpoint, price, skip_failed)
    assert store.record is not None
    print_verdicts("paraphrases", store.record["verdicts"], store.output, usage(store.record, price))
