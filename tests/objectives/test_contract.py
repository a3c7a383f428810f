"""What every objective promises."""

from __future__ import annotations

import copy

import pytest
import torch
from plugins import objectives
from samplers import KINDS
from torch import Tensor

from sentrep import EncoderServices, EncoderSpec, Objective, ProjectionHead, SentenceEncoder, TextBatch, Views
from sentrep.encoder import Flow
from sentrep.objectives import (
    FlowLikelihood,
    InformationReconstruction,
    LayerContrast,
    MaskedLanguageModeling,
    WeightedSum,
)
from sentrep.views import EncodedViews
from support import plugged, rebuilt, text_batch, tiny_encoder, toy_sentences

NAMES = [name for name in objectives("") if name.removeprefix("contrastive, ") not in KINDS]


@pytest.fixture(params=NAMES)
def objective(request: pytest.FixtureRequest, teacher: str) -> Objective:
    return objectives(teacher)[request.param]()


def step(
    objective: Objective, autocast: bool = False
) -> tuple[Tensor, Views, TextBatch, SentenceEncoder, tuple[EncoderSpec, EncoderServices]]:
    encoder = tiny_encoder(dropout=0.0, modules=[Flow(steps=2)] if isinstance(objective, FlowLikelihood) else [])
    encoder.attach_head(ProjectionHead("mlp"))
    objective.build(*plugged(encoder, 5))
    need = WeightedSum([objective]).need
    sentences = toy_sentences(18)
    batch = text_batch(encoder, sentences[:6], sentences[6:12], sentences[12:])
    torch.manual_seed(4)  # of what objectives draw
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        views = EncodedViews()(encoder, batch, objective.extra_inputs(batch), need)
        if objective.projects_extra:  # as `WeightedSum` does
            views.projected = {key: encoder.project(output.embedding) for key, output in views.extra.items()}
        before = copy.deepcopy([views.anchor.detach(), views.positive.detach(), batch])
        loss = objective(views, batch)
    assert torch.equal(views.anchor, before[0])  # type: ignore[arg-type]
    assert torch.equal(views.positive, before[1])  # type: ignore[arg-type]
    assert torch.equal(batch.anchor.input_ids, before[2].anchor.input_ids)  # type: ignore[union-attr]
    return loss, views, batch, encoder, plugged(encoder, 5)


def test_the_value_is_a_finite_scalar_whose_gradient_reaches_the_encoder(objective: Objective) -> None:
    loss, _, _, encoder, _ = step(objective)
    assert loss.shape == ()
    assert loss.dtype == torch.float32
    for name, value in objective.metrics.items():
        assert value.shape == (), name
        assert not value.requires_grad, name
    loss.backward()
    trained = [encoder.backbone.get_input_embeddings().weight]
    # which read token states and vectors before the head
    before_it = FlowLikelihood | InformationReconstruction | LayerContrast | MaskedLanguageModeling
    if not isinstance(objective, before_it) and not objective.init_args.get("token_deletion"):
        trained += encoder.head.parameters()  # type: ignore[union-attr]
    for parameter in trained:
        assert parameter.grad is not None
        assert torch.isfinite(parameter.grad).all()
        assert parameter.grad.abs().sum() > 0


def test_bfloat16_autocast_gives_float32_near_the_full_value(objective: Objective) -> None:
    full = step(objective)[0]
    half = step(objective, autocast=True)[0]
    assert half.dtype == torch.float32
    torch.testing.assert_close(half, full, rtol=0.2, atol=0.05)


def test_the_state_survives_a_round_trip(objective: Objective) -> None:
    _, views, batch, _, spec = step(objective)
    with torch.no_grad():
        objective.after_step(views)
    again: Objective = type(objective)(**objective.init_args)
    again.build(*spec)
    again.load_state_dict(copy.deepcopy(objective.state_dict()))
    torch.manual_seed(4)
    again.extra_inputs(batch)
    values = []
    for one in (again, objective):
        torch.manual_seed(1)
        values.append(one(views, batch))
    torch.testing.assert_close(*values, rtol=0, atol=0)


def test_the_configuration_survives_yaml(objective: Objective) -> None:
    rebuilt(objective, Objective)
