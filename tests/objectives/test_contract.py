"""What every objective promises."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from jsonargparse import ArgumentParser
from torch import Tensor

from sentrep import EncoderSpec, Objective, ProjectionHead, SentenceEncoder, TextBatch, Views, objectives
from sentrep.config import to_config
from sentrep.encoder import Flow
from sentrep.negatives import GaussianNegatives
from sentrep.objectives import (
    Alignment,
    BidirectionalMargin,
    Contrastive,
    ContrastiveTension,
    Denoising,
    Distillation,
    FlowLikelihood,
    InformationReconstruction,
    LayerContrast,
    LocalGlobalInformation,
    MaskedLanguageModeling,
    MaskedTriplet,
    Matryoshka,
    MomentumContrast,
    PhraseReconstruction,
    RankingConsistency,
    ReplacedTokenDetection,
    SignFlippedContrastive,
    UncertaintyWeighted,
    Uniformity,
    WeightedSum,
)
from sentrep.views import EncodedViews
from sentrep.weighting import ComplementaryWeighting, SelfWeighting
from support import text_batch, tiny_encoder, toy_sentences

CASES: dict[str, Callable[[str], Objective]] = {
    "alignment": lambda teacher: Alignment(),
    "bidirectional_margin": lambda teacher: BidirectionalMargin(),
    "contrastive": lambda teacher: Contrastive(temperature=0.1, label_smoothing=0.1),
    "contrastive, complementary": lambda teacher: Contrastive(weighting=ComplementaryWeighting(teacher, 0.9)),
    "contrastive, self": lambda teacher: Contrastive(weighting=SelfWeighting(0.9, kind="soft")),
    "denoising": lambda teacher: Denoising(layers=2, feed_forward=48),
    "distillation": lambda teacher: Distillation(teacher, temperature=0.1),
    "information reconstruction": lambda teacher: InformationReconstruction(layer=1, heads=2, feed_forward=48),
    "layer contrast": lambda teacher: LayerContrast(0.1, projection=16),
    "flow": lambda teacher: FlowLikelihood(),
    "local and global": lambda teacher: LocalGlobalInformation(),
    "masked_language_modeling": lambda teacher: MaskedLanguageModeling(),
    "phrase_reconstruction": lambda teacher: PhraseReconstruction(layers=2, heads=2),
    "contrastive_tension": lambda teacher: ContrastiveTension(negatives=3),
    "momentum_contrast": lambda teacher: MomentumContrast(size=9, in_batch=True),
    "contrastive, both ways": lambda teacher: Contrastive(nt_xent=True),
    "contrastive, no batch": lambda teacher: Contrastive(negatives={"noise": GaussianNegatives()}, in_batch=False),
    "sign-flipped": lambda teacher: SignFlippedContrastive(scale=0.1),
    "uniformity": lambda teacher: Uniformity(),
    "angular margin": lambda teacher: Contrastive(temperature=0.1, angular_margin=10),
    "two teachers": lambda teacher: Distillation(teacher, 0.1, kind="listmle", second_model=teacher, own=False),
    "ranking_consistency": lambda teacher: RankingConsistency(0.1),
    "replaced_token_detection": lambda teacher: ReplacedTokenDetection(),
    "masked_triplet": lambda teacher: MaskedTriplet(),
    "matryoshka": lambda teacher: Matryoshka(Contrastive(negatives={"noise": GaussianNegatives()}), [32, 8]),
    "uncertainty_weighted": lambda teacher: UncertaintyWeighted(
        {"contrastive": Contrastive(), "mlm": MaskedLanguageModeling()}
    ),
}


@pytest.fixture(params=CASES)
def objective(request: pytest.FixtureRequest, teacher: str) -> Objective:
    return CASES[request.param](teacher)


def test_every_objective_is_tested() -> None:
    public = {getattr(objectives, name) for name in objectives.__all__}
    concrete = {c for c in public if issubclass(c, Objective) and not inspect.isabstract(c)}
    assert {type(make("x")) for make in CASES.values()} == concrete


def step(objective: Objective, autocast: bool = False) -> tuple[Tensor, Views, TextBatch, SentenceEncoder, EncoderSpec]:
    encoder = tiny_encoder(dropout=0.0, modules=[Flow(steps=2)] if isinstance(objective, FlowLikelihood) else [])
    encoder.attach_head(ProjectionHead("mlp"))
    objective.build(encoder.spec(seed=5))
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
    return loss, views, batch, encoder, encoder.spec(seed=5)


def test_the_value_is_a_finite_scalar_whose_gradient_reaches_the_encoder(objective: Objective) -> None:
    loss, _, _, encoder, _ = step(objective)
    assert loss.shape == ()
    assert loss.dtype == torch.float32
    loss.backward()
    trained = [encoder.backbone.get_input_embeddings().weight]
    # which read token states and vectors before the head
    if not isinstance(objective, FlowLikelihood | InformationReconstruction | LayerContrast | MaskedLanguageModeling):
        trained += encoder.head.parameters()  # type: ignore[union-attr]
    for parameter in trained:
        assert parameter.grad is not None
        assert torch.isfinite(parameter.grad).all()
        assert parameter.grad.abs().sum() > 0


def test_metrics_are_detached_scalars(objective: Objective) -> None:
    step(objective)
    for name, value in objective.metrics.items():
        assert value.shape == (), name
        assert not value.requires_grad, name


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
    again.build(spec)
    again.load_state_dict(copy.deepcopy(objective.state_dict()))
    torch.manual_seed(4)
    again.extra_inputs(batch)
    values = []
    for one in (again, objective):
        torch.manual_seed(1)
        values.append(one(views, batch))
    torch.testing.assert_close(*values, rtol=0, atol=0)


def test_the_configuration_survives_yaml(objective: Objective) -> None:
    parser = ArgumentParser()
    parser.add_argument("--objective", type=Objective)
    text = parser.dump(parser.parse_object({"objective": to_config(objective)}))
    again: Any = parser.instantiate(parser.parse_string(text)).objective
    assert type(again) is type(objective)
    assert to_config(again) == to_config(objective)
