"""``sentrep backtranslate``: pairs of a sentence and its translation there and back."""

from __future__ import annotations

import math
from collections.abc import Mapping

from jsonargparse.typing import PositiveInt

from sentrep.errors import InputError
from sentrep.io.paths import check_target

ROWS = 1024
"""Rows of a shard, sorted by length among themselves; a kill loses one shard."""


def backtranslate(
    *,
    input: str,
    output: str,
    forward: str,
    backward: str,
    column: str | None = None,
    batch_size: PositiveInt = 64,
    beams: PositiveInt = 4,
    max_tokens: PositiveInt = 256,
    forward_prefix: str = "",
    backward_prefix: str = "",
    device: str | None = None,
    overwrite: bool = False,
) -> None:
    """Translate every sentence of a file into another language and back; write the pairs.

    The work may be ended at any moment, even by kill -9 or a full disk: the same command resumes after the finished
    shards of rows.

    For example: sentrep backtranslate --input corpus.txt --output pairs.parquet --forward Helsinki-NLP/opus-mt-en-zh
    --backward Helsinki-NLP/opus-mt-zh-en

    Args:
        input: .txt (a sentence a line), .csv, .tsv, .jsonl or .parquet, compressed or not; a hub data set.
        output: file to write, .parquet, with the columns sent0 (sentence) and sent1 (back-translation).
        forward: model into the other language: a folder or a hub id such as Helsinki-NLP/opus-mt-en-zh.
        backward: model back, such as Helsinki-NLP/opus-mt-zh-en.
        column: name of the column with the sentences.
        batch_size: sentences at a time.
        beams: width of the beam search; 1 is greedy.
        max_tokens: longer sentences are left out, as are those above the model's own limit.
        forward_prefix: text before every sentence that the model wants, such as >>cmn<<.
        backward_prefix: the same for the model back.
        device: cpu, cuda, cuda:1, ...; by default a GPU if the machine has one.
        overwrite: replace an output that is there already, or the beginning of other work.

    Raises:
        InputError: for anything wrong with the files, the models, the settings or the device.
    """
    from importlib.metadata import version

    import torch
    from rich.console import Console
    from rich.progress import track

    from sentrep.data.augmentation.backtranslation import back_translate, in_batches
    from sentrep.data.augmentation.finished_pairs import FinishedShards
    from sentrep.data.augmentation.translation import Translator
    from sentrep.data.files import PAIR, sentences_of
    from sentrep.data.text import open_text
    from sentrep.io.chunks import chunks_of

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    check_target(output, [input], overwrite=overwrite)
    if not output.endswith(".parquet"):
        raise InputError(f"cannot write {output}: the output file must end in .parquet")
    text = open_text(input, None if column is None else [column])
    rows = sum(1 for _ in text.rows)  # an unreadable line shows here, before hours of work
    if not rows:
        raise InputError(f"{text.name}: no sentences in it; nothing was written")
    there = Translator(forward, beams, max_tokens, device=device, prefix=forward_prefix)
    back = Translator(backward, beams, max_tokens, device=device, prefix=backward_prefix)
    models = {"forward": there.fingerprint, "backward": back.fingerprint, "prefixes": [forward_prefix, backward_prefix]}
    how = {"beams": beams, "max_tokens": max_tokens, "dtype": str(there.dtype).removeprefix("torch.")}
    shards = FinishedShards(output, {"text": text.fingerprint, **models, **how}, overwrite)
    parts = enumerate(chunks_of((sentences_of(row)[0] for row in text.rows), ROWS))
    for number, part in track(parts, "Translating", math.ceil(rows / ROWS), console=Console(stderr=True)):
        if number not in shards:
            shards.add(number, in_batches(part, batch_size, lambda batch: back_translate(batch, there, back)))
    versions = {package: version(package) for package in ("torch", "transformers")}
    notes = {"input": input, "forward": forward, "backward": backward, "batch_size": batch_size, **versions}
    _print_verdicts(shards.put_together(PAIR, notes), output)


def _print_verdicts(verdicts: Mapping[str, int], output: str) -> None:
    """How many rows were kept, and why the others were not."""
    import pandas as pd

    from sentrep.evaluation.table import show

    rows = sum(verdicts.values())
    counts = [[name, f"{count:,}", f"{count / rows:.1%}"] for name, count in verdicts.items()]
    frame = pd.DataFrame([*counts, ["all", f"{rows:,}", ""]], columns=["back-translations", "rows", "share"])
    show(frame, [f"{verdicts.get('kept', 0)} pairs: {output}"])
