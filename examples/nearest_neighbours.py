"""Nearest neighbours by faiss and usearch: as indexes of `search`, and as indexes of their own that stay on the disk.

Needs them: pip install 'sentrep[index]'. Run it: python nearest_neighbours.py
With a real model put SentenceEncoder.from_pretrained(NAME) and your texts in the place of the toy's.
"""

import faiss
import numpy as np
from usearch.index import Index

import sentrep
from sentrep.data import toy

TEXTS = toy.sentences(2000)
QUESTIONS = ["The chef prepared the soup in the kitchen.", "Did the doctor examine the patient?"]

if __name__ == "__main__":
    small = {"model_type": "bert", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    encoder = sentrep.SentenceEncoder(small, pooling="mean", tokenizer="toy").eval()
    vectors = encoder.encode_document(TEXTS)  # once; keep them: np.save("vectors.npy", vectors)

    # for one evening: nothing is kept
    exact = encoder.search(QUESTIONS, vectors, k=5)
    for name in ("faiss", "usearch"):
        found = encoder.search(QUESTIONS, vectors, k=5, index=name)
        shared = np.mean([np.isin(*both).mean() for both in zip(found.indices, exact.indices, strict=True)])
        print(f"{name} finds {shared:.0%} of the nearest")  # usearch is approximate

    # for good: the package's own index in a file, and the inner product of unit vectors is their cosine
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    asked = encoder.encode_query(QUESTIONS, normalize_embeddings=True)

    index = faiss.IndexHNSWFlat(units.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
    index.add(units)
    faiss.write_index(index, "texts.faiss")
    scores, places = faiss.read_index("texts.faiss").search(asked, 3)

    index = Index(ndim=units.shape[1], metric="cos", dtype="f32")
    index.add(np.arange(len(units)), units)
    index.save("texts.usearch")
    other = Index.restore("texts.usearch", view=True).search(asked, 3)  # view: read from the disk, not into memory

    for question, near, cosines, same in zip(QUESTIONS, places, scores, other.keys, strict=True):
        print(f"\n{question}  (usearch agrees: {list(near) == list(same)})")
        for place, score in zip(near, cosines, strict=True):
            print(f"  {score:.3f}  {TEXTS[place]}")
