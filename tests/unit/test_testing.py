"""The tester for authors of plug-ins finds planted faults, and says which check failed and why."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sentrep import NegativeSampler, Objective, ViewMaker, Views
from sentrep.distributed import gather, own_rows
from sentrep.functional import cosine_similarity_matrix
from sentrep.random import step_generator
from sentrep.testing import check_objective, check_sampler, check_view
from sentrep.types import EncoderSpec
from sentrep.views import EncodedViews


class Sound(Objective):
    """Hinge loss on the hardest in-batch negative of all processes: README's objective with a name and a seed."""

    def build(self, spec: EncoderSpec, services: Any) -> None:
        self.name, self.seed = spec.name, spec.seed

    def forward(self, views: Views, batch: Any) -> Tensor:
        cosine = cosine_similarity_matrix(views.anchor, gather(views.positive))
        own = own_rows(len(cosine), cosine.device)[:, None]
        return (0.2 + cosine.scatter(1, own, -1.0).amax(1) - cosine.gather(1, own)[:, 0]).clamp_min(0).mean()


class SumOverRows(Sound):
    """The loss is not averaged: it grows with the rows of a process."""

    def forward(self, views: Views, batch: Any) -> Tensor:
        return super().forward(views, batch) * len(views.anchor)


class OwnNegatives(Objective):
    """The negatives of a process are its own rows."""

    def forward(self, views: Views, batch: Any) -> Tensor:
        cosine = cosine_similarity_matrix(views.anchor, views.positive)
        return (cosine.sum(1) - 2 * cosine.diagonal()).mean()


class GlobalDraw(Sound):
    """The noise comes from the default generator, which differs between the ranks."""

    def forward(self, views: Views, batch: Any) -> Tensor:
        noise = torch.randn(4, views.anchor.shape[1]).to(views.anchor.dtype)
        return super().forward(views, batch) + cosine_similarity_matrix(views.anchor, noise).mean()


class PythonDraw(Sound):
    """The factor comes from Python's generator, which no step seeds."""

    def forward(self, views: Views, batch: Any) -> Tensor:
        return super().forward(views, batch) * random.random()


class UnsavedState(Sound):
    """The scale is no buffer."""

    scale = 1.0

    def forward(self, views: Views, batch: Any) -> Tensor:
        return super().forward(views, batch) * self.scale

    def after_step(self, views: Views) -> None:
        self.scale *= 0.5


class InPlace(Sound):
    def forward(self, views: Views, batch: Any) -> Tensor:
        views.positive.data.mul_(2)
        return super().forward(views, batch)


class KeptGraph(Sound):
    def forward(self, views: Views, batch: Any) -> Tensor:
        loss = super().forward(views, batch)
        self.last = [loss]
        return loss


class NanAtOneRow(Sound):
    """The gradient of a root is infinite where the two vectors are equal."""

    def forward(self, views: Views, batch: Any) -> Tensor:
        return super().forward(views, batch) + (views.anchor - views.positive).square().sum(1).sqrt().mean()


class HiddenSync(Sound):
    def forward(self, views: Views, batch: Any) -> Tensor:
        loss = super().forward(views, batch)
        return loss if loss > 0 else loss * 2


class ToNumpy(Sound):
    def forward(self, views: Views, batch: Any) -> Tensor:
        self.metrics = {"mean": float(views.anchor.detach().numpy().mean())}
        return super().forward(views, batch)


class Overflow(Objective):
    """The squared norm of a vector overflows in float16."""

    def forward(self, views: Views, batch: Any) -> Tensor:
        return (views.anchor * views.anchor).sum(1).float().clamp_min(1).log().mean()


class ParameterInForward(Sound):
    def forward(self, views: Views, batch: Any) -> Tensor:
        if not hasattr(self, "scale"):
            self.scale = nn.Parameter(torch.ones((), dtype=views.anchor.dtype))
        return super().forward(views, batch) * self.scale


class NameTwice(Sound):
    """Two objectives of the class draw the same numbers."""

    def forward(self, views: Views, batch: Any) -> Tensor:
        noise = torch.randn(4, views.anchor.shape[1], generator=step_generator(self.seed, "noise", self.step))
        return super().forward(views, batch) + cosine_similarity_matrix(views.anchor, noise.to(views.anchor)).mean()


class MetricTwice(Sound):
    """The name is that of the weighted loss in the log."""

    def forward(self, views: Views, batch: Any) -> Tensor:
        self.metrics = {"weighted": 1.0}
        return super().forward(views, batch)


class Unwritten(Sound):
    """The argument is no plain data, so no YAML file can hold it."""

    def __init__(self, scale: Tensor | None = None) -> None:
        super().__init__()


FAULTS = [
    (SumOverRows, "processes: two processes have the loss .*return the mean over own rows"),
    (OwnNegatives, "processes: two processes have the loss .*compare own rows with the rows of all processes"),
    (GlobalDraw, "processes: .*draw numbers for all processes from sentrep.random.step_generator"),
    (PythonDraw, "draws: the losses of one seed differ"),
    (UnsavedState, "resume: after a resume the losses are .*a state is missing from the checkpoint"),
    (InPlace, r"inputs: views.positive was changed in place"),
    (KeptGraph, r"graph: terms.checked.last\[0\] keeps the autograd graph"),
    (NanAtOneRow, "rows: loss or gradient is not finite where an anchor equals its positive"),
    (HiddenSync, r"waits: it waits for the device \(_local_scalar_dense\)"),
    (ToNumpy, r"waits: it waits for the device \(.numpy\(\)\)"),
    (Overflow, "half: for vectors of norm 300 in float16 the loss is inf"),
    (
        ParameterInForward,
        "parameters: a step created objectives.terms.checked.scale; create",
    ),
    (NameTwice, "names: two objects of the class draw the same numbers, from the stream 'noise/0'; use spec.name"),
    (MetricTwice, "value: a metric is named 'weighted'"),
]


@pytest.mark.parametrize(("plugin", "message"), FAULTS, ids=[plugin.__name__ for plugin, _ in FAULTS])
def test_a_planted_fault_is_found(plugin: type[Objective], message: str) -> None:
    """Nothing else is reported, but for two faults that also break the resume. The slow checks run where they count."""
    skip = ["compiled"] if message.startswith("processes") else ["compiled", "processes"]
    with pytest.raises(AssertionError, match=rf"(?s)^{plugin.__name__} failed .*\n  {message}") as found:
        check_objective(plugin, skip=skip)
    assert "failed 1 of" in str(found.value) or plugin in (ParameterInForward, PythonDraw)


def test_a_sound_objective_passes_and_every_check_can_be_skipped_by_name() -> None:
    check_objective(Sound)
    with pytest.raises(ValueError, match=r"skip: unknown checks \['process'\]; the checks are value, gradient,"):
        check_objective(Sound, skip=["process"])


def test_arguments_of_the_constructor_go_through_yaml() -> None:
    with pytest.raises(AssertionError, match="configuration: "):
        check_objective(Unwritten, scale=torch.ones(2), skip=["processes"])


class Restless(NegativeSampler):
    """Draws from the default generator."""

    def sample(self, anchors: Tensor, keys: Tensor) -> Tensor:
        return torch.randn(3, anchors.shape[1])


def test_a_sampler_that_draws_anew_in_one_step_is_found() -> None:
    with pytest.raises(AssertionError, match=r"(?s)^Restless failed .*drawn: two calls of sample in one step differ"):
        check_sampler(Restless, skip=["processes"])


class Short(ViewMaker):
    """Loses a row."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = EncodedViews()

    def forward(self, encoder: Any, batch: Any, extra: Any, need: Any = None) -> Views:
        views = self.inner(encoder, batch, extra, need)
        views.anchor = views.anchor[1:]
        return views


def test_views_without_a_row_are_found() -> None:
    with pytest.raises(AssertionError, match=r"(?s)views: Views.anchor has shape \(5, 32\); expected \(6, 32\)"):
        check_view(Short, skip=["processes"])
