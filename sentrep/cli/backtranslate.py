"""``sentrep backtranslate``: pairs of a sentence and its translation there and back."""

from __future__ import annotations

import sys
from itertools import repeat

import torch

from sentrep.cli.augmentation import open_sentences, print_verdicts, progress_bar, versions
from sentrep.cli.functions import run_function
from sentrep.data.augmentation.backtranslation import PAIR, BackTranslation, batches_of
from sentrep.data.augmentation.filters import PairFilter
from sentrep.data.augmentation.parts import PartStore
from sentrep.data.augmentation.translation import Generation, Translator
from sentrep.data.text.corpus import Corpus, CorpusRow
from sentrep.data.text.shard import Shard, local_rank
from sentrep.errors import InputError
from sentrep.io.paths import check_name
from sentrep.reports.text import printable

GENERATION, FILTER = Generation(), PairFilter()


def run(command: str, words: list[str]) -> int:
    """Run the command."""
    run_function(backtranslate, command, words)
    return 0


def backtranslate(
    *,
    input: str,
    output: str,
    forward: str,
    backward: str,
    column: str | None = None,
    batch_size: int = 64,
    forward_prefix: str = "",
    backward_prefix: str = "",
    device: str | None = None,
    shard: str | None = None,
    generation: Generation = GENERATION,
    filter: PairFilter = FILTER,
) -> None:
    """Translate every sentence of a file into another language and back; write the pairs that are fit to train on.

    The work may be ended at any moment, even by kill -9 or a full disk: the same command goes on behind the last
    finished batch. Several processes share it by --shard, or under torchrun or srun; the last one to finish writes the
    output.

    Args:
        input: .txt (a sentence a line), .csv, .tsv, .jsonl or .parquet, compressed or not; a hub data set.
        output: file to write, .parquet, with the columns sent0 (sentence) and sent1 (back-translation).
        forward: model into the other language: a folder or a hub id such as Helsinki-NLP/opus-mt-en-zh.
        backward: model back, such as Helsinki-NLP/opus-mt-zh-en.
        column: name of the column with the sentences.
        batch_size: sentences at a time.
        forward_prefix: text before every sentence that the model wants, such as >>cmn<<.
        backward_prefix: the same for the model back.
        device: cpu, cuda, cuda:1, ...; by default a GPU where there is one, under torchrun the one of the process.
        shard: I/N, this process's share of N, I from 0; by default torchrun's or srun's, or everything.
        generation: how the models translate.
        filter: which back-translations are left out.

    Raises:
        InputError: for anything wrong with the files, the models, the settings or the device.
    """
    check_name(forward, "the model forward")
    check_name(backward, "the model backward")
    share = Shard.of(shard)
    if batch_size < 1:
        raise InputError(f"batch_size {batch_size}: expected at least 1")
    if device is None:
        device = f"cuda:{local_rank()}" if torch.cuda.is_available() else "cpu"
    corpus, total = open_sentences(input, column, output)
    there = Translator(forward, generation, device=device, prefix=forward_prefix)
    back = Translator(backward, generation, device=device, prefix=backward_prefix)
    settings = {
        "command": "backtranslate",
        "input": corpus.fingerprint,
        "forward": there.fingerprint,
        "backward": back.fingerprint,
        "prefixes": [forward_prefix, backward_prefix],
        **generation.settings(device),
        **vars(filter),
    }
    notes = {"input": corpus.name, "forward": forward, "backward": backward, "batch_size": batch_size}
    store = PartStore(output, PAIR, settings, {**notes, **versions("torch", "transformers")})
    if store.record is None:
        _work(corpus, total, store, BackTranslation(there, back, filter), batch_size, share)
    if store.record is not None:
        print_verdicts("back-translations", store.record["verdicts"], store.output, {})


def _work(
    corpus: Corpus, total: int, store: PartStore, back_translate: BackTranslation, batch_size: int, share: Shard
) -> None:
    rows = sum(map(len, batches_of(share, repeat(CorpusRow(0, ("",)), total), batch_size)))
    whose = f"{share} (by {share.origin}), " if share.count > 1 else ""
    print(f"{whose}{rows} of {total} rows; {len(store)} of all rows were done before", file=sys.stderr)
    with store.claim(str(share)), progress_bar(local_rank() == 0) as progress:
        task = progress.add_task("Translating", total=rows, note="")
        batches = batches_of(share, corpus.rows(), batch_size)
        store.map(batches, back_translate, lambda count: progress.advance(task, count))
    store.refresh()
    if len(store) == total:
        store.publish()
    else:
        print(
            f"{share} is done; {total - len(store)} of {total} rows are left to the other shards, and the last one "
            f"writes {printable(str(store.output))}",
            file=sys.stderr,
        )
