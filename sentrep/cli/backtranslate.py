"""``sentrep backtranslate``: pairs of a sentence and its translation there and back."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from sentrep import checks
from sentrep.data.augmentation.model_options import Generation
from sentrep.errors import InputError
from sentrep.io.paths import check_target

ROWS = 1024
"""Rows of a part, sorted by length among themselves; a kill loses one part."""
GENERATION = Generation()


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
    overwrite: bool = False,
    generation: Generation = GENERATION,
) -> None:
    """Translate every sentence of a file into another language and back; write the pairs.

    For example: sentrep backtranslate --input corpus.txt --output pairs.parquet --forward Helsinki-NLP/opus-mt-en-zh
    --backward Helsinki-NLP/opus-mt-zh-en

    The work may be ended at any moment, even by kill -9 or a full disk: the same command goes on behind the
    finished parts. Several processes share it by --shard, or under torchrun or srun; the last one to finish writes the
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
        device: cpu, cuda, cuda:1, ...; by default a GPU if the machine has one; under torchrun, the GPU of the process.
        shard: I/N, this process's share of N, I from 0; by default torchrun's or srun's, or everything.
        overwrite: replace an output that is there already, or the beginning of other work.
        generation: how the models translate.

    Raises:
        InputError: for anything wrong with the files, the models, the settings or the device.
    """
    from importlib.metadata import version

    import torch

    from sentrep.cli.maps import map_parts
    from sentrep.cli.models import sentences_of
    from sentrep.data.augmentation.backtranslation import back_translate, in_batches
    from sentrep.data.augmentation.finished_pairs import record, save_rows, write_pairs
    from sentrep.data.augmentation.translation import Translator, settings_of
    from sentrep.data.parts import Parts, Text, parts_of
    from sentrep.data.shard import Shard, local_rank
    from sentrep.data.text.cells import PAIR
    from sentrep.data.text.corpus import open_corpus

    share = Shard.of(shard)
    checks.whole("backtranslate", 1, batch_size=batch_size)
    if device is None:
        device = f"cuda:{local_rank()}" if torch.cuda.is_available() else "cpu"
    check_target(output, [input])
    if not output.endswith(".parquet"):
        raise InputError(f"cannot write {output}: the output file must end in .parquet")
    corpus = open_corpus(input, None if column is None else [column])
    text = Text.of(sentences_of(corpus), corpus.name)
    folder = parts_of(output, overwrite)
    there = Translator(forward, generation, device=device, prefix=forward_prefix)
    back = Translator(backward, generation, device=device, prefix=backward_prefix)
    models = {"forward": there.fingerprint, "backward": back.fingerprint, "prefixes": [forward_prefix, backward_prefix]}
    settings = {"command": "backtranslate", **models, **settings_of(generation, device)}
    parts = Parts(folder, text, ROWS, ".parquet", save_rows, settings, overwrite)
    finish = functools.partial(back_translate, forward=there, backward=back)
    mapped = functools.partial(in_batches, size=batch_size, finish=finish)
    if not map_parts("Translating", parts, corpus.rows(), mapped, share):
        return
    notes = {"input": corpus.name, "forward": forward, "backward": backward, "batch_size": batch_size}
    about = record(parts, {**notes, **{package: version(package) for package in ("torch", "transformers")}})
    write_pairs(parts, output, PAIR, about)
    _print_verdicts(about["verdicts"], output)


def _print_verdicts(verdicts: Mapping[str, int], output: str) -> None:
    """How many rows were kept, and why the others were not."""
    import pandas as pd

    from sentrep.evaluation.table import show

    rows = sum(verdicts.values())
    counts = [[name, f"{count:,}", f"{count / rows:.1%}"] for name, count in verdicts.items()]
    frame = pd.DataFrame([*counts, ["all", f"{rows:,}", ""]], columns=["back-translations", "rows", "share"])
    show(frame, [f"{verdicts.get('kept', 0)} pairs: {output}"])
