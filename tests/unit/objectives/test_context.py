"""What an objective has of its own in a run: name, step, extra inputs and settings of the optimiser."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sentrep import (
    EncoderServices,
    EncoderSpec,
    InputError,
    Objective,
    ProjectionHead,
    SentRepModule,
    TextBatch,
    TokenBatch,
    Views,
)
from sentrep.functional import alignment
from sentrep.objectives import Contrastive, MaskedLanguageModeling, UncertaintyWeighted
from sentrep.stability import AdversarialWeightPerturbation
from sentrep.training.parameter_groups import parameter_groups
from support import assert_resumes, quiet_trainer, text_batch, tiny_encoder, toy_data, toy_sentences

ADAMW = functools.partial(torch.optim.AdamW, lr=1e-3, weight_decay=0.1, fused=True)


class Reversed(Objective):
    """Tells sentences from their first words, with a layer of its own."""

    projects_extra = True

    def __init__(self, words: int = 3, options: dict[str, Any] | None = None, tied: bool = False) -> None:
        super().__init__()
        self.words = words
        self.tied = tied
        self.parameter_options = options or {}
        self.seen: list[tuple[int, list[str]]] = []

    def build(self, spec: EncoderSpec, services: EncoderServices) -> None:
        self.name = spec.name
        self.layer = nn.Linear(spec.embedding_dim, spec.embedding_dim)
        self.head = services.lm_head() if self.tied else None

    def extra_inputs(self, batch: TextBatch) -> dict[str, TokenBatch]:
        ids, mask = batch.anchor.input_ids, batch.anchor.attention_mask
        return {"first": TokenBatch(ids[:, : self.words], mask[:, : self.words])}

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        self.views = views
        return alignment(views.anchor, self.layer(views.projected["first"]))

    def after_step(self, views: Views) -> None:
        self.seen.append((self.step, sorted(views.extra)))


def test_objectives_with_equal_keys_see_their_own_inputs() -> None:
    nested = Reversed(4)
    terms: dict[str, Any] = {"a": Reversed(3), "b": Reversed(5), "both": UncertaintyWeighted({"c": nested})}
    module = SentRepModule(tiny_encoder(), terms, head=ProjectionHead(out_features=7))
    quiet_trainer(max_steps=2).fit(module, toy_data())
    for objective, name, words in ((terms["a"], "a", 3), (terms["b"], "b", 5), (nested, "both.c", 4)):
        assert (objective.name, objective.step) == (name, 2)
        (output,) = objective.views.extra.values()
        assert output.token_states.shape[1] >= words
        assert objective.views.projected["first"].shape == (4, 7)
        assert objective.seen == [(0, ["first"]), (1, ["first"])]
    assert not torch.equal(terms["a"].views.projected["first"], terms["b"].views.projected["first"])


def test_vectors_are_projected_only_where_they_are_asked_for() -> None:
    asking, other, seen = Reversed(), MaskedLanguageModeling(), list[dict[str, Tensor]]()
    other.register_forward_pre_hook(lambda _, given: seen.append(given[0].projected))
    module = SentRepModule(tiny_encoder(), {"a": asking, "mlm": other}, head=ProjectionHead(out_features=7))
    batch = text_batch(module.encoder, toy_sentences(4))
    views = module.views_of(batch)
    module.objectives(views, batch)
    assert asking.views.projected
    assert seen == [{}]
    assert not views.projected, "the views that the sum was given"


def test_own_parameters_have_their_own_settings() -> None:
    terms: dict[str, Objective | None] = {
        "a": Reversed(options={"lr": 0.5}, tied=True),
        "b": UncertaintyWeighted({"inner": Reversed(options={"weight_decay": 0.3})}),
        "c": Contrastive(),
    }
    module = SentRepModule(tiny_encoder(), terms, head=ProjectionHead())
    groups = parameter_groups(module)
    options = [{key: value for key, value in group.items() if key != "params"} for group in groups]
    free = {"weight_decay": 0.0}
    assert options == [{}, free, {"lr": 0.5}, {"lr": 0.5, **free}, {"lr": 1e-3, **free}, {"weight_decay": 0.3}, free]
    assert all(parameter.ndim == 2 for parameter in groups[0]["params"])
    listed = [parameter for group in groups for parameter in group["params"]]
    assert len(listed) == len({*listed}) == len([*module.parameters()])
    assert {*groups[0]["params"], *groups[1]["params"]} == {*module.encoder.parameters()}
    assert module.objectives.terms["b"].sum.terms["inner"].layer.weight in {*groups[5]["params"]}


@pytest.mark.parametrize("optimizer", [ADAMW, lambda groups: AdversarialWeightPerturbation(groups, ADAMW)])
def test_training_with_own_settings_resumes_exactly(tmp_path: Path, optimizer: Any) -> None:
    """With a rate of 0 the objective's parameters stay; the schedule acts on every group's own rate."""

    def build() -> SentRepModule:
        terms: dict[str, Objective | None] = {
            "slow": Reversed(options={"lr": 0.0}),
            "fast": Reversed(options={"lr": 0.1}),
        }
        return SentRepModule(tiny_encoder(dropout=0.1), terms, optimizer=optimizer, seed=1)

    whole = assert_resumes(build, tmp_path, gradient_clip_val=0.5)
    assert whole.step == whole.objectives.terms["slow"].step == 4
    start = build().state_dict()
    moved = {name for name, tensor in whole.state_dict().items() if not torch.equal(tensor, start[name])}
    assert "objectives.terms.fast.layer.weight" in moved
    assert "encoder.backbone.embeddings.word_embeddings.weight" in moved
    assert not any(name.startswith("objectives.terms.slow") for name in moved)
    groups = torch.load(tmp_path / "step=4.ckpt", weights_only=True)["optimizer_states"][0]["param_groups"]
    assert [group["initial_lr"] for group in groups] == [1e-3, 1e-3, 0, 0, 0.1, 0.1]


def test_a_setting_that_no_optimizer_has_is_refused() -> None:
    module = SentRepModule(tiny_encoder(), {"a": Reversed(options={"learning_rate": 1.0})}, optimizer=ADAMW)
    with pytest.raises(InputError, match="the optimizer has no setting 'learning_rate'"):
        quiet_trainer(max_steps=1).fit(module, toy_data())
