"""The cosines of a sentence with its four nearest negatives in a batch, against the batch size (GS-InfoNCE, figure 1).

The mean over the sentences of a batch, then mean ± standard deviation over batches drawn from the text.

Run it: python negatives.py                                    # a small model without weights on the toy corpus
Of a model and a text of yours: python negatives.py MODEL wiki.txt
"""

import sys

import numpy as np
import torch

import sentrep
from sentrep.data import load
from sentrep.evaluation.plots import legend_below, new_figure, save_figure, styled
from sentrep.functional import cosine_similarity_matrix

RANKS = ("nearest", "2nd", "3rd", "4th")
BATCHES, SENTENCES, SEED = 100, 10_000, 0


def sampled(vectors: torch.Tensor, size: int) -> tuple[np.ndarray, np.ndarray]:
    """(4,) means and (4,) standard deviations over the batches."""
    draw = np.random.default_rng([SEED, size])
    batches = [vectors[draw.choice(len(vectors), size, replace=False)] for _ in range(BATCHES)]
    cosines = [cosine_similarity_matrix(batch, batch).fill_diagonal_(-2) for batch in batches]
    found = torch.stack([cosine.topk(len(RANKS)).values.mean(0) for cosine in cosines]).numpy()
    return found.mean(0), found.std(0, ddof=1)


if __name__ == "__main__":
    small = {
        "model_type": "bert", "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 2,
    }  # fmt: skip
    from_pretrained = sentrep.SentenceEncoder.from_pretrained
    model, text = sys.argv[1:] or (None, "toy")
    encoder = from_pretrained(model) if model else sentrep.SentenceEncoder(small, tokenizer="toy", pooling="mean")
    distinct = list(dict.fromkeys(row["anchor"] for row in load(text, streaming=True) if row["anchor"]))
    chosen = np.random.default_rng(SEED).permutation(len(distinct))[:SENTENCES]
    vectors = encoder.encode([distinct[row] for row in chosen], convert_to_tensor=True).cpu()
    sizes = [2**power for power in range(4, 11) if 2**power <= len(vectors)]
    found = {size: sampled(vectors, size) for size in sizes}
    with styled():
        figure = new_figure(2.4)
        axis = figure.add_subplot()
        for rank, (name, look) in enumerate(zip(RANKS, ("o-", "s--", "^-.", "D:"), strict=True)):
            means, deviations = ([found[size][part][rank] for size in sizes] for part in (0, 1))
            axis.errorbar(sizes, means, deviations, fmt=look, markersize=3.5, capsize=2, label=f"{name} negative")
        axis.set_xscale("log", base=2)
        axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axis.set_xlabel("batch size")
        axis.set_ylabel("cosine with the anchor")
        axis.set_title(f"mean ± sd of {BATCHES} batches", loc="left")
        legend_below(figure)
    for size in sizes:
        print(f"{size:>6,}", *(f"{mean:.3f} ± {sd:.3f}" for mean, sd in zip(*found[size], strict=True)))
    print(*save_figure(figure, "negatives"))
