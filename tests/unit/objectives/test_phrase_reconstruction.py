"""PaSeR against loops: which phrase, its loss and every gradient."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from references import phrases
from sentrep import InputError, ProjectionHead, SentRepModule, distributed
from sentrep.functional.phrases import find_phrases
from sentrep.objectives import PhraseReconstruction
from sentrep.types import TextBatch, TokenBatch
from sentrep.views import EncodedViews, TokenSwap
from support import assert_same_gradients, plugged, text_batch, tiny_encoder, toy_sentences


@pytest.mark.parametrize("share", [0.05, 0.3, 0.9])
def test_the_rarest_run_of_tokens_is_the_phrase(share: float) -> None:
    generator = torch.Generator().manual_seed(3)
    lengths = [7, 1, 12, 5, 0, 12]
    sentences = [torch.randint(0, 9, (length,), generator=generator).tolist() for length in lengths]
    ids, own = torch.full((6, 14), 9), torch.zeros(6, 14, dtype=torch.bool)
    for row, sentence in enumerate(sentences):
        ids[row, 1 : 1 + len(sentence)] = torch.tensor(sentence, dtype=torch.int64)
        own[row, 1 : 1 + len(sentence)] = True
    first, length = find_phrases(ids, own, share, vocab_size=10)
    for row, sentence in enumerate(sentences):
        rarest, size = phrases.phrases(sentence, sentences, share)
        assert length[row] == size
        assert size == 0 or first[row] - 1 in rarest


def test_a_phrase_lies_within_the_own_tokens() -> None:
    """Where its last token is in every sentence, the run one place earlier has the same sum."""
    ids = torch.tensor([[9, 1, 0, 0, 0, 9], [9, 2, 0, 0, 0, 9], [9, 0, 0, 0, 3, 9]])
    first, length = find_phrases(ids, (ids < 9), 0.5, vocab_size=10)
    assert first.tolist() == [1, 1, 3]
    assert length.tolist() == [2, 2, 2]


@pytest.mark.parametrize("width", [None, 24])
def test_value_and_gradients_are_those_of_the_loops(width: int | None) -> None:
    encoder = tiny_encoder(dropout=0.0)
    if width:
        encoder.attach_head(ProjectionHead("linear", out_features=width))
    objective = PhraseReconstruction(share=0.4, layers=2, heads=2, dropout=0.0, product=0.7, difference=1.3)
    plugged(objective, encoder, 1)
    encoder.double(), objective.double()
    batch = text_batch(encoder, toy_sentences(5))
    views = EncodedViews()(encoder, batch, objective.extra_inputs(batch))
    found = objective(views, batch)
    (before, after), tokens = objective._frame, batch.anchor
    lengths = tokens.attention_mask.sum(1).tolist()
    pairs = zip(tokens.input_ids.tolist(), lengths, strict=True)
    sentences = [ids[before : length - after] for ids, length in pairs]
    (masked,) = views.extra.values()
    firsts = (objective._places[:, 0] - before).tolist()
    expected = phrases.loss(
        objective, views.anchor, masked.embedding, views.anchor_output.input_embeddings, sentences, firsts
    )
    assert_same_gradients(found, expected, [*encoder.parameters(), *objective.parameters()])
    spans = [(first, phrases.phrases(ids, sentences, 0.4)[1]) for first, ids in zip(firsts, sentences, strict=True)]
    read = tokens.input_ids.clone()
    for row, (first, size) in enumerate(spans):
        read[row, before + first : before + first + size] = encoder.spec(0).mask_token_id
    (masked_tokens,) = objective.extra_inputs(batch).values()
    assert torch.equal(masked_tokens.input_ids, read)
    found.backward()
    for name, parameter in [*encoder.named_parameters(), *objective.named_parameters()]:
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name


def rows_of(*sentences: list[int]) -> TextBatch:
    """A batch of these ids, between two special tokens."""
    ids = torch.tensor([[2, *sentence, 3] for sentence in sentences])
    return TextBatch(TokenBatch(ids, torch.ones_like(ids)), None, None, torch.arange(len(ids)))


def answers(objective: PhraseReconstruction, batch: TextBatch, guess: Tensor) -> Tensor:
    """The loss where the head names these tokens, (B, T), with a logit of 3."""
    encoder = tiny_encoder(dropout=0.0)
    plugged(objective, encoder, 1)
    views = EncodedViews()(encoder, batch, objective.extra_inputs(batch))
    logits = 3.0 * F.one_hot(guess, encoder.vocab_size)
    objective.lm_head.forward = lambda states: logits  # type: ignore[method-assign]
    return objective(views, batch)


def test_anchors_that_an_augmentation_moved_are_refused() -> None:
    views = EncodedViews(anchor_augmentations=[TokenSwap()])
    module = SentRepModule(tiny_encoder(), [PhraseReconstruction(layers=1, heads=2)], views=views)
    with pytest.raises(InputError, match="leave out what moves their tokens"):
        module.compute_terms(text_batch(module.encoder, toy_sentences(5)), 0)


def test_a_phrase_at_the_end_of_a_long_sentence_is_reconstructed() -> None:
    """Nine of ten tokens; the first one is in both sentences. A tenth step would lie behind the last place."""
    objective = PhraseReconstruction(share=0.9, layers=1, heads=2)
    batch = rows_of([5, *range(10, 19)], [5, *range(20, 29)])
    wanted = F.pad(batch.anchor.input_ids[:, 2:-1], (0, 2))
    answers(objective, batch, wanted)
    assert objective.metrics["accuracy"] == 1
    answers(objective, batch, wanted + 1)
    assert objective.metrics["accuracy"] == 0


def test_the_mean_is_over_the_tokens_of_all_processes_be_they_fewer_than_one_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One token here, none at another process: half a token on average."""
    objective = PhraseReconstruction(share=0.5, layers=1, heads=2)
    guess = torch.tensor([[7, 7]])
    alone = answers(objective, rows_of([7]), guess)
    assert objective.metrics["accuracy"] == 1
    monkeypatch.setattr(distributed, "average", lambda x: x / 2)
    torch.testing.assert_close(answers(objective, rows_of([7]), guess), 2 * alone)


def test_every_token_can_be_in_a_phrase() -> None:
    objective = PhraseReconstruction(share=0.5, layers=1, heads=2)
    for start in (98, 99, 100, 101):
        batch = rows_of([start, start])
        answers(objective, batch, torch.full((1, 2), start))
        assert objective.metrics["accuracy"] == 1
