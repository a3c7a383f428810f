"""PaSeR against loops: which phrase, its loss and every gradient."""

from __future__ import annotations

import pytest
import torch

from references import phrases
from sentrep import InputError, ProjectionHead
from sentrep.functional.phrases import find_phrases
from sentrep.objectives import PhraseReconstruction
from sentrep.views import EncodedViews
from support import assert_same_gradients, text_batch, tiny_encoder, toy_sentences


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
    objective.build(encoder.spec(seed=1))
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
    found.backward()
    for name, parameter in [*encoder.named_parameters(), *objective.named_parameters()]:
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name


def test_heads_divide_the_width() -> None:
    with pytest.raises(InputError, match="heads must divide the encoder's width 32"):
        PhraseReconstruction(heads=5).build(tiny_encoder().spec(seed=1))
