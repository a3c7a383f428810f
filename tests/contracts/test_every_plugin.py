"""Every objective, weighting and view on three processes against one: the same loss and gradients."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from lightning.pytorch.plugins import DoublePrecision, HalfPrecision, Precision
from plugins import SMALL, VIEWS, behind, objectives
from samplers import KINDS
from torch import Tensor

import sentrep.negatives
import sentrep.objectives
import sentrep.views
import sentrep.weighting
from contracts.test_grad_cache import ANCHORS, NEGATIVES, POSITIVES, Result
from sentrep import InputError, Objective, SentRepModule
from sentrep.objectives import (
    Alignment,
    Contrastive,
    Denoising,
    InformationReconstruction,
    MaskedLanguageModeling,
    ReplacedTokenDetection,
)
from support import assert_equal_to_one_process, loss_and_gradients, run_processes, text_batch, tiny_encoder

PLUGINS: list[ModuleType] = [sentrep.objectives, sentrep.negatives, sentrep.weighting, sentrep.views]


def every_objective(teacher: str) -> dict[str, Callable[[], Objective]]:
    """Those of the GradCache tests, without draws that depend on how many rows a process has."""
    return {
        **objectives(teacher),
        "denoising": lambda: Denoising(**SMALL, dropout=0.0, noise=0.0),
        "tsdae": lambda: Denoising(**SMALL, dropout=0.0, noise=0.0, target="anchor", causal=True),
        "information": lambda: InformationReconstruction(**SMALL, layer=1, dropout=0.0, probability=0.9999999),
        "replaced tokens": lambda: ReplacedTokenDetection(probability=0.9999999),  # all words
        "mlm": lambda: MaskedLanguageModeling(0.9999999, mask=1, random=0),  # all words
        "mlm, both copies": lambda: MaskedLanguageModeling(0.9999999, mask=1, random=0, both_copies=True),
    }


NAMES = [*every_objective(""), *(f"view: {name}" for name in VIEWS)]


def build(name: str, teacher: str) -> tuple[SentRepModule, bool]:
    """One of `NAMES`, and whether positives and hard negatives are given."""
    view = name.removeprefix("view: ")
    encoder = tiny_encoder(dropout=0.0, pooling="mean", modules=behind(name))
    if view == name:
        return SentRepModule(encoder, {"term": every_objective(teacher)[name]()}), True
    made: dict[str, Objective | None] = {"contrastive": Contrastive(), "alignment": Alignment()}
    if view == "extra inputs only":
        made = {"mlm": every_objective(teacher)["mlm"]()}
    return SentRepModule(encoder, made, views=VIEWS[view]()), "output" not in view


@contextmanager
def same_draws_for_every_row() -> Iterator[None]:
    """Random numbers that depend neither on the row nor on the number of rows; a sampler's own generator is let be."""
    rand, randn = torch.rand, torch.randn

    def row(draw: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def drawn(*shape: Any, **options: Any) -> Tensor:
            if options.get("generator") is not None:
                return draw(*shape, **options)
            sizes = tuple(shape[0]) if isinstance(shape[0], (tuple, list)) else shape
            return draw(1, *sizes[1:], **options).expand(sizes).clone()

        return drawn

    def dropped(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        return x * (rand(1, *x.shape[1:]) >= p) / (1 - p) if training and p else x

    replaced = {"rand": row(rand), "randn": row(randn), "randn_like": lambda x: row(randn)(x.shape, dtype=x.dtype)}
    with ExitStack() as stack:
        for name, draw in replaced.items():
            stack.enter_context(patch.object(torch, name, draw))
        stack.enter_context(patch.object(F, "dropout", dropped))
        yield


def results(teacher: str) -> dict[str, Result]:
    """Of one step of each module; each process holds its share of 12 rows. `negatives/test_processes` has samplers."""
    found = {}
    for name in NAMES:
        if name.removeprefix("contrastive, ") in KINDS:
            continue
        module, given = build(name, teacher)
        batch = text_batch(module.encoder, ANCHORS, *([POSITIVES, NEGATIVES] if given else []))
        torch.manual_seed(5)
        with same_draws_for_every_row():
            found[name] = loss_and_gradients(module, batch)
    return found


@pytest.mark.slow
def test_all_on_three_processes_equal_one(teacher: str) -> None:
    """The one in the middle has rows of others before and after its own."""
    shares = run_processes(results, 3, teacher)
    for name, (loss, gradients) in results(teacher).items():
        assert gradients, name
        # a teacher computes in float32, whose rounding depends on how many rows come together
        atol = 1e-6 if name.startswith("distillation") else 1e-10
        try:
            assert_equal_to_one_process([share[name] for share in shares], loss, gradients, atol)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None


@pytest.mark.parametrize("precision", [HalfPrecision("bf16-true"), DoublePrecision()], ids=["bf16-true", "64-true"])
@pytest.mark.parametrize("name", NAMES)
def test_all_take_steps_in_one_precision(name: str, precision: Precision, teacher: str) -> None:
    """Lightning casts the module, and makes the precision the default of new tensors within a step."""
    module, given = build(name, teacher)
    precision.convert_module(module)
    batch = text_batch(module.encoder, ANCHORS, *([POSITIVES, NEGATIVES] if given else []))
    for step in range(3):  # samplers draw from what they have seen
        with precision.forward_context():
            terms = module.compute_terms(batch, step)
            terms.loss.backward()
            module.end_step(terms.views)
        assert terms.loss.dtype == (torch.float64 if precision.precision == "64-true" else torch.float32)
        assert terms.loss.isfinite()
        assert all(p.grad is None or p.grad.isfinite().all() for p in module.parameters())


@pytest.mark.parametrize("name", every_objective(""))
def test_who_reads_the_states_of_tokens_says_so_and_nobody_else(name: str, teacher: str) -> None:
    """A needless ``reads_tokens`` costs a part of the last layer."""
    module, _ = build(name, teacher)
    objective: Any = module.objectives.terms["term"]
    says, objective.reads_tokens = objective.reads_tokens, False
    batch = text_batch(module.encoder, ANCHORS, POSITIVES, NEGATIVES)
    with pytest.raises(InputError, match="must say reads_tokens") if says else nullcontext():
        module.compute_terms(batch, 0)


def test_no_plugin_is_left_out(teacher: str) -> None:
    """A new class that the package exports has to be added above."""
    exported = {getattr(package, name) for package in PLUGINS for name in package.__all__}
    plugins = {kind for kind in exported if inspect.isclass(kind) and not inspect.isabstract(kind)}
    assert len(plugins) > 20
    made = [make() for make in (*every_objective(teacher).values(), *VIEWS.values())]
    used = {type(part) for plugin in made for part in plugin.modules()}
    assert plugins <= used, {kind.__name__ for kind in plugins - used}
