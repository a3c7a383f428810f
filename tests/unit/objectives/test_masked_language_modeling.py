"""Masked language modelling beside a slow reference, and as a guest in the shared pass."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from sentrep import InputError, SentenceEncoder, SentRepModule
from sentrep.objectives import MaskedLanguageModeling
from sentrep.objectives.masked_language_modeling import KEY
from sentrep.types import Need, TokenBatch
from sentrep.views import EncodedViews, ExtraInputsOnly
from support import assert_same_gradients, plugged, text_batch, tiny_encoder, toy_sentences

PROMPT = '"[X]" means [MASK].'


@pytest.mark.parametrize("copies", ["anchors", "anchors twice", "pairs"])
def test_equal_to_a_loop_over_the_chosen_tokens(copies: str) -> None:
    """Value and gradient, from BERT's head written out: dense, gelu, layer norm, word embeddings."""
    encoder = tiny_encoder(dropout=0.0).double()
    objective = plugged(MaskedLanguageModeling(probability=0.3, both_copies=copies != "anchors"), encoder, 1)
    sentences = sorted(toy_sentences(10), key=len)  # the positives are wider than the anchors
    batch = text_batch(encoder, sentences[:5], sentences[5:] if copies == "pairs" else None)
    extra = objective.extra_inputs(batch)
    loss = objective(EncodedViews()(encoder, batch, extra), batch)
    words, head = encoder.backbone.get_input_embeddings().weight, objective.lm_head.model.cls.predictions
    masked = extra[KEY]
    second = batch.anchor if batch.positive is None else batch.positive
    clean = [ids[mask.bool()] for c in (batch.anchor, second) for ids, mask in _rows(c)]
    assert len(masked) == (5 if copies == "anchors" else 10)
    width = masked.input_ids.shape[1]
    terms, right = [], 0
    for position in objective._chosen.tolist():
        row, column = divmod(position, width)
        ids = masked.input_ids[row : row + 1, : len(clean[row])]
        state = encoder.backbone(input_ids=ids).last_hidden_state[0, column]
        hidden = torch.nn.functional.gelu(head.transform.dense(state))
        logits = words @ head.transform.LayerNorm(hidden) + head.bias
        terms.append(torch.logsumexp(logits, 0) - logits[clean[row][column]])
        right += int(logits.argmax() == clean[row][column])
    expected = torch.stack(terms).mean()
    assert float(objective.metrics["accuracy"]) == pytest.approx(right / len(terms))
    assert_same_gradients(loss, expected, [words, head.transform.dense.weight, head.bias])


def test_the_two_copies_are_masked_by_two_draws(encoder: SentenceEncoder) -> None:
    objective = plugged(MaskedLanguageModeling(mask=1.0, random=0.0, both_copies=True), encoder, 1)
    batch = text_batch(encoder, toy_sentences(40))
    first, second = (objective.extra_inputs(batch)[KEY].input_ids != batch.anchor.input_ids.repeat(2, 1)).split(40)
    own = batch.anchor.attention_mask.sum() - 2 * 40
    assert int(first.sum() + second.sum()) == round(0.15 * 2 * int(own))
    assert 0 < int((first & second).sum()) < int(first.sum()) / 2


@pytest.mark.parametrize("prompt", [None, PROMPT])
@pytest.mark.parametrize("whole_word", [False, True])
def test_the_share_of_own_tokens_is_masked_and_nothing_else(prompt: str | None, whole_word: bool) -> None:
    encoder = tiny_encoder(pooling="mask" if prompt else "cls", prompt=prompt)
    objective = plugged(MaskedLanguageModeling(0.25, whole_word, mask=1.0, random=0.0), encoder, 1)
    batch = text_batch(encoder, toy_sentences(8))
    assert (objective.word_starts is not None) == whole_word
    assert not [name for name in objective.state_dict() if "word_starts" in name], "the tokenizer's, not a state"
    own = batch.anchor.own((len(encoder.tokenize.prefix), len(encoder.tokenize.suffix)))
    (masked,) = objective.extra_inputs(batch).values()
    changed = masked.input_ids != batch.anchor.input_ids
    assert int(changed.sum()) == round(0.25 * int(own.sum()))
    assert not (changed & ~own).any()
    if whole_word:
        tokens = encoder.tokenize.tokenizer.convert_ids_to_tokens
        split = 0
        for row, column in changed.nonzero().tolist():
            following = tokens(batch.anchor.input_ids[row].tolist())[column + 1]
            split += following.startswith("##") and not bool(changed[row, column + 1])
        assert split <= 1  # the last word may be cut


def test_of_a_few_tokens_one_is_masked(encoder: SentenceEncoder) -> None:
    objective = plugged(MaskedLanguageModeling(mask=1.0, random=0.0), encoder)
    batch = text_batch(encoder, ["dog", "cat"])
    (masked,) = objective.extra_inputs(batch).values()
    assert (masked.input_ids != batch.anchor.input_ids).sum() == 1


def test_alone_it_encodes_the_masked_sentences_only(encoder: SentenceEncoder) -> None:
    module = SentRepModule(encoder, {"mlm": MaskedLanguageModeling()}, views=ExtraInputsOnly(), seed=2)
    batch = text_batch(encoder, toy_sentences(6))
    rows = []
    encoder.register_forward_pre_hook(lambda _, args: rows.append(len(args[0])))
    views = module.views_of(batch)
    assert rows == [6]
    assert torch.isfinite(module.objectives(views, batch)[0])
    layers = ExtraInputsOnly()(encoder, batch, {"masked": batch.anchor}, Need(True, (1,))).anchor_output.layers
    assert list(layers) == [1]
    with pytest.raises(InputError, match="needs an objective with inputs of its own"):
        ExtraInputsOnly()(encoder, batch, {})


def _rows(tokens: TokenBatch) -> Iterator[tuple[Tensor, Tensor]]:
    return zip(tokens.input_ids, tokens.attention_mask, strict=True)
