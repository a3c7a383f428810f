"""Every token augmentation by itself: one contract for all, definitions in loops, what is equally likely."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from references.token_augmentations import missing, repeated, swapped, texts
from sentrep import TokenAugmentation, TokenBatch
from sentrep.views import (
    EncodedViews,
    GaussianNoise,
    TokenDeletion,
    TokenSwap,
    WordRepetition,
)
from support import plugged, text_batch, tiny_encoder, toy_sentences

KINDS: list[TokenAugmentation] = [WordRepetition(), WordRepetition(1.0), TokenDeletion(0.4), TokenSwap(0.9)]
FRAME = (2, 3)


def example(rows: int = 12, seed: int = 0, longest: int | None = None) -> TokenBatch:
    """Sentences of 1 to 12 own tokens, no two of a sentence the same, between two and three others."""
    own = torch.arange(rows) % 12 + 1
    length = own[:, None] + sum(FRAME)
    ids = torch.rand(rows, 17, generator=torch.Generator().manual_seed(seed)).argsort(1) + 100
    mask = (torch.arange(17) < length).long()
    return TokenBatch(ids * mask, mask, length.flatten().numpy(), torch.ones(rows, dtype=torch.long))


def apply(kind: TokenAugmentation, tokens: TokenBatch, seed: int = 0, longest: int | None = None) -> TokenBatch:
    kind = copy.deepcopy(kind)
    kind.frame, kind.longest = FRAME, longest
    torch.manual_seed(seed)
    return kind(tokens)


def name(kind: TokenAugmentation) -> str:
    return type(kind).__name__


@pytest.mark.parametrize("kind", KINDS, ids=name)
def test_only_a_sentence_s_own_tokens_are_changed(kind: TokenAugmentation) -> None:
    tokens = example()
    before = copy.deepcopy(tokens)
    after = apply(kind, tokens)
    assert torch.equal(tokens.input_ids, before.input_ids)
    assert torch.equal(tokens.attention_mask, before.attention_mask)
    assert after.input_ids.dtype == after.attention_mask.dtype == torch.long
    assert after.lengths is None or after.lengths.tolist() == after.attention_mask.sum(1).tolist()
    assert torch.equal(after.prompt, tokens.prompt)  # type: ignore[arg-type]
    whole = zip(texts(tokens), texts(after), strict=True)
    assert all(old[:2] == new[:2] and old[-3:] == new[-3:] for old, new in whole)
    assert texts(after, FRAME) != texts(tokens, FRAME)
    assert len(after.own(FRAME).any(1).unique()) == 1, "one token stays"


def test_a_short_sentence_may_grow_by_two_tokens() -> None:
    tokens = TokenBatch(torch.full((1, 4), 7), torch.ones(1, 4, dtype=torch.long))
    assert WordRepetition(0.3)(tokens).input_ids.shape == (1, 6)


@pytest.mark.parametrize("longest", [17, 20, 10])
@pytest.mark.parametrize("kind", KINDS, ids=name)
def test_no_sentence_grows_beyond_the_longest(kind: TokenAugmentation, longest: int) -> None:
    tokens = example()
    after = apply(kind, tokens, longest=longest)
    assert after.input_ids.shape[1] <= max(longest, 17)
    old, new = tokens.attention_mask.sum(1), after.attention_mask.sum(1)
    assert (new <= old.clamp_min(longest)).all()


@pytest.mark.parametrize("kind", [TokenDeletion(0.0), TokenSwap(0.0)], ids=name)
def test_strength_zero_changes_nothing(kind: TokenAugmentation) -> None:
    assert kind.is_identity
    assert texts(apply(kind, example())) == texts(example())


# definitions


def changes(kind: TokenAugmentation, told: Callable[[list[int], list[int]], list[int]]) -> list[list[list[int]]]:
    """For each length from 1 to 12, what was changed in each of 500 sentences, as places from 0."""
    tokens = example(6000)
    found: list[list[list[int]]] = [[] for _ in range(13)]
    for old, new in zip(texts(tokens, FRAME), texts(apply(kind, tokens), FRAME), strict=True):
        found[len(old)].append([old.index(token) for token in told(old, new)])
    return found


def assert_equally_often(found: list[list[int]], length: int) -> None:
    """Every place of a sentence; 4.5 standard deviations of Bernoulli draws."""
    times = torch.bincount(torch.tensor([*itertools.chain(*found)]).long(), minlength=length) / len(found)
    rate = float(times.mean())
    assert (times - rate).abs().max() <= 4.5 * math.sqrt(max(rate * (1 - rate), 1e-9) / len(found))


@pytest.mark.parametrize("rate", [0.32, 1.0])
def test_word_repetition_repeats_up_to_a_share_of_the_tokens(rate: float) -> None:
    for length, found in enumerate(changes(WordRepetition(rate), repeated)[1:], 1):
        most = max(2, int(rate * length))
        counts = torch.bincount(torch.tensor([len(one) for one in found]), minlength=length + 1)
        expected = torch.zeros(length + 1)
        for drawn in range(most + 1):
            expected[min(drawn, length)] += 1 / (most + 1)
        assert (counts / len(found) - expected).abs().max() < 4.5 * math.sqrt(0.25 / len(found))
        assert counts[expected == 0].sum() == 0
        assert_equally_often(found, length)


@pytest.mark.parametrize(("kind", "told"), [(TokenDeletion(0.4), missing), (TokenSwap(0.7), swapped)])
def test_a_share_of_the_tokens_is_left_out_or_swapped(kind: Any, told: Any) -> None:
    for length, found in enumerate(changes(kind, told)[1:], 1):
        count = math.floor(kind.rate * length) if told is missing else 2 * math.floor(kind.rate * length / 2)
        assert {len(one) for one in found} == {count}
        assert_equally_often(found, length)


# in the views

SENTENCES = toy_sentences(24)


@pytest.mark.parametrize("perturbs", ["positive", "both"])
def test_each_view_has_its_own_list(perturbs: Any) -> None:
    encoder = tiny_encoder(dropout=0.0, max_length=16)
    batch = text_batch(encoder, SENTENCES[:6], SENTENCES[6:12], SENTENCES[12:18])
    maker = plugged(EncodedViews([GaussianNoise(0.0), WordRepetition(1.0)], perturbs, [TokenSwap(0.9)]), encoder)
    torch.manual_seed(0)
    views = maker(encoder, batch, {"more": batch.anchor})
    read, frame = views.read, (1, 1)
    assert read is not None
    assert batch.positive is not None
    assert read.positive is not None
    assert read.negative is batch.negative
    long = zip(texts(batch.positive, frame), texts(read.positive, frame), strict=True)
    assert any(len(new) > len(old) for old, new in long)
    assert all(len(one) <= 16 for one in texts(read.positive))
    lengths = [list(map(len, texts(tokens))) for tokens in (batch.anchor, read.anchor)]
    assert (lengths[0] == lengths[1]) == (perturbs == "positive")
    assert texts(read.anchor) != texts(batch.anchor)
    for vectors, tokens in ((views.anchor, read.anchor), (views.positive, read.positive)):
        torch.testing.assert_close(vectors, encoder(tokens).embedding, rtol=1e-4, atol=1e-5)
