"""Views from augmented word embeddings: one pass, the right rows, an attack on the loss of this very step."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from sentrep import SentenceEncoder, TextBatch, TokenBatch, Views
from sentrep.functional import info_nce
from sentrep.views import (
    FGSM,
    BernoulliDropout,
    EncodedViews,
    GaussianNoise,
    Perturbation,
    TokenCutoff,
    TokenShuffling,
)
from support import (
    text_batch,
    tiny_encoder,
    toy_sentences,
)

SENTENCES = toy_sentences(24)


def make(encoder: SentenceEncoder, batch: TextBatch, *augmentations: Perturbation, seed: int = 0, **more: Any) -> Views:
    torch.manual_seed(seed)
    return EncodedViews(list(augmentations), **more)(encoder, batch, {})


def words_read(encoder: SentenceEncoder, maker: EncodedViews, batch: TextBatch) -> tuple[Tensor, Tensor]:
    """The word embeddings of the last pass over the batch, and those of its tokens."""
    seen: dict[str, Any] = {}

    def record(module: Any, arguments: tuple[Any, ...]) -> None:
        seen["tokens"], seen["words"], _ = arguments

    with encoder.register_forward_pre_hook(record):
        maker(encoder, batch, {})
    return seen["words"], encoder.look_up(seen["tokens"])


@pytest.mark.parametrize(
    ("augmentations", "expected"),
    [
        ([], 1),
        ([GaussianNoise(0.01), TokenCutoff(0.3)], 1),
        ([FGSM()], 2),
        ([FGSM(), FGSM()], 3),
        ([FGSM(0.0)], 1),
    ],
)
def test_one_pass_and_one_more_per_attack(augmentations: list[Perturbation], expected: int) -> None:
    encoder, passes, backward = tiny_encoder(layout="padded"), [], []
    encoder.register_forward_hook(lambda *_: passes.append(1))
    encoder.backbone.encoder.layer[0].register_full_backward_hook(lambda *_: backward.append(1))
    views = make(encoder, text_batch(encoder, SENTENCES[:8]), *augmentations)
    assert len(passes) == expected
    assert len(backward) == expected - 1
    info_nce(views.anchor, views.positive, temperature=0.05).backward()
    assert len(backward) == expected


@pytest.mark.parametrize("perturbs", ["positive", "both"])
def test_only_the_tokens_concerned_are_changed(perturbs: Any, encoder: SentenceEncoder) -> None:
    """Noise reaches special tokens, but neither padding nor other rows."""
    batch = text_batch(encoder, SENTENCES[:4], SENTENCES[4:8], SENTENCES[8:12])
    tokens = TokenBatch.concatenate([batch.anchor, batch.positive, batch.negative], 0)  # type: ignore[list-item]
    words, plain = words_read(encoder, EncodedViews([GaussianNoise(0.1)], perturbs), batch)
    concerned = torch.tensor([perturbs == "both"] * 4 + [True] * 4 + [False] * 4)[:, None]
    assert torch.equal((words != plain).any(-1), concerned & tokens.attention_mask.bool())


def test_augmentations_are_applied_in_order(encoder: SentenceEncoder) -> None:
    """Noise that is dropped out leaves zeros; noise on dropped numbers would not."""
    batch = text_batch(encoder, SENTENCES[:3])
    words, _ = words_read(encoder, EncodedViews([GaussianNoise(0.1), BernoulliDropout(0.5)]), batch)
    assert (words[3:] == 0).float().mean() > 0.3


def test_shuffling_words_equals_shuffling_positions() -> None:
    encoder = tiny_encoder(dropout=0.0, pooling="mean")
    batch = text_batch(encoder, SENTENCES[:1])
    ids = batch.anchor.input_ids
    torch.manual_seed(0)
    mask = torch.ones_like(ids, dtype=torch.bool)
    mask[0, [0, -1]] = False
    order = TokenShuffling()(torch.arange(ids.shape[1]).float()[None, :, None], mask, lambda x, t: x.sum())
    positions = order[0, :, 0].long().argsort()[None]  # where each token went
    expected = encoder.backbone(input_ids=ids, attention_mask=batch.anchor.attention_mask, position_ids=positions)
    positive = make(encoder, batch, TokenShuffling()).positive
    assert not torch.equal(positions[0], torch.arange(ids.shape[1]))
    torch.testing.assert_close(positive, expected.last_hidden_state.mean(1), rtol=1e-4, atol=1e-5)


def test_fgsm_attacks_the_loss_of_this_step_dropout_included() -> None:
    encoder = tiny_encoder(dropout=0.2, layout="padded")
    batch = text_batch(encoder, SENTENCES[:8])
    tokens = TokenBatch.concatenate([batch.anchor, batch.anchor], 0)
    words = encoder.look_up(tokens).detach().requires_grad_()
    torch.manual_seed(5)
    anchor, positive = encoder(tokens, words).embedding.split(8)
    (slope,) = torch.autograd.grad(info_nce(anchor, positive, temperature=0.1), words)
    expected = words + 0.02 * slope.sign() * tokens.attention_mask[..., None]
    torch.manual_seed(5)
    attacked, _ = words_read(encoder, EncodedViews([FGSM(0.02, 0.1)]), batch)
    torch.testing.assert_close(attacked[8:], expected[8:], rtol=0, atol=1e-6)


def test_fgsm_leaves_parameter_gradients_and_the_generator_alone(encoder: SentenceEncoder) -> None:
    batch = text_batch(encoder, SENTENCES[:8])
    for parameter in encoder.parameters():
        parameter.grad = torch.ones_like(parameter)
    make(encoder, batch, FGSM())
    state = torch.get_rng_state()
    assert all(parameter.grad is not None and parameter.grad.eq(1).all() for parameter in encoder.parameters())
    make(encoder, batch, GaussianNoise(0.0))
    assert torch.equal(torch.get_rng_state(), state)
