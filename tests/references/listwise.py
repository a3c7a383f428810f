"""Learning to rank as RankCSE uses it, the angular margin and the triplets of ArcCSE, one pair at a time."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from references.info_nce import cosine


def softmax(values: list[Tensor]) -> list[Tensor]:
    exponentials = [torch.exp(value) for value in values]
    return [e / sum(exponentials[1:], exponentials[0]) for e in exponentials]


def similarities(rows: Tensor, keys: Tensor, own: bool) -> list[list[Tensor]]:
    return [[cosine(rows[i], keys[j]) for j in range(len(keys)) if own or j != i] for i in range(len(rows))]


def distillation_loop(
    kind: str, student: list[list[Tensor]], teacher: list[list[Tensor]], t: float, tt: float
) -> Tensor:
    losses = []
    for s, wanted in zip(student, teacher, strict=True):
        if kind == "listnet":
            p, q = softmax([x / t for x in s]), softmax([x / tt for x in wanted])
            losses.append(sum(b * torch.log(b / a) for a, b in zip(p, q, strict=True)))
        else:
            order = sorted(range(len(s)), key=lambda j: -float(wanted[j]))
            total = torch.zeros_like(s[0])
            for place, j in enumerate(order):
                rest = [torch.exp(s[k] / t) for k in order[place:]]
                total = total - torch.log(torch.exp(s[j] / t) / sum(rest[1:], rest[0]))
            losses.append(total)
    return torch.stack([torch.as_tensor(x) for x in losses]).mean()


def consistency_loop(anchors: Tensor, positives: Tensor, t: float, own: bool) -> Tensor:
    """½ Σ P log 2P/(P+Q) + Q log 2Q/(P+Q), the mean over the sentences."""
    losses = []
    lists = zip(similarities(anchors, positives, own), similarities(positives, anchors, own), strict=True)
    for one, other in lists:
        p, q = softmax([x / t for x in one]), softmax([x / t for x in other])
        terms = [a * torch.log(2 * a / (a + b)) + b * torch.log(2 * b / (a + b)) for a, b in zip(p, q, strict=True)]
        losses.append(sum(terms[1:], terms[0]) / 2)
    return torch.stack(losses).mean()


def arc_con_loop(anchors: Tensor, positives: Tensor, t: float, degrees: float) -> Tensor:
    losses = []
    for i in range(len(anchors)):
        own = torch.exp(torch.cos(torch.acos(cosine(anchors[i], positives[i])) + math.radians(degrees)) / t)
        others = [torch.exp(cosine(anchors[i], positives[j]) / t) for j in range(len(anchors)) if j != i]
        losses.append(-torch.log(own / sum(others, own)))
    return torch.stack(losses).mean()


def triplet_loop(whole: Tensor, less: Tensor, more: Tensor, margin: float) -> Tensor:
    losses = []
    for h, near, far in zip(whole, less, more, strict=True):
        value = cosine(h, far) - cosine(h, near) + margin
        losses.append(value if float(value.detach()) > 0 else 0 * value)
    return torch.stack(losses).mean()
