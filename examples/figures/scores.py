"""Cosines of sentence pairs against people's scores, with Spearman's correlation.

Run it: python scores.py                                # a small model without weights on the toy pairs
Of a model and a set of yours: python scores.py MODEL stsb-dev, or MODEL pairs.csv
"""

import sys

import sentrep
from sentrep.data import load_sts
from sentrep.evaluation.plots import new_figure, save_figure, styled
from sentrep.functional import spearman

if __name__ == "__main__":
    small = {
        "model_type": "bert", "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 2,
    }  # fmt: skip
    load = sentrep.SentenceEncoder.from_pretrained
    model, name = sys.argv[1:] or (None, "toy-dev")
    encoder = load(model) if model else sentrep.SentenceEncoder(small, tokenizer="toy", pooling="mean")
    pairs = load_sts(name)
    cosines = encoder.similarity_pairwise(encoder.encode(pairs.first), encoder.encode(pairs.second))
    with styled():
        figure = new_figure(2.5)
        axis = figure.add_subplot()
        if len(pairs) <= 1000:
            axis.scatter(pairs.scores, cosines, s=6, alpha=0.4, linewidths=0)
        else:
            counts = axis.hexbin(pairs.scores, cosines, gridsize=(24, 14), cmap="cividis_r", mincnt=1, linewidths=0.2)
            figure.colorbar(counts, ax=axis, label="pairs", pad=0.02)
        axis.set_title(f"{pairs.name}: Spearman × 100 = {spearman(cosines, pairs.scores):.1f}", loc="left")
        axis.set_xlabel("gold score")
        axis.set_ylabel("cosine")
    print(*save_figure(figure, "scores"))
