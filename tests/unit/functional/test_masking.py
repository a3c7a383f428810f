"""Choosing and corrupting tokens for masked language modelling."""

from __future__ import annotations

import pytest
import torch

from sentrep.functional.masking import choose_tokens, corrupt


def test_only_candidates_are_chosen_each_at_most_once_and_all_equally_often() -> None:
    torch.manual_seed(0)
    candidates = torch.rand(6, 9) < 0.5
    often = torch.zeros(54)
    for _ in range(2000):
        chosen = choose_tokens(candidates, 5)
        assert len(chosen.unique()) == 5
        often[chosen] += 1
    assert (often[~candidates.flatten()] == 0).all()
    expected = 2000 * 5 / int(candidates.sum())
    assert (often[candidates.flatten()] - expected).abs().max() < 5 * expected**0.5


def test_whole_words_are_chosen_whole() -> None:
    torch.manual_seed(0)
    starts = torch.tensor([[1, 1, 0, 0, 1, 0, 1, 1], [1, 0, 1, 0, 1, 0, 1, 1]]).bool()
    candidates = torch.ones(2, 8, dtype=torch.bool)
    candidates[:, [0, -1]] = False  # the frame
    word = starts.cumsum(1) + torch.tensor([[0], [10]])
    words = [(word == number) & candidates for number in word[candidates].unique()]
    for _ in range(200):
        chosen = torch.zeros(16, dtype=torch.bool)
        chosen[choose_tokens(candidates, 6, starts)] = True
        parts = [int((chosen.view(2, 8) & own).sum()) for own in words]
        cut = [part for part, own in zip(parts, words, strict=True) if 0 < part < int(own.sum())]
        assert len(cut) <= 1
        assert sum(parts) == 6


@pytest.mark.parametrize("frame", [0, 1])  # the frame is no candidate, and comes before the three words
def test_every_word_is_drawn_by_itself(frame: int) -> None:
    torch.manual_seed(0)
    starts = torch.tensor([[1] * frame + [1, 0, 1, 0, 1, 0]]).bool()
    candidates = torch.tensor([[0] * frame + [1] * 6]).bool()
    drawn = {tuple((choose_tokens(candidates, 2, starts) - frame).sort().values.tolist()) for _ in range(100)}
    assert drawn == {(0, 1), (2, 3), (4, 5)}


@pytest.mark.parametrize(("mask", "random"), [(0.8, 0.1), (1.0, 0.0), (0.0, 0.0), (0.0, 1.0)])
def test_shares_of_mask_random_and_unchanged(mask: float, random: float) -> None:
    torch.manual_seed(0)
    ids = torch.full((200, 100), 7)
    chosen = choose_tokens(torch.ones(200, 100, dtype=torch.bool), 10_000)
    corrupted = corrupt(ids, chosen, mask_token_id=3, vocab_size=100_000, mask=mask, random=random).flatten()
    untouched = torch.ones(20_000, dtype=torch.bool)
    untouched[chosen] = False
    assert (ids == 7).all()
    assert (corrupted[untouched] == 7).all()
    shares = torch.stack([corrupted[chosen] == 3, ~torch.isin(corrupted[chosen], torch.tensor([3, 7]))]).float().mean(1)
    torch.testing.assert_close(shares, torch.tensor([mask, random]), atol=0.015, rtol=0)
