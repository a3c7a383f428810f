"""Small sets and encoders whose vectors are known, for the tests of the suites."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch


class TableEncoder:
    """Looks vectors up, and remembers what it was asked for, call by call."""

    device = torch.device("cpu")

    def __init__(self, vectors: Mapping[str, np.ndarray]) -> None:
        self.vectors = vectors
        self.calls: list[list[str]] = []

    def encode(self, texts: Sequence[str], **_: object) -> np.ndarray:
        self.calls.append(list(texts))
        return np.stack([self.vectors[text] for text in texts]).astype(np.float32)


def write_beir(
    folder: Path,
    documents: Mapping[str, str],
    queries: Mapping[str, str],
    judgements: Mapping[str, Mapping[str, int]],
    candidates: Mapping[str, Sequence[str]] | None = None,
) -> Path:
    """A folder in BEIR's layout, without titles."""
    (folder / "qrels").mkdir(parents=True)
    for name, texts in (("corpus", documents), ("queries", queries)):
        rows = [json.dumps({"_id": identity, "text": text}) + "\n" for identity, text in texts.items()]
        (folder / f"{name}.jsonl").write_text("".join(rows))
    rows = [f"{query}\t{d}\t{grade}\n" for query, grades in judgements.items() for d, grade in grades.items()]
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(rows))
    if candidates is not None:
        (folder / "top_ranked").mkdir()
        rows = [json.dumps({"query-id": q, "corpus-ids": list(ids)}) + "\n" for q, ids in candidates.items()]
        (folder / "top_ranked" / "test.jsonl").write_text("".join(rows))
    return folder
