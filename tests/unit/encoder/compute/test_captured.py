"""Which passes are replayed, and that replays share no memory with what outlives them; test_on_gpu.py has the rest."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sentrep import SentRepModule
from sentrep.encoder.compute import captured
from sentrep.encoder.compute.captured import CapturedPass
from sentrep.encoder.compute.plan import Pass
from sentrep.objectives import Contrastive
from support import text_batch, tiny_encoder

SENTENCES = ["a brown cat", "the dog sleeps", "rain in the north", "we read two books", "she sings", "old stones"]


class Graphs(captured._Graphs):
    """Graphs of a machine without CUDA: they compute again what they would replay, in the same memory each time."""

    made = 0

    def __init__(self, over: captured.OwnWeights, inputs: Sequence[Tensor], pool: Any) -> None:
        type(self).made += 1
        self.inputs, self.pool = [one.clone() for one in inputs], pool or object()
        self._over = over
        self.forward: Any = SimpleNamespace(replay=self._forward)
        self.backward: Any = SimpleNamespace(replay=self._backward)
        self._flat = torch.empty(0)

    def _forward(self) -> None:
        with torch.enable_grad():
            self._computed = self._over.run(self.inputs)
        self.output, self.gradient = self._computed.detach(), torch.zeros_like(self._computed)

    def _backward(self) -> None:
        gradients = self._over.gradients(self._computed, self.gradient)
        self._shapes = [None if found is None else found.shape for found in gradients]
        flat = torch.cat([found.flatten() for found in gradients if found is not None])
        self._flat = flat if self._flat.shape != flat.shape else self._flat.copy_(flat)


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> type[Graphs]:
    """The passes of every device are captured, by `Graphs`."""
    monkeypatch.setattr(captured, "_Graphs", Graphs)
    monkeypatch.setattr(Pass, "_can_replay", lambda self, rows: self._captured is not None)
    monkeypatch.setattr(Graphs, "made", 0)
    return Graphs


def steps(compile: Any, order: Sequence[int], together: int = 1, **arguments: Any) -> tuple[Tensor, dict[str, Tensor]]:
    """Losses and summed gradients of batches of some sizes, of which ``together`` wait for one backward pass."""
    torch.compiler.reset()
    encoder = tiny_encoder(dropout=0.0, compile=compile, **arguments)
    module = SentRepModule(encoder, [Contrastive()]).double()
    losses, waiting = [], []
    for step, size in enumerate(order):
        losses.append(module.compute_terms(text_batch(encoder, SENTENCES[:size]), step).loss)
        waiting.append(losses[-1])
        if len(waiting) == together:
            torch.stack(waiting).sum().backward()
            waiting = []
    return torch.stack(losses).detach(), {name: p.grad for name, p in module.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("together", [1, 2, 3])
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_replayed_steps_have_the_losses_and_the_summed_gradients_of_eager_ones(
    together: int, pooling: str, graphs: type[Graphs], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nn.Module, "compile", lambda self, **options: None)
    order = (6, 3, 6, 6, 3, 3)
    found = steps("reduce-overhead", order, together, pooling=pooling)
    assert graphs.made == (1 if together == 3 else 2)  # the first of those that wait together is replayed
    expected = steps(False, order, together, pooling=pooling)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def replayed() -> tuple[CapturedPass, captured.Run, nn.Linear]:
    """A pass of one linear layer."""
    layer = nn.Linear(3, 2)
    return CapturedPass(layer), lambda inputs: layer(inputs[0]), layer


def test_a_pass_whose_loss_is_dropped_does_not_wait(graphs: type[Graphs]) -> None:
    owner, run, _ = replayed()
    x = torch.randn(4, 3)
    for _ in range(3):
        assert type(owner(run, [x], None).grad_fn).__name__ == "_ReplayedBackward"
    output = owner(run, [x], None)
    other = owner(run, [x], None)  # ``output`` still waits
    assert (type(output.grad_fn).__name__, type(other.grad_fn).__name__) == ("_ReplayedBackward", "AddmmBackward0")


def test_a_second_backward_pass_is_refused(graphs: type[Graphs]) -> None:
    owner, run, _ = replayed()
    loss = owner(run, [torch.randn(4, 3)], None).sum()
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="has one backward pass"):
        loss.backward()


def test_further_shapes_and_passes_without_gradient_run_as_they_are(graphs: type[Graphs]) -> None:
    owner, run, layer = replayed()
    with torch.no_grad():
        owner(run, [torch.randn(4, 3)], None)
    assert graphs.made == 0
    for rows in range(1, 7):
        x = torch.randn(rows, 3)
        output = owner(run, [x], None)
        torch.testing.assert_close(output, layer(x))
        output.sum().backward()
    assert graphs.made == 4
    layer.weight.requires_grad_(False)  # graphs of other weights
    owner(run, [torch.randn(1, 3)], None)
    assert graphs.made == 4


def test_a_copy_captures_anew(graphs: type[Graphs]) -> None:
    owner, run, layer = replayed()
    owner(run, [torch.randn(4, 3)], None).sum().backward()
    for other in (copy.deepcopy(owner), pickle.loads(pickle.dumps(owner))):
        assert not other._graphs
        assert other._backbone is not layer


def test_a_capture_adds_up_no_gradient_and_leaves_the_weights_as_they_are() -> None:
    layer = nn.Linear(3, 2)
    hooked: list[Tensor] = []
    layer.weight.register_post_accumulate_grad_hook(hooked.append)
    over = captured.OwnWeights(layer, lambda inputs: layer(inputs[0]))
    before = dict(layer.named_parameters())
    output = over.run([torch.ones(4, 3)])
    weight, bias = over.gradients(output, torch.ones_like(output))
    torch.testing.assert_close((weight, bias), (torch.full((2, 3), 4.0), torch.full((2,), 4.0)))
    assert (hooked, layer.weight.grad) == ([], None)
    assert all(value is before[name] for name, value in layer.named_parameters())
    with torch.no_grad():
        layer.weight.add_(1)
    torch.testing.assert_close(over.weights["backbone.weight"].data, layer.weight.data, rtol=0, atol=0)
