"""The layers' outputs that objectives read: those of transformers, however the pass is computed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from sentrep import InputError, Objective, SentRepModule, TextBatch, TokenBatch, Views
from sentrep.objectives import Alignment, Contrastive, InformationReconstruction, Matryoshka, UncertaintyWeighted
from sentrep.types import Need
from support import FAMILIES, loss_and_gradients, text_batch, tiny_encoder, toy_sentences

ASKED = (0, 1, 2, -1, -3)
WAYS: dict[str, dict[str, Any]] = {
    "padded": {"layout": "padded"},
    "packed": {},
    "some rows at once": {"rows_at_once": 4},
    "compiled": {"compile": True},
}


@pytest.fixture(autouse=True)
def without_a_compiler() -> Iterator[None]:
    """torch traces, and runs the graphs as they are."""
    with torch.compiler.set_stance("default", force_backend="eager"):
        yield
    torch.compiler.reset()


@pytest.mark.parametrize(
    ("family", "way"),
    [(family, way) for family in FAMILIES for way in WAYS if way != "compiled" or family in ("bert", "modernbert")],
)
def test_they_are_those_of_transformers_in_value_and_gradient(family: str, way: str) -> None:
    encoder = tiny_encoder(family, dropout=0.0, **WAYS[way]).double()  # the pooled token is computed first
    tokens = text_batch(encoder, toy_sentences(9)).anchor
    real = tokens.attention_mask.bool()
    found = [states[real] for states in encoder(tokens, need=Need(tokens=False, layers=ASKED)).layers.values()]
    output = encoder.backbone(tokens.input_ids, tokens.attention_mask, output_hidden_states=True)
    expected = [output.hidden_states[number][real] for number in ASKED]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    gradients = []
    for layers in (found, expected):
        loss = torch.stack([(number + 5) * states.sin().sum() for number, states in enumerate(layers)]).sum()
        gradients.append(torch.autograd.grad(loss, list(encoder.parameters()), allow_unused=True))
    assert sum(gradient is not None for gradient in gradients[0]) > 10
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-10)


class Reader(Objective):
    """A user's objective on layers of a view, and of an input of its own."""

    reads_tokens = False
    reads_layers = (1, -1)

    def extra_inputs(self, batch: TextBatch) -> dict[str, TokenBatch]:
        return {"again": batch.anchor}

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        mask, width = batch.anchor.attention_mask[:, :, None], batch.anchor.input_ids.shape[1]
        one, other = views.positive_output.layers[1], views.extra["again"].layers[-1]
        assert len(one) == len(other) == len(batch)
        return ((one[:, :width] * mask).sin() - (other[:, :width] * mask).cos()).mean()


class Greedy(Reader):
    reads_layers = (-1, 3)


class Forgetful(Reader):
    reads_layers = (1,)


def step(objective: Objective, **how: Any) -> tuple[Tensor, dict[str, Tensor]]:
    encoder = tiny_encoder(dropout=0.0, **how)
    module = SentRepModule(encoder, {"contrastive": Contrastive(), "reader": objective})
    return loss_and_gradients(module, text_batch(encoder, toy_sentences(9)))


@pytest.mark.parametrize("way", ["packed", "some rows at once", "compiled"])
def test_an_objective_reads_them_of_every_view(way: str) -> None:
    torch.testing.assert_close(step(Reader(), **WAYS[way]), step(Reader(), **WAYS["padded"]), rtol=0, atol=1e-10)


def test_what_objectives_read_is_put_together() -> None:
    def need(*objectives: Objective) -> Need:
        named = {str(number): each for number, each in enumerate(objectives)}
        return SentRepModule(tiny_encoder(), named).objectives.need

    own = Alignment()
    own.reads_layers = (2, 1)  # of this one alone
    assert need(Contrastive(), Reader(), own) == Need(tokens=False, layers=(-1, 1, 2))
    assert need(Contrastive(), Alignment()) == Need(tokens=False)
    nested = UncertaintyWeighted({"m": Matryoshka(Reader(), [8, 4]), "i": InformationReconstruction(heads=2)})
    assert need(nested) == Need(tokens=False, layers=(-1, 1))


def test_what_is_not_there_is_said_in_a_sentence() -> None:
    with pytest.raises(InputError, match=r"objective 'reader': it reads layer 3, but .* 0 \(the .* to 2, or -3 to -1"):
        step(Greedy())
    with pytest.raises(InputError, match=r"layer -1 was not kept: .* must say reads_layers = \(-1,\)"):
        step(Forgetful())
