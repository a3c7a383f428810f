"""Labelled texts in two dimensions: principal components, or t-SNE (then read neighbourhoods only).

Run it: python projection.py                            # a small model without weights on the toy corpus, by length
Of a model and a table of yours with the columns text and label: python projection.py MODEL banking.csv
"""

import sys
from collections import Counter

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

import sentrep
from sentrep.data import toy
from sentrep.evaluation.plots import legend_below, new_figure, save_figure, styled

METHOD, MOST, NAMED = "pca", 2000, 7  # labels that have a colour each; the others share grey


def toy_texts() -> pd.DataFrame:
    texts = toy.sentences()
    return pd.DataFrame({"text": texts, "label": ["short" if len(text) < 40 else "long" for text in texts]})


if __name__ == "__main__":
    small = {
        "model_type": "bert", "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 2,
    }  # fmt: skip
    load = sentrep.SentenceEncoder.from_pretrained
    model, table = sys.argv[1:] or (None, None)
    encoder = load(model) if model else sentrep.SentenceEncoder(small, tokenizer="toy", pooling="mean")
    found = (pd.read_csv(table, dtype=str) if table else toy_texts())[:MOST]
    vectors = encoder.encode(
        found["text"].tolist(), normalize_embeddings=True
    )  # the cosine is what they are compared by
    points = (PCA(2) if METHOD == "pca" else TSNE(2, random_state=0)).fit_transform(vectors)
    labels = found["label"].to_numpy()
    named = [label for label, _ in Counter(labels.tolist()).most_common(NAMED)]
    with styled():
        figure = new_figure(3.1)
        axis = figure.add_subplot()
        axis.scatter(*points[~np.isin(labels, named)].T, s=3, linewidths=0, alpha=0.3, color="0.6")
        for number, label in enumerate(sorted(named)):
            x, y = points[labels == label].T
            axis.scatter(x, y, s=6, linewidths=0, alpha=0.75, color=f"C{number}", marker="os^DvPX"[number], label=label)
        axis.set_xticks([])  # the places themselves mean nothing
        axis.set_yticks([])
        axis.set_aspect("equal", adjustable="datalim")
        legend_below(figure)
    print(*save_figure(figure, "projection"))
