"""What is trained on, and what is mixed afterwards: pairs, hard negatives, weights."""

from __future__ import annotations

import numpy as np
import torch

from adaptation.texts import documents
from sentrep.adaptation.interpolation import interpolate
from sentrep.adaptation.mining import mine_hard_negatives
from sentrep.adaptation.pairs import make_pairs
from support import tiny_encoder


def test_pairs_follow_the_structure() -> None:
    made = dict(enumerate(documents(30)))
    passages = [(n, part) for n, d in made.items() for part in (d.sentences[:3], d.sentences[3:])]
    pairs = make_pairs(made, passages)
    whole = [" ".join(sentences) for _, sentences in passages]
    titles = [pair for pair in pairs if pair.query == made[passages[pair.number][0]].title]
    nexts = [pair for pair in pairs if pair.query == whole[pair.number - 1]]
    rests = [pair for pair in pairs if pair not in titles and pair not in nexts]
    assert (len(titles), len(nexts), len(rests)) == (60, 30, 120)
    assert {pair.passage for pair in [*titles, *nexts]} <= set(whole)
    stays = [pair.query in pair.passage for pair in rests]
    assert 0.02 < np.mean(stays) < 0.25
    assert all(pair.query in whole[pair.number] for pair in rests)
    assert sum(whole[pair.number].endswith(pair.query) for pair in rests) == 60


def test_hard_negatives_are_near_and_never_of_the_querys_document() -> None:
    torch.manual_seed(0)
    passages = torch.nn.functional.normalize(torch.randn(200, 16), dim=1)
    owners = [n // 2 for n in range(200)]
    right = [3 * n for n in range(60)]
    queries = passages[right] + 0.3 * torch.randn(60, 16)
    found = mine_hard_negatives(queries, passages, right, owners)
    first, second = (torch.nn.functional.normalize(x - passages.mean(0), dim=1) for x in (queries, passages))
    cosine = first @ second.T
    for row, (answer, negative) in enumerate(zip(right, found, strict=True)):
        assert owners[answer] != owners[negative]
        assert cosine[row, negative] <= 0.95 * cosine[row, answer]
        nearer = (cosine[row] > cosine[row, negative]) & (cosine[row] <= 0.95 * cosine[row, answer])
        assert nearer.sum() <= 20  # and one of its own document
    assert found == mine_hard_negatives(queries, passages, right, owners)
    # a model whose cosines are all near 1 gives as many different ones
    assert len(set(mine_hard_negatives(queries + 30, passages + 30, right, owners))) > 30
    # where every other passage counts as an answer, one of another document is drawn all the same
    same = torch.ones(4, 3)
    assert mine_hard_negatives(same, same, [0, 1, 2, 3], [0, 0, 1, 1])[0] in (2, 3)


def test_weights_lie_between_the_ends() -> None:
    start, end = tiny_encoder(seed=1, pooling="mean"), tiny_encoder(seed=2, pooling="mean")
    for share, expected in ((0.0, start), (1.0, end)):
        mixed = interpolate(start, end, share)
        np.testing.assert_allclose(mixed.encode(["the house"]), expected.eval().encode(["the house"]), atol=1e-6)
    between = interpolate(start, end, 0.25).state_dict()
    for name, weight in between.items():
        first, second = start.state_dict()[name], end.state_dict()[name]
        torch.testing.assert_close(weight, 0.75 * first + 0.25 * second if weight.is_floating_point() else second)
