"""InfoCSE's objective: against a loop, and what its gradient reaches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from references.information import information_loop
from sentrep import EncoderServices, SentRepModule, TextBatch, Views
from sentrep.objectives import InformationReconstruction
from sentrep.types import EncoderOutput, Layers, Need
from support import assert_same_gradients, loss_and_gradients, plugged, text_batch, tiny_encoder, toy_sentences

SMALL: dict[str, Any] = {"layer": 1, "layers": 2, "heads": 2, "feed_forward": 40, "dropout": 0.0}


def step() -> tuple[InformationReconstruction, TextBatch]:
    encoder = tiny_encoder(dropout=0.0).double()
    return plugged(InformationReconstruction(**SMALL), encoder, 5).double(), text_batch(encoder, toy_sentences(5))


def output(vectors: Tensor, layers: dict[int, Tensor]) -> EncoderOutput:
    return EncoderOutput(vectors, layers=Layers(layers))


def test_it_equals_the_loop_in_value_and_gradient() -> None:
    objective, batch = step()
    torch.manual_seed(1)
    (key,) = objective.extra_inputs(batch)
    tokens = batch.anchor
    vectors = torch.randn(5, 32, dtype=torch.float64).requires_grad_()
    lower = torch.randn(5, tokens.input_ids.shape[1] + 2, 32, dtype=torch.float64).requires_grad_()  # a wider pass
    anchor = output(vectors, {})
    loss = objective(Views(vectors, vectors, None, anchor, anchor, {key: output(vectors, {1: lower})}), batch)
    chosen = {*objective.masking._chosen.tolist()}
    lengths = tokens.attention_mask.sum(1).tolist()
    head = objective.masking.lm_head
    expected = information_loop(vectors, lower, tokens.input_ids, lengths, chosen, objective.auxiliary, head)
    leaves = [vectors, *objective.auxiliary.parameters(), *head.parameters()]
    assert_same_gradients(loss, expected, leaves)
    assert torch.autograd.grad(loss, vectors, retain_graph=True)[0].any()
    assert torch.autograd.grad(loss, lower, allow_unused=True) == (None,)


def test_the_encoder_is_trained_through_the_vector_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def trained() -> set[str]:
        encoder = tiny_encoder(dropout=0.0, pooling="cls")
        module = SentRepModule(encoder, [InformationReconstruction(**SMALL)])
        _, gradients = loss_and_gradients(module, text_batch(encoder, toy_sentences(5)))
        return {name for name in gradients if name.startswith("encoder.") and gradients[name].any()}

    assert len(trained()) > 30
    whole = EncoderOutput.__getitem__
    cut = lambda self, rows: output(self.embedding[rows].detach(), whole(self, rows).layers)  # noqa: E731
    monkeypatch.setattr(EncoderOutput, "__getitem__", cut)
    assert trained() == {"encoder.backbone.embeddings.word_embeddings.weight"}  # which are the head's


def test_the_lower_layer_is_that_in_the_middle() -> None:
    module = SentRepModule(tiny_encoder(), [InformationReconstruction(heads=2)])
    assert module.objectives.need == Need(tokens=False, layers=(1,))
    objective, encoder = InformationReconstruction(heads=2), tiny_encoder()
    objective.build(replace(encoder.spec(0), layers=5), EncoderServices(encoder, 0))
    assert objective.reads_layers == (2,)
