"""A pass as two CUDA graphs, forward and backward: a few calls of the host in place of a thousand."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_SHAPES = 4
"""Shapes of batches that have graphs; passes over further shapes run without."""
_WARM_UPS = 3
"""Passes before the capture, in which code is compiled and libraries choose their kernels."""

Run = Callable[[Sequence[Tensor]], Tensor]
"""A pass from tensors on the device, its only inputs beside the weights, to vectors (B, H)."""


class CapturedPass:
    """Runs of a backbone, each replayed from the graphs of its shapes.

    The graphs of all shapes share their memory. Therefore, while one pass waits for its backward pass, the next pass
    runs without graphs. Each replay draws new dropout masks from torch's generator.

    Args:
        backbone: the module whose parameters get a gradient.
    """

    def __init__(self, backbone: nn.Module) -> None:
        self._backbone = backbone
        self._weights = list(backbone.parameters())
        self._graphs: dict[Any, _Graphs] = {}
        self._waiting: weakref.ref[Any] | None = None
        """The pass whose backward pass is to come, as long as anything can ask for it."""

    def __reduce__(self) -> tuple[type[CapturedPass], tuple[nn.Module]]:
        """A copy captures anew."""
        return CapturedPass, (self._backbone,)

    def __call__(self, run: Run, inputs: Sequence[Tensor], more: Any) -> Tensor:
        """``run(inputs)``.

        Args:
            run: the pass.
            inputs: its tensors.
            more: whatever else it depends on, hashable.
        """
        weights = [weight for weight in self._weights if weight.requires_grad]
        is_waiting = self._waiting is not None and self._waiting() is not None
        if is_waiting or not weights or not torch.is_grad_enabled():
            return run(inputs)
        autocast = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else None
        places = [weight.data_ptr() for weight in weights]  # graphs hold addresses
        key = (more, autocast, self._backbone.training, *places, *(one.shape for one in inputs))
        if key not in self._graphs:
            if len(self._graphs) == _SHAPES:
                return run(inputs)
            pool = next((graphs.pool for graphs in self._graphs.values()), None)
            self._graphs[key] = _Graphs(OwnWeights(self._backbone, run), inputs, pool)
        output: Tensor = _Replayed.apply(self, self._graphs[key], inputs, *weights)
        return output


class OwnWeights(nn.Module):
    """A run over its own weight tensors, which share the memory of the backbone's weights.

    Autograd adds up the gradient of a weight in a node that belongs to the CUDA stream of the pass that made it. A loss
    that is kept, or a hook of DDP, keeps this node alive, and a capture cannot wait for its stream. New tensors get new
    nodes.
    """

    def __init__(self, backbone: nn.Module, run: Run) -> None:
        super().__init__()
        self.backbone, self._run = backbone, run
        trained = [name for name, weight in self.named_parameters() if weight.requires_grad]
        self.weights: dict[str, Tensor] = {name: nn.Parameter(self.get_parameter(name).detach()) for name in trained}

    def forward(self, inputs: Sequence[Tensor]) -> Tensor:
        """The run over the backbone's weights."""
        return self._run(inputs)

    def run(self, inputs: Sequence[Tensor]) -> Tensor:
        """The run over ``weights``."""
        output: Tensor = torch.func.functional_call(self, self.weights, (inputs,))
        return output

    def gradients(self, output: Tensor, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Of ``weights``, None for a weight without a part in the output."""
        return torch.autograd.grad(output, [*self.weights.values()], gradient, allow_unused=True)


class _Graphs:
    """The graphs of one shape, and the tensors that they read and write."""

    def __init__(self, over: OwnWeights, inputs: Sequence[Tensor], pool: Any) -> None:
        self.inputs = [one.clone() for one in inputs]
        self.forward, self.backward = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.random.fork_rng(devices=[inputs[0].device]):
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(_WARM_UPS):
                    output = over.run(self.inputs)
                    over.gradients(output, torch.zeros_like(output))
            torch.cuda.current_stream().wait_stream(stream)
            with torch.cuda.graph(self.forward, pool=pool):
                output = over.run(self.inputs)
            self.pool = self.forward.pool()
            self.output, self.gradient = output.detach(), torch.zeros_like(output)
            with torch.cuda.graph(self.backward, pool=self.pool):
                gradients = over.gradients(output, self.gradient)
                self._flat = torch.cat([found.flatten() for found in gradients if found is not None])
        self._shapes = [None if found is None else found.shape for found in gradients]

    def gradients(self) -> list[Tensor | None]:
        """The gradients of the last replay, in memory of their own: an accumulated one outlives the next replay."""
        sizes = [0 if shape is None else shape.numel() for shape in self._shapes]
        parts = self._flat.clone().split(sizes)
        return [None if shape is None else part.view(shape) for shape, part in zip(self._shapes, parts, strict=True)]


class _Replayed(torch.autograd.Function):
    """Replays graphs; the gradient goes to the weights."""

    @staticmethod
    def forward(ctx: Any, owner: CapturedPass, graphs: _Graphs, inputs: Sequence[Tensor], *weights: Tensor) -> Tensor:
        for place, one in zip(graphs.inputs, inputs, strict=True):
            place.copy_(one)
        graphs.forward.replay()
        ctx.owner, ctx.graphs = owner, graphs
        owner._waiting = weakref.ref(ctx)
        return graphs.output.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.owner._waiting is None or ctx.owner._waiting() is not ctx:
            raise RuntimeError("a pass in CUDA graphs has one backward pass; set model.encoder.compute.compile: true")
        ctx.graphs.gradient.copy_(gradient)
        ctx.graphs.backward.replay()
        ctx.owner._waiting = None
        return (*itertools.repeat(None, 3), *ctx.graphs.gradients())
