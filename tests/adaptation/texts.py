"""Made-up documents with something to learn: each is about a few words of its own, between words that all share."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from sentrep.data import toy
from sentrep.data.text.documents import Document


def documents(count: int, sentences: int = 6, seed: int = 0) -> list[Document]:
    """Documents about five words each; a title has three, a sentence two and five of twenty that all use."""
    words = sorted({word for line in toy.sentences(2000) for word in line.rstrip(".").split() if word.isalpha()})
    rng = np.random.default_rng(seed)
    common, rare = np.split(rng.permutation(words), [20])

    def line(*parts: np.ndarray) -> str:
        return " ".join(rng.permutation(np.concatenate(parts))).capitalize()

    def made() -> Document:
        own = rng.choice(rare, 5, replace=False)
        said = [line(rng.choice(own, 2, replace=False), rng.choice(common, 5)) + "." for _ in range(sentences)]
        return Document(line(rng.choice(own, 3, replace=False)), tuple(said))

    return [made() for _ in range(count)]


def write_corpus(path: Path, made: list[Document]) -> Path:
    """As BEIR has it."""
    rows = (json.dumps({"_id": str(n), "title": d.title, "text": d.text}) for n, d in enumerate(made))
    path.write_text("".join(f"{row}\n" for row in rows))
    return path
