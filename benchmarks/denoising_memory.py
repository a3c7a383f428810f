"""Does the sentence vector carry the sentence? The denoising loss with each sentence's own vector and with another's.

    python benchmarks/denoising_memory.py RUN/checkpoints/last.ckpt --pairs wiki_rewrites.tsv --columns 0 1

Reads a checkpoint of a run with a `Denoising` objective, encodes pairs from the end of the file (give a file, or a
part of it, that was not trained on), and computes the loss twice from the same noise: with the vectors in order, and
with the vectors of the batch moved on by one sentence. A decoder that ignores its memory gives the same twice.
"""

from __future__ import annotations

import argparse
import dataclasses
from statistics import mean, stdev

import pandas as pd
import torch
from rich.console import Console

from sentrep import SentRepModule
from sentrep.data.text.corpus import open_corpus
from sentrep.encoder.encode import pad
from sentrep.objectives import Denoising
from sentrep.reports.frames import screen_table
from sentrep.types import TextBatch


def main() -> None:
    """Print both losses, their difference, and how sure it is."""
    options = _options()
    module = SentRepModule.load_from_checkpoint(options.checkpoint).eval()
    objective = next((term for term in module.objectives.terms.values() if isinstance(term, Denoising)), None)
    if objective is None:
        raise SystemExit(f"{options.checkpoint}: this run had no Denoising objective")
    columns = [int(name) if name.isdigit() else name for name in options.columns or []] or None
    corpus = open_corpus(options.pairs, columns)
    wanted = options.skip + options.batches * options.batch_size
    rows = [row.sentences for _, row in zip(range(wanted), corpus.rows(), strict=False)]
    losses = [
        _losses(module, objective, rows[options.skip + i * options.batch_size :][: options.batch_size], i)
        for i in range(options.batches)
    ]
    own, other = zip(*losses, strict=True)
    gaps = [b - a for a, b in losses]
    rows = {
        "the sentence's own": f"{mean(own):.4f}",
        "another's": f"{mean(other):.4f}",
        "difference": f"{mean(gaps):+.4f} ± {stdev(gaps) / len(gaps) ** 0.5:.4f}",
    }
    Console().print(screen_table(pd.DataFrame(rows.items(), columns=["memory", "loss, nats a token"])))


@torch.no_grad()
def _losses(
    module: SentRepModule, objective: Denoising, rows: list[tuple[str, ...]], number: int
) -> tuple[float, float]:
    """Loss of one batch with its own vectors and with those of the neighbours."""
    encoder = module.encoder

    def tokens(texts: list[str]):  # type: ignore[no-untyped-def]
        return pad(encoder.tokenize(texts, encoder.max_length)[0], encoder.tokenize.pad_token_id)

    first, second = ([row[k] for row in rows] for k in (0, -1))
    batch = TextBatch(tokens(first), tokens(second), None, torch.arange(len(rows)))
    views = module.views(encoder, batch, objective.extra_inputs(batch))
    values = []
    for memory in (views.anchor, views.anchor.roll(1, 0)):
        torch.manual_seed(number)  # the same noise on the decoder's input
        values.append(float(objective(dataclasses.replace(views, anchor=memory), batch)))
    return values[0], values[1]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("--pairs", required=True)
    parser.add_argument("--columns", nargs=2, help="names, or numbers from 0")
    parser.add_argument("--skip", type=int, default=0, help="rows to pass over, for example those trained on")
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=64)
    return parser.parse_args()


if __name__ == "__main__":
    main()
