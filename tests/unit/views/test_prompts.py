"""Two templates in one pass: the vectors and gradients of two encoders with one template each."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from sentrep import InputError, SentenceEncoder, SentRepModule
from sentrep.encoder import Prompt
from sentrep.objectives import Contrastive
from sentrep.types import Need
from sentrep.views import EncodedViews, SpanCutoff, TokenCutoff, TokenShuffling, WordRepetition
from support import plugged, text_batch, tiny_encoder, toy_sentences

OWN = '"[X]" means [MASK].'
OTHERS = ['This sentence : "[X]" means [MASK] now.', "[MASK] is what [X] means."]
TEXTS = toy_sentences(12)[:4], toy_sentences(12)[4:8], toy_sentences(12)[8:]


def prompted(template: str, subtract: bool, family: str = "bert", **how: Any) -> SentenceEncoder:
    prompt = Prompt(template, subtract)
    return tiny_encoder(family, pooling="mask", prompt=prompt, max_length=12, dropout=0.0, **how).double()


def weighted(*vectors: Tensor) -> Tensor:
    stacked = torch.cat(vectors)
    return (stacked * torch.linspace(-1, 1, stacked.numel()).view_as(stacked)).square().sum()


def gradients(*encoders: SentenceEncoder) -> dict[str, Tensor]:
    """Sums over the encoders."""
    found: dict[str, Tensor] = {}
    for encoder in encoders:
        for name, p in encoder.named_parameters():
            if p.grad is not None:
                found[name] = found.get(name, torch.zeros_like(p)) + p.grad
    return found


@pytest.mark.parametrize(
    ("how", "need"),
    [
        ({"layout": "padded"}, Need(False)),
        ({}, Need(False)),
        ({"rows_at_once": 5}, Need(False)),
        ({"layout": "padded", "rows_at_once": 3}, Need()),
        ({}, Need()),
    ],
)
@pytest.mark.parametrize("subtract", [False, True])
@pytest.mark.parametrize(("family", "other"), [("bert", OTHERS[0]), ("roberta", OTHERS[1])])
def test_vectors_and_gradients_are_those_of_two_encoders(
    family: str, other: str, subtract: bool, how: dict[str, Any], need: Need
) -> None:
    encoder = prompted(OWN, subtract, family, **how)
    maker = plugged(EncodedViews(positive_prompt=other), encoder)
    extra = text_batch(encoder, TEXTS[0]).anchor
    views = maker(encoder, text_batch(encoder, *TEXTS), {"more": extra}, need)
    found = [views.anchor, views.positive, views.negative, views.extra["more"].embedding]
    weighted(*found).backward()  # type: ignore[arg-type]
    parts = [prompted(OWN, subtract, family), prompted(other, subtract, family)]
    expected = [
        parts[which](text_batch(parts[which], sentences).anchor).embedding
        for which, sentences in ((0, TEXTS[0]), (1, TEXTS[1]), (1, TEXTS[2]), (0, TEXTS[0]))
    ]
    weighted(*expected).backward()
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(gradients(encoder), gradients(*parts), rtol=1e-6, atol=1e-8)


def test_augmentations_spare_the_words_of_either_prompt() -> None:
    encoder = prompted(OWN, False)
    augmentations = [WordRepetition(1.0), TokenCutoff(0.9), SpanCutoff(0.5), TokenShuffling()]
    maker = plugged(EncodedViews(augmentations, "both", positive_prompt=OTHERS[0]), encoder)
    seen: list[Any] = []
    with encoder.register_forward_pre_hook(lambda module, arguments: seen.extend(arguments)):
        maker(encoder, text_batch(encoder, TEXTS[0]), {})
    tokens, words, _ = seen
    touched = (words != encoder.look_up(tokens)).any(-1)
    own = encoder.own(tokens)
    assert touched.any(1).all()
    assert not (touched & ~own).any()
    texts = [encoder.tokenize.tokenizer.decode(row[~kept & mask.bool()]) for row, kept, mask in zip(
        tokens.input_ids, own, tokens.attention_mask, strict=True)]  # fmt: skip
    assert len(set(texts[:4])) == len(set(texts[4:])) == 1
    assert texts[0] != texts[4]


def test_a_template_is_added_once_and_validation_knows_nothing_of_it() -> None:
    encoder = prompted(OWN, True)
    before = encoder.encode(TEXTS[0])
    for _ in range(2):
        SentRepModule(encoder, [Contrastive()], views=EncodedViews(positive_prompt=OTHERS[0]))
    assert len(encoder.plan().prompts.all) == 2
    assert (encoder.encode(TEXTS[0]) == before).all()


@pytest.mark.parametrize(
    ("arguments", "template", "message"),
    [
        ({}, OTHERS[0], "set model.encoder.prompt"),
        ({"prompt": OWN}, "no slots", r"needs \[X\] once"),
        ({"prompt": OWN, "max_length": 200}, OTHERS[0], "lower model.encoder.max_length"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: dict[str, Any], template: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        SentRepModule(tiny_encoder(**arguments), [Contrastive()], views=EncodedViews(positive_prompt=template))
