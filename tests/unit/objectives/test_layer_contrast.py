"""SG-OPT's objective: against a loop, and against the encoder as it was."""

from __future__ import annotations

import copy

import pytest
import torch

from references.layer_contrast import layer_contrast_loop
from sentrep import SentRepModule
from sentrep.objectives import LayerContrast
from support import assert_same_gradients, text_batch, tiny_encoder, toy_sentences


def module(**arguments: float) -> SentRepModule:
    encoder = tiny_encoder(dropout=0.0, pooling="cls")
    return SentRepModule(encoder, {"guided": LayerContrast(projection=12, **arguments)}).double()  # type: ignore[arg-type]


@pytest.mark.parametrize("regularisation", [0.0, 0.7])
def test_it_equals_the_loop_in_value_and_gradient(regularisation: float) -> None:
    made = module(temperature=0.4, regularisation=regularisation)
    before = copy.deepcopy(made.encoder.backbone)
    with torch.no_grad():  # as after some steps
        for parameter in made.encoder.backbone.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    batch = text_batch(made.encoder, toy_sentences(5))
    tokens, objective = batch.anchor, made.objectives.terms["guided"]
    loss, _ = made.objectives(made.views_of(batch), batch)
    now = made.encoder.backbone(tokens.input_ids, tokens.attention_mask).last_hidden_state[:, 0]
    layers = before(tokens.input_ids, tokens.attention_mask, output_hidden_states=True).hidden_states
    assert len(layers) == 3
    lengths = tokens.attention_mask.sum(1).tolist()
    expected = layer_contrast_loop(now, [states.detach() for states in layers], lengths, objective.project, 0.4)
    distance = torch.zeros((), dtype=torch.float64)
    for one, other in zip(made.encoder.backbone.parameters(), before.parameters(), strict=True):
        distance = distance + (one - other.detach()).norm().square()
    expected = expected + regularisation * distance
    torch.testing.assert_close(objective.metrics["distance"], distance)
    trained = [parameter for parameter in made.parameters() if parameter.requires_grad]
    assert_same_gradients(loss, expected, trained)


def test_the_copy_reads_some_rows_at_once() -> None:
    encoder = tiny_encoder(dropout=0.0, rows_at_once=2)
    made = SentRepModule(encoder, {"guided": LayerContrast(projection=12)})
    sizes: list[int] = []
    guide = made.objectives.terms["guided"].guide
    guide.register_forward_pre_hook(lambda _, given: sizes.append(len(given[0])))
    batch = text_batch(encoder, toy_sentences(5))
    made.objectives(made.views_of(batch), batch)
    assert sizes == [2, 2, 1]


def test_similarities_are_float32_under_autocast() -> None:
    encoder = tiny_encoder(dropout=0.0)
    made = SentRepModule(encoder, {"guided": LayerContrast(projection=12, regularisation=0.0)})
    batch = text_batch(encoder, toy_sentences(5))
    projected: list[torch.Tensor] = []
    made.objectives.terms["guided"].project.register_forward_hook(lambda *given: projected.append(given[2].float()))
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = made.objectives(made.views_of(batch), batch)
    guides, vectors = (torch.nn.functional.normalize(x, dim=-1) for x in projected)
    similar = torch.einsum("bd,nkd->bnk", vectors, guides) / 0.01
    rows = [
        torch.logsumexp(torch.cat([near[None], similar[i, torch.arange(5) != i].flatten()]), 0) - near
        for i in range(5)
        for near in similar[i, i]
    ]
    torch.testing.assert_close(loss, torch.stack(rows).mean(), rtol=1e-4, atol=1e-4)
