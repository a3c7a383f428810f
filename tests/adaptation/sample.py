"""Adaptations to report: one of made-up numbers and, as a script, one of real text, to look at the page.

    python tests/adaptation/sample.py CORPUS.jsonl MODEL FOLDER

trains a linear map of the model's vectors on titles and texts: in a minute, something to show of every part.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sentrep.adaptation.neighbours import aligned_maps, changed_neighbours
from sentrep.adaptation.outcome import Adaptation, Estimate, Neighbours, TaskOutcome
from sentrep.adaptation.report import write_report

NOTHING: dict[str, Any] = {
    **{"tasks": (), "curve": (), "interpolation": (), "lexical": (), "neighbours": (), "map_texts": ()},
    **{"seconds": {}, "settings": {}},
    **{"map_before": np.zeros((0, 2)), "map_after": np.zeros((0, 2)), "folder": None},
}
"""An adaptation without any of its optional parts."""


def made_up(text: str = "a text", **changes: Any) -> Adaptation:
    """Every part is there; ``text`` stands wherever a text can."""
    task = TaskOutcome(text, 500, 5000, 0.31, 71.25, *(Estimate(v, v - 1, v + 1) for v in (80.0, 82.5, 2.5)))
    worse = TaskOutcome("sentence to rest", 400, 5000, 0.2, None, *(Estimate(v, v - 1, v + 1) for v in (70, 60, -10)))
    points = np.random.default_rng(0).normal(size=(40, 2))
    parts: dict[str, Any] = {
        "verdict": "better",
        "sentence": f"Better: {text}",
        "backbone": text,
        "text": text,
        "folder": text,
        "documents": 1234,
        "passages": 5678,
        "pairs": 999,
        "tasks": (task, worse),
        "curve": tuple(
            {"step": step, "minutes": step / 60, "proxy": 75 + step / 50, f"proxy/{text}": 80.0, "proxy/b": 70.0}
            for step in (0, 50, 100)
        ),
        "interpolation": ((0.0, 75.0), (0.5, 77.5), (1.0, 77.0)),
        "lexical": ((0.0, 77.5), (0.1, 78.25)),
        "neighbours": tuple(
            Neighbours(f"{text} {n}", ("old one", text, "c"), (text, "new one", "c")) for n in range(3)
        ),
        "map_before": points,
        "map_after": points[:, ::-1] / 2,
        "map_texts": tuple(f"{text} {number}" for number in range(40)),
        "seconds": {"reading": 2.5, text: 75.0},
        "settings": {"objective": text, text: "x"},
    }
    return Adaptation(**parts | changes)


def estimate(values: np.ndarray) -> Estimate:
    """The mean × 100 with a bootstrap interval over the queries."""
    draws = np.random.default_rng(0).integers(0, len(values), (1000, len(values)))
    low, high = np.percentile(100 * values[draws].mean(1), [2.5, 97.5])
    return Estimate(100 * float(values.mean()), float(low), float(high))


def of_real_text(corpus: Path, model: str, most: int = 600) -> Adaptation:
    """Titles find their texts: half of the documents train a linear map, the other half say what it is worth."""
    from sentrep import SentenceEncoder

    rows = [json.loads(line) for line in corpus.read_text(encoding="utf-8").splitlines()[:most]]
    titles, texts = [row["title"] for row in rows], [row["text"] for row in rows]
    started = time.perf_counter()
    encoder = SentenceEncoder.from_pretrained(model)
    queries, documents = (torch.from_numpy(encoder.encode(side, normalize_embeddings=True)) for side in (titles, texts))
    encoded = time.perf_counter()
    held = torch.arange(len(rows)) % 2 == 0

    def unit(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.normalize(x, dim=-1)

    def reciprocal_ranks(weight: torch.Tensor, asked: torch.Tensor) -> np.ndarray:
        cosines = unit(asked[held] @ weight) @ unit(documents @ weight).T
        own = cosines.gather(1, held.nonzero())
        return (1 / (cosines > own).sum(1).add(1)).numpy()

    start = torch.eye(queries.shape[1])
    weight = start.clone().requires_grad_()
    optimizer = torch.optim.Adam([weight], 5e-5)
    words = torch.from_numpy(encoder.encode([text[-200:] for text in texts], normalize_embeddings=True))
    tasks = {"title to text": queries, "end to text": words}
    curve = []
    for step in range(201):
        if step % 25 == 0:
            scores = {f"proxy/{n}": 100 * reciprocal_ranks(weight.detach(), q).mean() for n, q in tasks.items()}
            minutes = (time.perf_counter() - encoded) / 60
            curve.append({"step": step, "minutes": minutes, "proxy": np.mean(list(scores.values())), **scores})
        loss = torch.nn.functional.cross_entropy(
            20 * unit(queries[~held] @ weight) @ unit(documents[~held] @ weight).T, torch.arange(int((~held).sum()))
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    trained = weight.detach()
    mixes = {share: start + share * (trained - start) for share in np.linspace(0, 1, 6).round(1).tolist()}
    proxies = {s: np.mean([100 * reciprocal_ranks(w, q).mean() for q in tasks.values()]) for s, w in mixes.items()}
    best = mixes[max(proxies, key=proxies.__getitem__)]
    outcomes = []
    for name, asked in tasks.items():
        before, after = reciprocal_ranks(start, asked), reciprocal_ranks(best, asked)
        scores = (estimate(before), estimate(after), estimate(after - before))
        outcomes.append(TaskOutcome(name, len(before), len(rows), 0.5, None, *scores))
    after = unit(documents @ best).numpy()
    first, second, shown = aligned_maps(texts, documents.numpy(), after)
    return Adaptation(
        "better" if outcomes[0].difference.low > 0 else "cannot be told",
        f"{outcomes[0].difference.value:+.1f} points (95 % interval {outcomes[0].difference.low:+.1f} to "
        f"{outcomes[0].difference.high:+.1f}) at finding a text by its title; no labels were used.",
        model, str(corpus), "adapted/model", len(rows), len(rows), int((~held).sum()), tuple(outcomes), tuple(curve),
        tuple(proxies.items()), changed_neighbours(texts, documents.numpy(), after), first, second, shown,
        {"encoding": encoded - started, "training": 60 * curve[-1]["minutes"]},
        {"trained": "a linear map of the vectors", "pairs": "title and text of every second document",
         "objective": "InfoNCE, temperature 0.05, all texts of the batch as negatives", "optimiser": "Adam, 5e-5"},
    )  # fmt: skip


if __name__ == "__main__":
    print(write_report(of_real_text(Path(sys.argv[1]), sys.argv[2]), sys.argv[3]))
