"""DiffCSE's difference prediction against a loop, and what its generator draws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from references.replaced_tokens import detection_loop
from sentrep import ProjectionHead, SentenceEncoder, SentRepModule
from sentrep.objectives import MaskedLanguageModeling, ReplacedTokenDetection
from sentrep.types import TextBatch, TokenBatch
from support import (
    assert_same_gradients,
    bare_views,
    loss_and_gradients,
    plugged,
    text_batch,
    tiny_encoder,
    toy_sentences,
)
from unit.objectives.test_readings import NOTHING


def built(generator: str | None = None) -> tuple[ReplacedTokenDetection, SentenceEncoder, TextBatch]:
    encoder = tiny_encoder(dropout=0.0)
    return plugged(ReplacedTokenDetection(generator), encoder, 3), encoder, text_batch(encoder, toy_sentences(6))


def test_the_loss_equals_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    objective, _, batch = built()
    objective.double()
    tokens = batch.anchor
    edited = objective.edit(tokens)
    assert (edited.input_ids != tokens.input_ids).any()
    monkeypatch.setattr(objective, "edit", lambda tokens: edited)
    vectors = torch.randn(6, 32, dtype=torch.float64, requires_grad=True)
    loss = objective(bare_views(vectors, NOTHING), batch)
    lengths = tokens.attention_mask.sum(1).tolist()
    read, wanted = (
        [ids[:length].tolist() for ids, length in zip(x.input_ids, lengths, strict=True)] for x in (edited, tokens)
    )
    detect, backbone = objective.detect, objective.discriminator.encoder.backbone
    expected, accuracy = detection_loop(backbone, detect.weight, detect.bias, vectors, read, wanted)
    assert_same_gradients(loss, expected, [vectors, detect.weight, backbone.get_input_embeddings().weight])
    assert float(objective.metrics["accuracy"]) == pytest.approx(accuracy)
    replaced = (edited.input_ids != tokens.input_ids)[tokens.attention_mask.bool()].float().mean()
    torch.testing.assert_close(objective.metrics["replaced"], replaced, check_dtype=False)


def test_masked_tokens_are_drawn_from_the_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    objective, encoder, batch = built()
    seen: list[Tensor] = []

    def guess(masked: TokenBatch, chosen: Tensor) -> Tensor:
        seen.extend([masked.input_ids, chosen])
        logits = torch.full((len(chosen), encoder.vocab_size), -100.0)
        logits[:, 7], logits[:, 9] = torch.tensor([0.75, 0.25]).log()
        return logits

    monkeypatch.setattr(objective, "_guess", guess)
    batch = text_batch(encoder, toy_sentences(300))
    edited = objective.edit(batch.anchor).input_ids
    masked, chosen = seen
    assert torch.equal(masked.flatten().eq(encoder.spec(0).mask_token_id).nonzero().flatten(), chosen.sort().values)
    own = batch.anchor.own(encoder.spec(0).frame)
    assert len(chosen) == round(0.3 * int(own.sum()))
    assert own.flatten()[chosen].all()
    others = torch.ones(edited.numel(), dtype=torch.bool).scatter(0, chosen, False)
    assert torch.equal(edited.flatten()[others], batch.anchor.input_ids.flatten()[others])
    assert float((edited.flatten()[chosen] == 7).float().mean()) == pytest.approx(0.75, abs=0.06)


def test_the_generator_is_the_first_encoder_and_stays(tmp_path: Path) -> None:
    objective, encoder, batch = built()
    chosen = torch.tensor([1, 2])
    states = encoder(batch.anchor).token_states.flatten(0, 1)[chosen]
    expected = encoder.language_model_head(3)(states)
    torch.testing.assert_close(objective._guess(batch.anchor, chosen), expected)
    trained = {name.split(".")[0] for name, p in objective.named_parameters() if p.requires_grad}
    assert trained == {"discriminator", "detect"}
    encoder.save_pretrained(tmp_path / "model")
    named, _, _ = built(str(tmp_path / "model"))
    with pytest.warns(UserWarning, match="no complete masked-LM head"):
        assert named._guess(batch.anchor, chosen).shape == expected.shape
    assert {name.split(".")[0] for name in named.state_dict()} == {"discriminator", "detect", "_extra_state"}
    assert named.get_extra_state()["model"] == str(tmp_path / "model")


def test_the_checkpoint_names_the_head_that_is_trained() -> None:
    """Not the frozen one of the generator, though that comes first."""
    made: dict[str, Any] = {"difference": ReplacedTokenDetection(), "mlm": MaskedLanguageModeling()}
    module = SentRepModule(tiny_encoder(), made)
    assert module.services.head_to_keep(module) == "objectives.terms.mlm.lm_head"


def test_vectors_of_another_width_enter_by_a_layer() -> None:
    module = SentRepModule(tiny_encoder(), [ReplacedTokenDetection()], head=ProjectionHead("mlp", out_features=12))
    _, gradients = loss_and_gradients(module, text_batch(module.encoder, ["a word", "two words"]))
    (enter,) = (gradient for name, gradient in gradients.items() if name.endswith("enter.weight"))
    assert enter.shape == (32, 12)
    assert enter.any()


def test_of_one_token_one_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    objective, encoder, _ = built()
    chosen: list[Tensor] = []
    logits = torch.zeros(1, encoder.vocab_size)
    monkeypatch.setattr(objective, "_guess", lambda masked, places: chosen.append(places) or logits)
    before, after = encoder.spec(0).frame
    objective.edit(TokenBatch(torch.full((1, before + 1 + after), 7), torch.ones(1, before + 1 + after).long()))
    assert [places.tolist() for places in chosen] == [[before]]
