"""Checks of plug-ins for their authors' tests: each trains a plug-in in a small module, and reports what failed."""

from __future__ import annotations

import copy
import faulthandler
import io
import math
import multiprocessing
import os
import random as python_random
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import torch.distributed as dist
from jsonargparse import ArgumentParser
from torch import Tensor, nn
from torch.multiprocessing import start_processes
from torch.utils._python_dispatch import TorchDispatchMode

from sentrep import distributed, random
from sentrep.config import to_config
from sentrep.data import toy
from sentrep.encoder import SentenceEncoder
from sentrep.encoder.encode import pad
from sentrep.module import SentRepModule
from sentrep.negatives import NegativeSampler
from sentrep.objectives import Contrastive, Objective
from sentrep.types import TextBatch, TokenBatch, Views
from sentrep.views import ViewMaker

__all__ = ["check_objective", "check_sampler", "check_view", "run_processes"]

# A server that has imported everything once, and of which every process is a fork: an import takes seconds.
_START = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
multiprocessing.get_context(_START).set_forkserver_preload(["sentrep.testing"])

_SMALL = {
    "model_type": "bert", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48,
}  # fmt: skip
_ROWS = 6
"""Sentences of a batch."""


def check_objective(
    objective: Callable[..., Objective],
    *,
    encoder: SentenceEncoder | None = None,
    skip: Collection[str] = (),
    **arguments: Any,
) -> None:
    """Check what `sentrep.Objective` promises; see the table in docs/writing/objective.md.

    Args:
        objective: the class, defined in a module that other processes can import.
        encoder: the encoder that the objective needs; None for a small BERT with random weights.
        skip: names of checks to leave out, for example ``processes`` for an objective that draws for each rank.
        arguments: of the objective's constructor.

    Raises:
        AssertionError: for failed checks; the message names each check and the reason.

    Examples:
        >>> from sentrep.objectives import Alignment
        >>> check_objective(Alignment, skip=["processes", "compiled"])
    """
    own = ("value", "gradient", "parameters", "inputs", "rows", "half", "waits", "graph", "names", "compiled")
    _check(_Case(Objective, objective, arguments, encoder), (*own, *_EVERY), skip)


def check_sampler(
    sampler: Callable[..., NegativeSampler],
    *,
    encoder: SentenceEncoder | None = None,
    skip: Collection[str] = (),
    **arguments: Any,
) -> None:
    """Check what `sentrep.NegativeSampler` promises, as the only sampler of a `Contrastive`.

    Args:
        sampler: the class, defined in a module that other processes can import.
        encoder: see `check_objective`.
        skip: names of checks to leave out.
        arguments: of the sampler's constructor.

    Raises:
        AssertionError: for failed checks; the message names each check and the reason.
    """
    own = ("value", "gradient", "inputs", "rows", "half", "waits", "graph", "names", "drawn")
    _check(_Case(NegativeSampler, sampler, arguments, encoder), (*own, *_EVERY), skip)


def check_view(
    view: Callable[..., ViewMaker],
    *,
    encoder: SentenceEncoder | None = None,
    pairs: bool = True,
    skip: Collection[str] = (),
    **arguments: Any,
) -> None:
    """Check what `sentrep.ViewMaker` promises, with `Contrastive` as the objective.

    Args:
        view: the class, defined in a module that other processes can import.
        encoder: see `check_objective`.
        pairs: whether batches have positives and hard negatives; False for views of plain text.
        skip: names of checks to leave out, for example ``processes`` for views that draw for each rank.
        arguments: of the view maker's constructor.

    Raises:
        AssertionError: for failed checks; the message names each check and the reason.
    """
    own = ("value", "gradient", "inputs", "bfloat16", "graph", "views")
    _check(_Case(ViewMaker, view, arguments, encoder, pairs), (*own, *_EVERY), skip)


class _Case:
    """A plug-in in a module, made anew for every check."""

    def __init__(
        self,
        kind: type,
        plugin: Callable[..., Any],
        arguments: Mapping[str, Any],
        encoder: SentenceEncoder | None,
        pairs: bool = True,
    ) -> None:
        self.kind, self.plugin, self.arguments, self.pairs = kind, plugin, arguments, pairs
        torch.manual_seed(0)
        self.encoder = encoder or SentenceEncoder(dict(_SMALL), tokenizer="toy", dropout=0.0)

    def made(self) -> Any:
        return self.plugin(**copy.deepcopy(dict(self.arguments)))

    def module(self, name: str = "checked") -> SentRepModule:
        torch.manual_seed(0)
        encoder = copy.deepcopy(self.encoder, {id(self.encoder.tokenize): self.encoder.tokenize})
        plugin = self.made()
        if self.kind is Objective:
            return SentRepModule(encoder, {name: plugin}, seed=3)
        if self.kind is NegativeSampler:
            return SentRepModule(encoder, {name: Contrastive(negatives={name: plugin})}, seed=3)
        return SentRepModule(encoder, {"contrastive": Contrastive()}, views=plugin, seed=3)

    def batch(self, module: SentRepModule, step: int = 0) -> TextBatch:
        """Other sentences for each step; with positives and hard negatives, if `pairs`."""
        tokenize, length = module.encoder.tokenize, 3 * _ROWS
        ids, _ = tokenize(toy.sentences(length * (step + 1))[-length:], module.encoder.max_length)
        anchor, *pair = (pad(ids[i : i + _ROWS], tokenize.pad_token_id) for i in range(0, length, _ROWS))
        positive, negative = pair if self.pairs else (None, None)
        return TextBatch(anchor, positive, negative, torch.arange(_ROWS))

    def held(self, module: SentRepModule) -> nn.Module:
        """The module that contains the plug-in."""
        return module.views if self.kind is ViewMaker else module.objectives


def _check(case: _Case, checks: Collection[str], skip: Collection[str]) -> None:
    if unknown := set(skip) - set(checks):
        raise ValueError(f"skip: unknown checks {sorted(unknown)}; the checks are {', '.join(checks)}")
    failed: dict[str, str] = {}
    for name in checks:
        if name in skip:
            continue
        try:
            globals()[f"_check_{name}"](case)
        except Exception as error:  # a plug-in may fail in any way, and the other checks still say more
            failed[name] = str(error) if isinstance(error, _Failed) else f"{type(error).__name__}: {error}"
    if failed:
        lines = [f"  {name}: {reason}" for name, reason in failed.items()]
        who = getattr(case.plugin, "__name__", str(case.plugin))
        raise AssertionError("\n".join([f"{who} failed {len(failed)} of {len(checks) - len(skip)} checks", *lines]))


class _Failed(Exception):  # noqa: N818 (a finding, whose text is the report)
    """A fault that a check found."""


def _views(module: SentRepModule, batch: TextBatch) -> Views:
    with random.step_draws(3, 0, 0, torch.device("cpu")):
        return module.views_of(batch)


def _loss(module: SentRepModule, views: Views, batch: TextBatch) -> Tensor:
    with random.step_draws(3, 0, 0, torch.device("cpu")):
        loss, _ = module.objectives(views, batch)
    return loss


def _steps(case: _Case, module: SentRepModule, first: int, last: int) -> list[float]:
    """Train some steps, and return the losses."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    optimizer, losses = torch.optim.SGD(trained, lr=0.01), []
    for step in range(first, last):
        terms = module.compute_terms(case.batch(module, step), step)
        optimizer.zero_grad()
        terms.loss.backward()
        optimizer.step()
        module.end_step(terms.views)
        losses.append(terms.loss.item())
    return losses


def _tensors(value: Any, place: str) -> Iterator[tuple[str, Tensor]]:
    """The tensors within containers and dataclasses, with their places."""
    if isinstance(value, Tensor):
        yield place, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _tensors(part, f"{place}.{key}")
    elif isinstance(value, (list, tuple)):
        for number, part in enumerate(value):
            yield from _tensors(part, f"{place}[{number}]")
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _tensors(vars(value).get(field.name), f"{place}.{field.name}")


def _check_value(case: _Case) -> None:
    """The loss is a finite scalar of float32, and metrics are scalars."""
    module = case.module()
    for step in range(2):
        terms = module.compute_terms(case.batch(module, step), step)
        if terms.loss.dtype != torch.float32:
            raise _Failed(f"the loss is {terms.loss.dtype}; compute it in float32")
        if not math.isfinite(terms.loss.item()):
            raise _Failed(f"the loss is {terms.loss.item()}")
        for name, value in module.objectives.metrics().items():
            if name.endswith("/weighted"):
                raise _Failed("a metric is named 'weighted', a name under which the weighted loss is logged")
            if not value.isfinite():
                raise _Failed(f"the metric {name.partition('/')[2]!r} is {value.item()}")
        module.end_step(terms.views)


def _check_gradient(case: _Case) -> None:
    """A gradient reaches the encoder."""
    module = case.module()
    for step in range(2):
        terms = module.compute_terms(case.batch(module, step), step)
        module.end_step(terms.views)
    terms.loss.backward()
    gradients = [parameter.grad for parameter in module.encoder.parameters() if parameter.grad is not None]
    if not all(gradient.isfinite().all() for gradient in gradients):
        raise _Failed("the encoder's gradient is not finite")
    if not any(gradient.any() for gradient in gradients):
        raise _Failed("no gradient reaches the encoder; compute the loss from the views, without detach() or no_grad()")


def _check_parameters(case: _Case) -> None:
    """`forward` creates no parameter or buffer, which the optimiser and a checkpoint would miss."""
    module = case.module()
    before = set(module.state_dict())
    _steps(case, module, 0, 1)
    if made := set(module.state_dict()) - before:
        raise _Failed(f"a step created {', '.join(sorted(made))}; create parameters and buffers in build")


def _check_inputs(case: _Case) -> None:
    """Neither views nor tokens are changed in place."""
    module = case.module()
    batch = case.batch(module)
    views = _views(module, batch)
    inputs = [*_tensors(views, "views"), *_tensors(batch, "batch")]
    copies = [tensor.clone() for _, tensor in inputs]
    _loss(module, views, batch)
    for (place, tensor), before in zip(inputs, copies, strict=True):
        if not torch.equal(tensor.nan_to_num(), before.nan_to_num()):
            raise _Failed(f"{place} was changed in place; other objectives read it too")


def _check_rows(case: _Case) -> None:
    """Rows that are equal, or a vector of zeros, give a finite loss and gradient."""
    for what in ("an anchor equals its positive", "two sentences are equal", "a vector is zero"):
        module = case.module()
        batch = case.batch(module)
        views = _views(module, batch)
        anchor, positive = views.anchor.detach().clone(), views.positive.detach().clone()
        if what == "an anchor equals its positive":
            positive[1] = anchor[1]
        elif what == "two sentences are equal":
            anchor[1], positive[1] = anchor[2], positive[2]
        else:
            anchor[1] = 0
        leaves = [anchor.requires_grad_(), positive.requires_grad_()]
        loss = _loss(module, replace(views, anchor=anchor, positive=positive), batch)
        loss.backward()
        found = [loss, *(leaf.grad for leaf in leaves if leaf.grad is not None)]
        if not all(tensor.isfinite().all() for tensor in found):
            raise _Failed(f"loss or gradient is not finite where {what}")


def _check_bfloat16(case: _Case) -> None:
    """The loss under autocast is near the loss in float32."""
    losses = []
    for enabled in (False, True):
        module = case.module()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            losses.append(module.compute_terms(case.batch(module), 0).loss)
    full, half = losses
    if half.dtype != torch.float32 or not torch.isclose(half, full, rtol=0.2, atol=0.05):
        raise _Failed(f"under bfloat16 autocast the loss is {half.item():.4g} in {half.dtype}, not {full.item():.4g}")


def _check_half(case: _Case) -> None:
    """The loss under autocast is near the loss in float32, also for long vectors in float16."""
    _check_bfloat16(case)
    module = case.module()
    batch = case.batch(module)
    views = _views(module, batch)

    def long(vectors: Tensor) -> Tensor:
        return (300 * vectors / vectors.norm(dim=1, keepdim=True)).half()

    views = replace(views, anchor=long(views.anchor), positive=long(views.positive))
    with torch.autocast("cpu", dtype=torch.float16):
        half = _loss(module, views, batch)
    full = _loss(module, replace(views, anchor=views.anchor.float(), positive=views.positive.float()), batch)
    if full.isfinite() and not torch.isclose(half.float(), full, rtol=0.2, atol=0.05):
        raise _Failed(
            f"for vectors of norm 300 in float16 the loss is {half.item():.4g}, not {full.item():.4g}; compute in "
            "float32 (sentrep.functional does)"
        )


class _NoWaiting(TorchDispatchMode):
    """Refuses operations for whose result the host waits on a GPU."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        by_mask = name == "index" and any(i is not None and i.dtype == torch.bool for i in args[1])
        if by_mask or name in ("_local_scalar_dense", "nonzero", "masked_select", "equal", "_unique2", "unique_dim"):
            raise _Failed(f"it waits for the device ({'an index by a mask' if by_mask else name}) in every step")
        return func(*args, **(kwargs or {}))


def _check_waits(case: _Case) -> None:
    """`forward` waits for no result on the host: no ``.item()``, ``float()``, ``if tensor``, ``.tolist()``."""
    module = case.module()
    batch = case.batch(module)
    views = _views(module, batch)
    _loss(module, views, batch)  # the first call checks more

    def refuse(name: str) -> Callable[..., Any]:
        def method(*_: Any, **__: Any) -> Any:
            raise _Failed(f"it waits for the device (.{name}()) in every step")

        return method

    methods: dict[str, Any] = {name: refuse(name) for name in ("tolist", "numpy", "cpu")}
    with _NoWaiting(), patch.multiple(Tensor, **methods):
        _loss(module, views, batch)


def _check_graph(case: _Case) -> None:
    """No attribute keeps the autograd graph of a step."""
    module = case.module()
    terms = module.compute_terms(case.batch(module), 0)
    module.end_step(terms.views)
    for name, part in case.held(module).named_modules():
        for place, tensor in _tensors(vars(part), name or type(part).__name__):
            if tensor.grad_fn is not None:
                raise _Failed(f"{place} keeps the autograd graph, and so the memory, of a step; store x.detach()")


def _check_names(case: _Case) -> None:
    """Two objects under two names draw from streams of their own."""
    streams = []
    for name in ("first", "second"):
        with patch.object(random, "derive_seed", wraps=random.derive_seed) as derive:
            _steps(case, case.module(name), 0, 2)
        found = {call.args for call in derive.call_args_list}
        streams.append({parts for parts in found if parts[1] not in ("step", "lm_head")})
    if shared := streams[0] & streams[1]:
        parts = "/".join(map(str, min(shared, key=str)[1:]))
        raise _Failed(f"two objects of the class draw the same numbers, from the stream {parts!r}; use spec.name in it")


def _check_draws(case: _Case) -> None:
    """Losses depend on the run's seed, not on the state of the global generators."""
    losses = []
    for seed in (1, 2):
        module = case.module()
        torch.manual_seed(seed)
        python_random.seed(seed)
        np.random.seed(seed)
        losses.append(_steps(case, module, 0, 3))
    if losses[0] != losses[1]:
        raise _Failed("the losses of one seed differ: it draws from a global generator that no step seeds")


def _check_resume(case: _Case) -> None:
    """A module that loads a checkpoint continues as the uninterrupted one, bit for bit."""
    whole, resumed = case.module(), case.module()
    _steps(case, whole, 0, 2)
    file = io.BytesIO()
    torch.save(whole.state_dict(), file)
    file.seek(0)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    if (losses := _steps(case, whole, 2, 4)) != (again := _steps(case, resumed, 2, 4)):
        raise _Failed(
            f"after a resume the losses are {again}, not {losses}: a state is missing from the checkpoint; make it a "
            "buffer, or write get_extra_state and set_extra_state"
        )


def _check_configuration(case: _Case) -> None:
    """The constructor's arguments go through YAML."""
    plugin = case.made()
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--plugin", type=case.kind)
    written = parser.dump(parser.parse_object({"plugin": to_config(plugin)}))
    again = parser.instantiate(parser.parse_string(written)).plugin
    if type(again) is not type(plugin) or to_config(again) != to_config(plugin):
        raise _Failed(f"its configuration comes back from YAML as {to_config(again)}, not {to_config(plugin)}")


def _check_compiled(case: _Case) -> None:
    """`forward` under ``torch.compile`` gives the same loss, where `compiles` allows it."""
    torch.compiler.reset()  # torch runs a function eagerly after eight programs of it
    eager, compiled = case.module(), case.module()
    for objective in compiled.objectives.terms.values():
        if objective.compiles:
            objective.compile(backend="eager")
    expected, found = _steps(case, eager, 0, 2), _steps(case, compiled, 0, 2)
    if not np.allclose(found, expected, rtol=1e-5, atol=1e-6):
        raise _Failed(f"compiled, the losses are {found}, not {expected}")


def _check_drawn(case: _Case) -> None:
    """Negatives are of float32 and a step's own: the same in every call of the step."""
    module = case.module()
    _steps(case, module, 0, 2)
    contrastive: Any = module.objectives.terms["checked"]
    sampler = contrastive.negatives["checked"]
    anchors, keys = torch.randn(2, _ROWS, 32, generator=torch.Generator().manual_seed(0)).unbind()
    first, again = sampler.sample(anchors, keys), sampler.sample(anchors, keys)
    if first.dtype != torch.float32:
        raise _Failed(f"sample returned {first.dtype}; return float32")
    if not torch.equal(first, again):
        raise _Failed("two calls of sample in one step differ; draw from self.generator(device)")


def _check_views(case: _Case) -> None:
    """There is a vector for each sentence, and the outputs of extra inputs come back."""
    module = case.module()
    batch = case.batch(module)
    views = module.views(module.encoder, batch, {"more": batch.anchor}, module.objectives.need)
    shape = (_ROWS, module.encoder.spec(0).embedding_dim)
    for name in ("anchor", "positive"):
        if (found := tuple(getattr(views, name).shape)) != shape:
            raise _Failed(f"Views.{name} has shape {found}; expected {shape}")
    if len(views.extra["more"].embedding) != _ROWS:
        raise _Failed("Views.extra does not have the rows of the extra input")


def _check_processes(case: _Case) -> None:
    """Two processes with half a batch each have the loss and the gradient of one process with the whole batch."""
    loss, gradients = _whole(case)
    for other, found in run_processes(_whole, 2, case):
        if not torch.allclose(other, loss, rtol=0, atol=1e-6):
            raise _Failed(
                f"two processes have the loss {other.item():.6g}, one process {loss.item():.6g}: compare own rows with "
                "the rows of all processes (distributed.gather), return the mean over own rows, and draw numbers for "
                "all processes from sentrep.random.step_generator"
            )
        for name, gradient in gradients.items():
            if name not in found or not torch.allclose(found[name], gradient, rtol=0, atol=1e-6):
                raise _Failed(f"two processes have another gradient of {name} than one process; gather with gradient")


def _whole(case: _Case) -> tuple[Tensor, dict[str, Tensor]]:
    module = case.module()
    with random.step_draws(3, 0, 0, torch.device("cpu")):
        return loss_and_gradients(module, case.batch(module))


_EVERY = ("configuration", "draws", "resume", "processes")


def loss_and_gradients(module: SentRepModule, batch: TextBatch) -> tuple[Tensor, dict[str, Tensor]]:
    """Mean over the processes of loss and gradients, each process holding its share of the global ``batch``.

    In float64: float32 leaves rounding of 4e-6 after the division by τ.
    """
    module.double()
    part = own_share(batch)
    views = module.views_of(part)
    loss, _ = module.objectives(views, part)
    loss.backward()
    loss, gradients = loss.detach(), {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
    if distributed.world_size() > 1:  # what DDP does
        for tensor in (loss, *gradients.values()):
            dist.all_reduce(tensor)
            tensor /= distributed.world_size()
    return loss, gradients


def own_share(batch: TextBatch) -> TextBatch:
    """This process's rows of a global batch."""
    rows = distributed.own_rows(len(batch) // distributed.world_size(), batch.rows.device)

    def part(tokens: TokenBatch | None) -> TokenBatch | None:
        return None if tokens is None else TokenBatch(tokens.input_ids[rows], tokens.attention_mask[rows])

    anchor = part(batch.anchor)
    assert anchor is not None
    return TextBatch(anchor, part(batch.positive), part(batch.negative), batch.rows[rows])


def run_processes(function: Callable[..., Any], world: int, *arguments: Any) -> list[Any]:
    """Return the results of ``function(*arguments)`` on ``world`` processes of one gloo group, by rank.

    The processes run on the CPU of this machine.

    Args:
        function: a function of a module; it returns tensors and plain data.
        world: number of processes.
        arguments: picklable values.

    Raises:
        torch.multiprocessing.ProcessRaisedException: the error of the process that failed first.
        torch.multiprocessing.ProcessExitedException: the exit status of a process that ended without an error.
    """
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ)  # the fork server has the environment of its start
        start_processes(_in_group, (environment, world, folder, function, arguments), world, start_method=_START)
        return [torch.load(f"{folder}/result{rank}.pt", weights_only=True) for rank in range(world)]


def _in_group(
    rank: int,
    environment: dict[str, str],
    world: int,
    folder: str,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    os.environ.clear()
    os.environ.update(environment, OMP_NUM_THREADS="1")
    torch.set_num_threads(1)
    faulthandler.enable()  # else a crash in gloo's or torch's own code leaves no trace
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world)
    try:
        torch.save(function(*arguments), f"{folder}/result{rank}.pt")
    finally:
        dist.destroy_process_group()
