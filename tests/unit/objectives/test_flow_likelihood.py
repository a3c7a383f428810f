"""The flow and its likelihood against the determinant of a whole Jacobian."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from references.bert_flow import flow_loop, negative_log_likelihood_loop
from sentrep import InputError, SentRepModule, Views
from sentrep.encoder import Flow, Normalize
from sentrep.objectives import FlowLikelihood
from sentrep.types import EncoderOutput
from support import assert_same_gradients, tiny_encoder


def flow_of(width: int) -> tuple[Flow, list[dict[str, Any]]]:
    torch.manual_seed(1)
    flow = Flow(steps=3, hidden=5)
    flow.build(width, std=0.02)
    flow.double()
    for parameter in flow.parameters():
        parameter.data.normal_(std=0.3)
    steps = [{**dict(layer.named_parameters()), "permutation": layer.permutation} for layer in flow.layers]
    return flow, steps


@pytest.mark.parametrize("width", [2, 7])
def test_value_and_gradient_are_those_of_the_jacobian_s_determinant(width: int) -> None:
    flow, steps = flow_of(width)
    x = torch.randn(4, width, dtype=torch.float64, requires_grad=True)
    z = flow(x, None, None)
    torch.testing.assert_close(z, torch.stack([flow_loop(row, steps) for row in x]))
    torch.testing.assert_close(flow.inverse(z)[0], x)
    objective: Any = FlowLikelihood()
    objective.build(None, SimpleNamespace(modules=[flow]))
    loss = objective(Views(z, z, None, EncoderOutput(z), EncoderOutput(z)), None)
    expected = negative_log_likelihood_loop(x, steps)
    assert_same_gradients(loss, expected, [x, *flow.parameters()], rtol=1e-7, atol=1e-7)


def test_the_flow_is_a_part_of_the_encoder_alone() -> None:
    module = SentRepModule(tiny_encoder(modules=[Flow(steps=2)]), [FlowLikelihood()])
    assert {name.split(".")[0] for name, _ in module.named_parameters()} == {"encoder"}


@pytest.mark.parametrize("modules", [[], [Flow(1), Normalize()]])
def test_without_a_flow_at_the_end_it_is_refused(modules: Any) -> None:
    with pytest.raises(InputError, match=r"put one last in model\.encoder\.modules"):
        SentRepModule(tiny_encoder(modules=modules), [FlowLikelihood()])
