"""The terms of the loss, what each must be, and their weighted sum."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from sentrep import checks
from sentrep.config import Configurable, check_initialised
from sentrep.encoder import EncoderServices
from sentrep.errors import InputError
from sentrep.negatives import NegativeSampler
from sentrep.random import plugin_draws
from sentrep.types import EncoderSpec, Need, TextBatch, TokenBatch, Views

T = TypeVar("T")


class Objective(Configurable, nn.Module, ABC):
    """One term of the training loss: a function of the views, optionally with a state.

    Subclass it in your own file, write `forward`, and name the class in the configuration by ``class_path``. The
    encoder has already run when `forward` is called; the same pass serves all objectives.

    The class attributes below may also be set on an object before `build` ends, for example by an outer objective.

    Attributes:
        metrics: scalars of the last `forward` to log, by name: tensors of one number, or plain numbers.
        reads_tokens: whether `forward` reads ``token_states`` or ``input_embeddings`` of the encoder's output. Set
            False if it reads only vectors: this saves a part of the last layer, and with ``rows_at_once`` the
            memory of all tokens' states.
        reads_layers: the layers whose outputs `forward` reads (`EncoderOutput.layers`): 0 is the embedding layer, k the
            k-th, −1 the last. They are kept for all tokens of all views. `build` may set it, for `EncoderSpec.layers`.
        compiles: whether ``compile`` of the encoder's `Compute` compiles `forward` too. It should work on the same
            shapes in every step.
        projects_extra: whether `Views.projected` has the extra inputs' vectors after the projection head.
        parameter_options: settings of the optimiser for the objective's own parameters, for example ``{"lr": 1e-3}``,
            instead of the run's; the schedule scales the learning rate. Parameters shared with the encoder, for example
            tied word embeddings, keep the run's settings.
        step: number of optimiser steps before this one, which `SentRepModule` sets: the same on every process and after
            a resume.

    Examples:
        >>> import torch
        >>> from sentrep import Objective, Views
        >>> class Near(Objective):
        ...     def forward(self, views, batch):
        ...         return (views.anchor - views.positive).square().mean()
        >>> Near()(Views(torch.ones(2, 3), torch.zeros(2, 3), None, None, None), None)
        tensor(1.)
    """

    reads_tokens: bool = True
    reads_layers: tuple[int, ...] = ()
    compiles: bool = False
    projects_extra: bool = False
    parameter_options: Mapping[str, Any] = MappingProxyType({})

    def __init__(self) -> None:
        super().__init__()
        self.metrics: dict[str, Tensor | float] = {}
        self.step = 0

    def build(self, spec: EncoderSpec, services: EncoderServices) -> None:
        """Create parameters and buffers here; called once, before the optimiser is made.

        Args:
            spec: facts about the encoder and the run.
            services: second encoders, the masked-LM head and more of the encoder.
        """

    def extra_inputs(self, batch: TextBatch) -> dict[str, TokenBatch]:
        """More inputs for the shared pass; their outputs come back in `Views.extra` under the same keys."""
        return {}

    @abstractmethod
    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        """The term's value.

        Args:
            views: embeddings of this process's B sentences.
            batch: their tokens.

        Returns:
            Scalar float32. With several processes, a mean over this process's rows: the average over the processes is
            the global batch's loss.
        """

    def after_step(self, views: Views) -> None:
        """Called once per optimiser step, with the (detached) views of its last forward, without ``projected``."""


def between(width: int, other: int) -> nn.Module:
    """A map from vectors of one width to another: a linear layer, or the identity for equal widths."""
    return nn.Identity() if width == other else nn.Linear(width, other)


def draw_weights(module: nn.Module, std: float = 0.02) -> None:
    """Initialise a module like BERT: matrices from N(0, std²), biases 0; the scales of norms do not change."""
    for name, parameter in module.named_parameters():
        if parameter.ndim > 1:
            nn.init.normal_(parameter, std=std)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)


class WeightedSum(nn.Module):
    """L = Σ_k weight_k · L_k over named objectives, on one set of views.

    Args:
        objectives: by name, or a list (named after their classes, lower case); None entries are left out.
        weights: by name; 1 where not given.

    Raises:
        InputError: for no objective at all, two of one name, a weight for an objective that does not exist, or one
            objective or sampler object in two places.

    Examples:
        >>> from sentrep.objectives import Alignment, Uniformity, WeightedSum
        >>> terms = WeightedSum({"near": Alignment(), "even": Uniformity()}, weights={"even": 0.5})
        >>> terms.weights
        {'near': 1.0, 'even': 0.5}
    """

    def __init__(
        self,
        objectives: Mapping[str, Objective | None] | Sequence[Objective],
        weights: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__()
        terms = _named(objectives)
        if not terms:
            raise InputError(
                "no objective to train with: name at least one under model.objectives, for example Contrastive"
            )
        unknown = set(weights or {}) - set(terms)
        if unknown:
            raise InputError(f"weights for unknown objectives {sorted(unknown)}; the objectives are {sorted(terms)}")
        checks.within("model.weights", -checks.LARGEST, checks.LARGEST, open_below=False, **(weights or {}))
        for name, objective in terms.items():
            check_initialised(objective, f"objective {name!r}")
        self.terms = nn.ModuleDict(terms)
        _refuse_second_places(self.terms)
        self.weights = {name: float((weights or {}).get(name, 1.0)) for name in terms}
        if not any(self.weights.values()):
            raise InputError("model.weights: all are 0, so nothing is trained; give one objective a weight above 0")
        self._name = ""
        self._checked: set[str] = set()

    @property
    def need(self) -> Need:
        """The encoder outputs that any of the objectives reads."""
        terms = [objective for _, objective in self._objectives()]
        layers = {layer for objective in terms for layer in objective.reads_layers}
        return Need(any(objective.reads_tokens for objective in terms), tuple(sorted(layers)))

    def build(self, spec: EncoderSpec, services: EncoderServices) -> None:
        """Build every objective.

        Raises:
            InputError: for an objective that reads a layer which the encoder does not have.
        """
        self._project, self._name = services.project, spec.name
        for name, objective in self._objectives():
            objective.build(replace(spec, name=f"{spec.name}.{name}".lstrip(".")), services)
            for layer in objective.reads_layers:
                if not -spec.layers - 1 <= layer <= spec.layers:
                    raise InputError(
                        f"objective {name!r}: it reads layer {layer}, but the encoder has the layers 0 (the embedding "
                        f"layer) to {spec.layers}, or {-spec.layers - 1} to -1 from the end"
                    )

    def compile_terms(self) -> None:
        """Run the objectives that say that they can (`Objective.compiles`) through `torch.compile`."""
        for _, objective in self._objectives():
            if objective.compiles:
                objective.compile()

    def extra_inputs(self, batch: TextBatch) -> dict[str, TokenBatch]:
        """All extra inputs for the shared pass, by ``objective.key``; names of objectives have no dot."""
        found: dict[str, TokenBatch] = {}
        for name, objective in self._objectives():
            if type(objective).extra_inputs is Objective.extra_inputs:
                continue
            with plugin_draws(self._name, name, "extra", device=batch.anchor.input_ids.device):
                found |= {f"{name}.{key}": tokens for key, tokens in objective.extra_inputs(batch).items()}
        return found

    def forward(self, views: Views, batch: TextBatch) -> tuple[Tensor, dict[str, Tensor]]:
        """The total, and every term before weighting, by name.

        Raises:
            InputError: when an objective's first loss is no scalar with a gradient.
        """
        projected = dict(views.projected)
        for name, objective in self._objectives():
            if objective.projects_extra:
                wanted = [key for key in views.extra if key.startswith(f"{name}.")]
                projected |= {key: self._project(views.extra[key].embedding) for key in wanted}
        views, losses = replace(views, projected=projected), {}
        for name, objective in self._objectives():
            with plugin_draws(self._name, name, device=views.anchor.device):
                losses[name] = objective(own_views(views, name), batch)
        for name in losses.keys() - self._checked:
            check_term(name, type(self.terms[name]).__name__, losses[name])
            self._checked.add(name)
        return torch.stack(list(self.weighted(losses).values())).sum(), losses

    def weighted(self, losses: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """weight_k · L_k, by name: the summands of the total."""
        return {name: self.weights[name] * loss for name, loss in losses.items()}

    def after_step(self, views: Views) -> None:
        """Pass the end of an optimiser step on."""
        for name, objective in self._objectives():
            objective.after_step(own_views(views, name))

    def metrics(self) -> dict[str, Tensor]:
        """The metrics of all objectives, as ``objective/metric``; scalars, detached.

        Raises:
            InputError: for a metric that is neither a number nor a scalar tensor.
        """
        return {
            f"{n}/{key}": check_metric(n, key, value) for n, o in self._objectives() for key, value in o.metrics.items()
        }

    def _objectives(self) -> Iterable[tuple[str, Objective]]:
        return cast("Iterable[tuple[str, Objective]]", self.terms.items())


def own_views(views: Views, name: str) -> Views:
    """The views with the extra inputs of one objective alone, under its own keys."""
    if not views.extra:
        return views
    prefix = f"{name}."

    def own(found: dict[str, T]) -> dict[str, T]:
        return {key.removeprefix(prefix): value for key, value in found.items() if key.startswith(prefix)}

    return replace(views, extra=own(views.extra), projected=own(views.projected))


def _named(objectives: Mapping[str, Objective | None] | Sequence[Objective]) -> dict[str, Objective]:
    if isinstance(objectives, Mapping):
        return {name: objective for name, objective in objectives.items() if objective is not None}
    terms: dict[str, Objective] = {}
    for objective in objectives:
        name = type(objective).__name__.lower()
        if name in terms:
            raise InputError(f"two objectives of class {type(objective).__name__}: give them names, as a dict")
        terms[name] = objective
    return terms


def _refuse_second_places(terms: nn.ModuleDict) -> None:
    """Refuse one objective or sampler object in two places: it would be updated twice per optimiser step."""
    places: dict[int, str] = {}
    for place, part in terms.named_modules(remove_duplicate=False):
        if isinstance(part, Objective | NegativeSampler) and (first := places.setdefault(id(part), place)) != place:
            raise InputError(
                f"objectives: {first} and {place} are one {type(part).__name__} object, which would be updated twice a "
                "step; make an object for each"
            )


def check_term(name: str, kind: str, loss: Any) -> None:
    """Refuse a loss that would silently train nothing, or something else.

    Args:
        name: of the objective in the configuration.
        kind: its class, for the message.
        loss: the result of its `forward`.

    Raises:
        InputError: for anything but a scalar tensor of floating point with a gradient.
    """
    if problem := _problem(loss):
        raise InputError(f"objective {name!r}: {kind}.forward returned {problem}")


def check_metric(name: str, metric: str, value: Any) -> Tensor:
    """A metric of an objective as a scalar tensor without gradient; plain numbers are converted.

    Raises:
        InputError: for anything else.
    """
    if isinstance(value, (int, float)):
        return torch.tensor(float(value))
    if isinstance(value, Tensor) and value.numel() == 1:
        return value.detach().reshape(())
    found = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
    raise InputError(f"objective {name!r}: its metric {metric!r} is {found}; expected a scalar tensor or a number")


def _problem(loss: Any) -> str | None:
    if loss is None:
        return "None; return the loss"
    if not isinstance(loss, Tensor):
        return f"a {type(loss).__name__}; return a scalar tensor that depends on the views"
    if loss.ndim:
        return f"a tensor of shape {tuple(loss.shape)}; return a scalar, say its mean()"
    if not loss.is_floating_point():
        return f"a tensor of {str(loss.dtype).removeprefix('torch.')}; return one of floating point"
    if torch.is_grad_enabled() and not loss.requires_grad:
        return "a loss without gradient, so it trains nothing; compute it from the views, without detach() or no_grad()"
    return None
