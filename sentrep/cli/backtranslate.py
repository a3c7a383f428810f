"""``sentrep backtranslate``: pairs of a sentence and its translation there and back."""

from __future__ import annotations

import sys

import torch

from sentrep.cli.augmentation import open_sentences, print_verdicts, progress_bar, versions
from sentrep.cli.functions import run_function
from sentrep.data.augmentation.backtranslation import (
    BackTranslation,
    publish_pairs,
    rows_of,
    translate_corpus,
)
from sentrep.data.augmentation.filters import PairFilter
from sentrep.data.augmentation.parts import PartStore, check_output
from sentrep.data.augmentation.translation import Decoding, Translator
from sentrep.data.text.corpus import Corpus
from sentrep.data.text.shard import Shard, local_rank
from sentrep.errors import InputError, did_you_mean
from sentrep.io.harmless import printable
from sentrep.io.paths import check_name

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


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
    beams: int = 4,
    sample: bool = False,
    temperature: float = 1.0,
    top_p: float = 1.0,
    seed: int = 0,
    max_tokens: int = 256,
    keep_identical: bool = False,
    check_script: bool = True,
    min_ratio: float = 0.5,
    max_ratio: float = 2.0,
    forward_prefix: str = "",
    backward_prefix: str = "",
    device: str | None = None,
    dtype: str = "auto",
    shard: str | None = None,
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
        beams: width of the beam search; 1 is greedy.
        sample: draw the translations instead of searching for the best.
        temperature: of the sampling.
        top_p: of the sampling; 1 draws from the whole distribution.
        seed: of the sampling.
        max_tokens: longer sentences are left out.
        keep_identical: keep pairs that differ in case, spacing and punctuation only.
        check_script: leave out back-translations with letters of scripts that the sentence does not use.
        min_ratio: least length of the back-translation over that of the sentence, in characters.
        max_ratio: greatest such ratio.
        forward_prefix: text before every sentence that the model wants, such as >>cmn<<.
        backward_prefix: the same for the model back.
        device: cpu, cuda, cuda:1, ...; by default a GPU where there is one, under torchrun the one of the process.
        dtype: float32, bfloat16, float16, or auto: bfloat16 on a GPU that has it, float32 elsewhere.
        shard: I/N, this process's share of N, I from 0; by default torchrun's or srun's, or everything.

    Raises:
        InputError: for anything wrong with the files, the models, the settings or the device.
    """
    check_name(forward, "the model forward")
    check_name(backward, "the model backward")
    part = Shard.of(shard)
    decoding = Decoding(beams, sample, temperature, top_p, seed)
    check = PairFilter(not keep_identical, check_script, min_ratio, max_ratio)
    place, number = choose_device(device, dtype)
    if batch_size < 1 or max_tokens < 1:
        raise InputError(f"batch_size {batch_size}, max_tokens {max_tokens}: expected at least 1")
    check_output(output, [input])
    corpus, total = open_sentences(input, column)
    there, back = (
        Translator(model, device=place, dtype=number, decoding=decoding, max_tokens=max_tokens, prefix=prefix)
        for model, prefix in ((forward, forward_prefix), (backward, backward_prefix))
    )
    settings = {
        "command": "backtranslate",
        "input": corpus.fingerprint,
        "forward": there.fingerprint,
        "backward": back.fingerprint,
        "prefixes": [forward_prefix, backward_prefix],
        **({"sample": True, "temperature": temperature, "top_p": top_p, "seed": seed} if sample else {"beams": beams}),
        "max_tokens": max_tokens,
        "dtype": str(number).removeprefix("torch."),
        **vars(check),
    }
    notes = {"input": corpus.name, "forward": forward, "backward": backward, "batch_size": batch_size}
    notes |= versions("torch", "transformers")
    store = PartStore(output, settings, notes)
    if store.record is None:
        _work(corpus, total, store, BackTranslation(there, back, check), batch_size, part)
    if store.record is not None:
        print_verdicts(store, "back-translations")


def choose_device(device: str | None, dtype: str) -> tuple[str, torch.dtype]:
    """Where to compute and in which numbers; see `backtranslate`.

    Raises:
        InputError: for an unknown type of numbers.
    """
    if device is None:
        device = f"cuda:{local_rank()}" if torch.cuda.is_available() else "cpu"
    if dtype == "auto":
        return device, torch.bfloat16 if device.startswith("cuda") and torch.cuda.is_bf16_supported() else torch.float32
    if dtype not in DTYPES:
        raise InputError(f"dtype {dtype!r}: expected auto, {', '.join(DTYPES)}{did_you_mean(dtype, DTYPES)}")
    return device, DTYPES[dtype]


def _work(
    corpus: Corpus, total: int, store: PartStore, back_translate: BackTranslation, batch_size: int, part: Shard
) -> None:
    rows = rows_of(part, total, batch_size)
    share = f"{part} (by {part.origin}), " if part.count > 1 else ""
    print(f"{share}{rows} of {total} rows; {len(store)} of all rows were done before", file=sys.stderr)
    with store.claim(str(part)), progress_bar(local_rank() == 0) as progress:
        task = progress.add_task("Translating", total=rows, note="")
        translate_corpus(
            corpus.rows(), store, back_translate, batch_size, part, lambda count: progress.advance(task, count)
        )
    store.refresh()
    if len(store) == total:
        publish_pairs(store)
    else:
        print(
            f"{part} is done; {total - len(store)} of {total} rows are left to the other shards, and the last one "
            f"writes {printable(str(store.output))}",
            file=sys.stderr,
        )
