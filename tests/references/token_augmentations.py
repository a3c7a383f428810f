"""What became of sentences of distinct tokens, told one token at a time."""

from __future__ import annotations

import itertools

from sentrep.types import TokenBatch


def texts(tokens: TokenBatch, frame: tuple[int, int] = (0, 0)) -> list[list[int]]:
    """The ids of each sentence without padding and frame; padding must be on the right."""
    found = []
    for ids, mask in zip(tokens.input_ids.tolist(), tokens.attention_mask.tolist(), strict=True):
        length = sum(mask)
        assert mask == [1] * length + [0] * (len(mask) - length)
        assert all(token == 0 for token in ids[length:])
        found.append(ids[frame[0] : length - frame[1]])
    return found


def repeated(before: list[int], after: list[int]) -> list[int]:
    """ESimCSE, §3: the tokens of ``before`` that stand twice, one behind the other, in ``after``; the rest once."""
    runs = [(token, len(list(run))) for token, run in itertools.groupby(after)]
    assert [token for token, _ in runs] == before
    assert {length for _, length in runs} <= {1, 2}
    return [token for token, length in runs if length == 2]


def missing(before: list[int], after: list[int]) -> list[int]:
    """The tokens of ``before`` that ``after`` lacks; the others must be in their order."""
    assert after == [token for token in before if token in after]
    return [token for token in before if token not in after]


def swapped(before: list[int], after: list[int]) -> list[int]:
    """The tokens that are not in their places, each in the place of the one that is in its own."""
    assert sorted(before) == sorted(after)
    for token in before:
        other = after[before.index(token)]
        assert after[before.index(other)] == token
    return [old for old, new in zip(before, after, strict=True) if old != new]
