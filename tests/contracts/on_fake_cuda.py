"""Two training steps of every plug-in on fake CUDA tensors; `test_fake_cuda` runs this file in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import torch
from fake_cuda import Watch, fake_batch, pretend, to_fake_cuda
from plugins import VIEWS, behind, objectives
from torch import Tensor, fx
from torch._subclasses import FakeTensorMode
from torch.optim import AdamW, Optimizer

from sentrep import Objective, ProjectionHead, SentenceEncoder, SentRepModule, TextBatch, Views, negatives
from sentrep.encoder import Dense, Lora, Normalize, Prompt
from sentrep.functional import info_nce, similarity
from sentrep.objectives import Alignment, Contrastive
from sentrep.stability import SAM, AdversarialWeightPerturbation, NonFiniteGuard, clip_gradients
from sentrep.views import EncodedViews
from sentrep.weighting import OnlyExtraNegatives
from support import FAMILIES, text_batch, tiny_encoder, toy_sentences

SENTENCES = toy_sentences(64)
MODE = FakeTensorMode()
PRECISIONS = pytest.mark.parametrize("precision", ["fp32", "bf16"])
FUSED = partial(AdamW, fused=True)
PROMPT = {"prompt": Prompt('"[X]" means [MASK].', subtract=True), "pooling": "mask"}

ENCODERS: dict[str, dict[str, Any]] = {
    "adapter": {"trainable": Lora(rank=2, dropout=0.1)},
    "last": {"pooling": "last"},
    "modernbert": {"family": "modernbert", "dropout": None},
    "modules": {"modules": [Dense(activation="tanh", out_features=16), Normalize()]},
    "padded": {"layout": "padded"},
    "prompt": PROMPT,
    "rows at once": {"rows_at_once": 5},
}
TERMS: dict[str, Callable[[], Objective]] = {
    "blocks": lambda: Contrastive(block=4),
    "hard": lambda: Contrastive(hard_negative_weight=0.5, label_smoothing=0.1),
    "no batch, bank": lambda: Contrastive(negatives={"bank": negatives.MemoryBank(20)}, weighting=OnlyExtraNegatives()),
}
MODULES: dict[str, dict[str, Any]] = {
    "head": {"head": ProjectionHead("mlp")},
    "sam": {"optimizer": partial(SAM, base_optimizer=FUSED)},
    "awp": {"optimizer": partial(AdversarialWeightPerturbation, base_optimizer=FUSED)},
}
NAMES = [
    *(name for name in objectives("") if name != "contrastive, refitted mixture"),  # fitted on the host: it waits
    *(f"view: {name}" for name in VIEWS),
    *TERMS,
    *ENCODERS,
    *MODULES,
    "two prompts",
]


class Asking(Objective):
    """A plug-in that does something with the anchors before its loss."""

    ask: Callable[[Tensor], Any]

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        self.ask(views.anchor)
        return views.anchor.square().mean()


ASKS: dict[str, Callable[[Tensor], Any]] = {
    "item": lambda x: x.sum().item(),
    "float": lambda x: float(x.sum()),
    "bool": lambda x: bool(x.isfinite().all()),
    "tolist": lambda x: x.tolist(),
    "numpy": lambda x: x.detach().numpy(),
    "cpu": lambda x: x.cpu(),
    "copy": lambda x: torch.empty(x.shape).copy_(x),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "unique": lambda x: x.unique(),
    "from a list": lambda x: x + torch.tensor([1.0], device=x.device),
    "index": lambda x: x[torch.tensor([0, 1])],
}


@pytest.fixture(autouse=True, scope="module")
def device() -> Iterator[None]:
    with pretend():
        yield


def made(name: str, teacher: str) -> tuple[SentRepModule, TextBatch]:
    """The module of a name in `NAMES`, and a batch for it."""
    views = VIEWS[name.removeprefix("view: ")]() if name.startswith("view: ") else None
    if name == "two prompts":
        views = EncodedViews(positive_prompt="[X] means: [MASK].")
    how = {"dropout": 0.1, "pooling": "mean", "modules": behind(name), **ENCODERS.get(name, {})}
    with patch.dict(FAMILIES["bert"], num_hidden_layers=1):
        encoder = tiny_encoder(**{**how, **(PROMPT if name == "two prompts" else {})})
    terms: dict[str, Any] = {"contrastive": Contrastive(), "alignment": Alignment()}
    every = {**objectives(teacher), **TERMS}
    if name in every or "extra inputs only" in name:
        terms = {"term": every.get(name, every["mlm"])()}
    module = SentRepModule(encoder, terms, views=views, **MODULES.get(name, {}))
    given = [] if "output" in name else [SENTENCES[12:24], SENTENCES[24:36]]
    return module, text_batch(encoder, SENTENCES[:12], *given)


def step(module: SentRepModule, batch: TextBatch, optimizer: Optimizer, number: int, precision: str) -> None:
    """One as Lightning runs it, with the guard's look at the gradient, clipping and, where it is on, logging."""
    guard, trainer = NonFiniteGuard(), SimpleNamespace(scaler=None)

    def closure() -> Tensor:
        with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
            module.terms = module.compute_terms(batch, number)
        loss = module.terms.loss
        optimizer.zero_grad()
        assert loss.dtype == torch.float32
        guard.on_before_backward(trainer, module, loss)  # type: ignore[arg-type]
        loss.backward()
        guard._step.measure(number, optimizer)
        clip_gradients(optimizer, 1.0, "norm")
        return loss

    module.optimizer_step(0, number, optimizer, closure)


def two_steps(module: SentRepModule, batch: TextBatch, precision: str, log: int | None = 1) -> Watch:
    """On fake tensors; what the second launches."""
    module._checked, module._log_every = True, log  # the first step reads the loss
    to_fake_cuda(module, MODE)
    batch = fake_batch(batch, MODE)
    with MODE, Watch() as watch:
        optimizer = module.optimizer([p for p in module.parameters() if p.requires_grad])
        for number in range(2):
            watch.launched.clear()
            step(module, batch, optimizer, number, precision)
    return watch


def stock() -> tuple[SentRepModule, TextBatch]:
    """configs/simcse/bert-base.yaml; the width changes no number of launches."""
    config = {**FAMILIES["bert"], "num_hidden_layers": 12}
    encoder = SentenceEncoder(config, tokenizer="toy", dropout=0.1)
    module = SentRepModule(encoder, {"simcse": Contrastive()}, head=ProjectionHead("mlp"))
    return module, text_batch(encoder, SENTENCES)


@pytest.mark.parametrize("name", NAMES)
def test_two_steps_wait_for_nothing_and_have_float32_losses(name: str, teacher: str) -> None:
    two_steps(*made(name, teacher), "bf16")


@pytest.mark.parametrize("name", ASKS)
def test_asking_is_noticed(name: str) -> None:
    encoder, term = tiny_encoder(), Asking()
    term.ask = ASKS[name]
    with pytest.raises((AssertionError, RuntimeError)) as raised:
        two_steps(SentRepModule(encoder, [term]), text_batch(encoder, SENTENCES[:4]), "fp32")
    assert [line for line in raised.traceback if line.name == "<lambda>" and Path(line.path) == Path(__file__)]


def test_a_loss_in_half_precision_is_noticed() -> None:
    with MODE, Watch(), patch.object(similarity, "at_least_float32", lambda x: x):
        x = torch.ones(4, 8, dtype=torch.bfloat16, device="cuda")
        with pytest.raises(AssertionError, match="float32"):
            info_nce(x, x, temperature=0.05)


CEILINGS = {"fp32": 650, "bf16": 1075}
"""Launches of a step of SimCSE on BERT-base: 636 and 1055 were counted, and 2 % more."""


@PRECISIONS
def test_launches_of_the_stock_recipe_stay_below_a_ceiling(precision: str) -> None:
    launched = two_steps(*stock(), precision, log=None).launched
    assert len(launched) <= CEILINGS[precision], f"{len(launched)} launches, {launched.count('_to_copy')} of them casts"


def test_pass_and_objective_of_the_stock_recipe_are_one_graph() -> None:
    graphs: list[fx.GraphModule] = []

    def keep(graph: fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    def loss(batch: TextBatch) -> Tensor:
        return module.objectives(module.views_of(batch), batch)[0]

    module, batch = stock()
    to_fake_cuda(module, MODE)
    batch = fake_batch(batch, MODE)
    with MODE, torch.autocast("cuda", torch.bfloat16):
        loss(batch)  # transformers installs hooks
        torch.compile(loss, fullgraph=True, backend=keep)(batch).backward()
    assert len(graphs) == 1
