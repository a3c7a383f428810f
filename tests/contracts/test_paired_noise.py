"""Rows of one seed are paired: every plug-in draws in a stream of its own, and leaves the encoder's dropout alone."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from plugins import SMALL, behind, objectives
from torch import Tensor

import sentrep.views
from contracts.test_objectives import NAMES
from sentrep import Objective, Perturbation, SentRepModule, TextBatch, TokenAugmentation, TokenBatch, ViewMaker, Views
from sentrep.encoder import Prompt
from sentrep.objectives import Contrastive, Denoising, MaskedLanguageModeling
from sentrep.types import StepTerms
from sentrep.views import (
    EncodedViews,
    GaussianNoise,
    OutputPerturbedViews,
    TokenCutoff,
    TokenDeletion,
    TokenSwap,
    WordRepetition,
)
from support import run_processes, text_batch, tiny_encoder, toy_sentences

CHANGES = [
    kind
    for kind in (getattr(sentrep.views, name) for name in sentrep.views.__all__)
    if issubclass(kind, Perturbation | TokenAugmentation) and not inspect.isabstract(kind)
]
"""Every change of the input or of the vectors."""
INPUT = [kind for kind in CHANGES if issubclass(kind, Perturbation) and "input" in kind.places]
LENGTHEN = [TokenDeletion, WordRepetition]
"""With these the pass reads other tokens, and so has other dropout."""
VIEWS: dict[str, Callable[[], ViewMaker]] = {
    **{kind.__name__: lambda kind=kind: EncodedViews([kind()]) for kind in INPUT},  # type: ignore[misc]
    "TokenSwap": lambda: EncodedViews([TokenSwap(0.5)]),
    "several": lambda: EncodedViews([TokenSwap(0.5), GaussianNoise(1e-12), TokenCutoff()]),
    "of the anchor": lambda: EncodedViews(anchor_augmentations=[GaussianNoise(1e-45)]),
}
WAYS: dict[str, dict[str, Any]] = {
    "default": {},
    "padded": {"layout": "padded"},
    "last": {"pooling": "last"},
    "last, padded": {"pooling": "last", "layout": "padded"},
    "gradient caching": {"rows_at_once": 5},
    "template": {"pooling": "mask", "prompt": Prompt('"[X]" means [MASK].', subtract=True)},
}


class DrawingTokens(TokenAugmentation):
    """Draws, and changes nothing."""

    def forward(self, tokens: TokenBatch) -> TokenBatch:
        self.drawn = torch.rand(2)
        return tokens


class DrawingNoise(Perturbation):
    """Draws, and changes nothing."""

    def forward(self, x: Tensor, mask: Tensor, loss_fn: Any) -> Tensor:
        self.drawn = torch.rand(2)
        return x


class DrawingTerm(Objective):
    """Draws before the pass and after it."""

    reads_tokens = False

    def extra_inputs(self, batch: TextBatch) -> dict[str, TokenBatch]:
        self.before = torch.rand(2)
        return {}

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        self.drawn = torch.rand(2)
        return views.anchor.mean()


def built(*terms: Objective, seed: int = 3, views: ViewMaker | None = None, **encoder: Any) -> SentRepModule:
    """A module whose last objective has the name ``term`` (that of SimCSE where none is given)."""
    named = {f"before{number}": term for number, term in enumerate(terms[:-1])}
    named["term"] = terms[-1] if terms else Contrastive()
    return SentRepModule(tiny_encoder(**encoder), named, views=views, seed=seed)


def step(module: SentRepModule, index: int = 0, negatives: bool = False, batch: TextBatch | None = None) -> StepTerms:
    """One training step; every process has the same sentences."""
    texts = toy_sentences(12)
    batch = batch or text_batch(module.encoder, texts[:6], negatives=texts[6:] if negatives else None)
    return module.compute_terms(batch, index)


def anchor(**how: Any) -> Tensor:
    """The anchors of one step."""
    return step(built(**how)).views.anchor


def anchor_and_plain(term: Objective, name: str) -> tuple[Tensor, Tensor]:
    """The anchors beside an objective, and those beside SimCSE alone in a pass over the same rows."""
    hard = name == "bidirectional margin"
    module = built(term, modules=behind(name))
    more, extra = {}, module.objectives.extra_inputs

    def noted(batch: TextBatch) -> dict[str, TokenBatch]:
        more.update(extra(batch))
        return more

    module.objectives.extra_inputs = noted  # type: ignore[method-assign]
    found = step(module, negatives=hard).views.anchor
    plain = built(modules=behind(name))
    plain.objectives.extra_inputs = lambda batch: more  # type: ignore[method-assign]
    return found, step(plain, negatives=hard).views.anchor


def drawn(*before: Objective, index: int = 0, seed: int = 3, **encoder: Any) -> dict[str, Tensor]:
    """What plug-ins draw in one step, by place."""
    tokens, words, vectors, one, two = DrawingTokens(), DrawingNoise(), DrawingNoise(), DrawingTerm(), DrawingTerm()
    encoded = built(*before, one, two, views=EncodedViews([tokens, words]), seed=seed, **encoder)
    output = built(views=OutputPerturbedViews(vectors), seed=seed, **encoder)
    for module in (encoded, output):
        step(module, index)
    return {
        "tokens": tokens.drawn, "words": words.drawn, "vectors": vectors.drawn,
        "before the pass": two.before, "after it": two.drawn,
    }  # fmt: skip


def test_every_augmentation_of_tokens_is_tried() -> None:
    assert {kind for kind in CHANGES if issubclass(kind, TokenAugmentation)} == {*LENGTHEN, TokenSwap}


@pytest.mark.parametrize("name", VIEWS)
def test_a_change_of_the_positive_leaves_the_anchor(name: str) -> None:
    assert torch.equal(anchor(views=VIEWS[name]()), anchor())


@pytest.mark.parametrize("kind", LENGTHEN)
def test_positives_of_other_tokens_leave_the_anchor_as_the_same_tokens_do(kind: Callable[[], Any]) -> None:
    module = built(views=EncodedViews([kind()]))
    found = step(module).views
    assert not torch.equal(found.anchor, anchor())
    assert torch.equal(found.anchor, step(built(), batch=found.read).views.anchor)


@pytest.mark.parametrize("how", WAYS)
def test_an_objective_that_reads_the_tokens_leaves_the_anchor(how: str) -> None:
    both = step(built(Contrastive(), Denoising(**SMALL), **WAYS[how])).views.anchor
    assert torch.equal(both, anchor(**WAYS[how]))


@pytest.mark.parametrize("name", NAMES)
def test_an_objective_leaves_the_anchor_as_its_rows_alone_do(name: str, teacher: str) -> None:
    assert torch.equal(*anchor_and_plain(objectives(teacher)[name](), name))


def test_no_two_streams_are_the_same() -> None:
    places = [drawn(), drawn(index=1), drawn(seed=4)]
    numbers = torch.stack([values for found in places for values in found.values()])
    assert len(numbers.flatten().unique()) == numbers.numel()


@pytest.mark.parametrize("name", ["denoising", "phrases", "layers", "information", "local and global"])
def test_two_objectives_of_one_kind_start_with_different_weights(name: str, teacher: str) -> None:
    make = objectives(teacher)[name]
    module = built(make(), make(), modules=behind(name))
    before, term = (dict(part.named_parameters()) for part in module.objectives.terms.values())
    drawn = [key for key, own in term.items() if own.ndim > 1 and own is not before[key]]  # they share the LM head
    assert drawn
    assert not any(torch.equal(before[key], term[key]) for key in drawn)


@pytest.mark.parametrize("encoder", [{"dropout": 0.0}, {"layout": "padded"}, {"rows_at_once": 5}])
def test_a_stream_depends_on_no_other_plug_in_and_no_pass(encoder: dict[str, Any]) -> None:
    torch.testing.assert_close(drawn(DrawingTerm(), **encoder), drawn(), rtol=0, atol=0)


def test_the_dropout_of_steps_and_of_seeds_differs() -> None:
    module = built()
    first = step(module, 0).views.anchor
    assert not torch.equal(first, step(module, 1).views.anchor)
    assert not torch.equal(first, anchor(seed=4))


def _of_all() -> dict[str, Any]:
    """What each of two processes has, under a name."""
    views = {name: anchor(views=make()) for name, make in VIEWS.items()}
    tokens = step(built(Contrastive(), Denoising(**SMALL))).views.anchor
    rows = anchor_and_plain(MaskedLanguageModeling(), "mlm")
    return {"plain": anchor(), "same": {**views, "tokens": tokens}, "rows": rows, "drawn": drawn()}


def test_two_processes_have_each_their_own_dropout_with_and_without() -> None:
    one, other = run_processes(_of_all, 2)
    for share in (one, other):
        for name, found in share["same"].items():
            assert torch.equal(found, share["plain"]), name
        assert torch.equal(*share["rows"])
    assert not torch.equal(one["plain"], other["plain"])
    for place, numbers in one["drawn"].items():
        assert not torch.equal(numbers, other["drawn"][place]), place
