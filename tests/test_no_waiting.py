"""Nothing in a training step waits for the device (design rule 10).

On a CPU nobody waits for anything, so the step runs on the ``meta`` device, which has shapes and no data: whatever asks
for a value (``item``, ``bool``, ``nonzero``, a mask as an index) fails there. Copies from the host are caught by name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from samplers import KINDS
from torch.overrides import TorchFunctionMode

from sentrep import Objective, SentRepModule, TextBatch, TokenBatch, negatives
from sentrep.encoder import Prompt
from sentrep.functional.geometry import view_statistics
from sentrep.objectives import (
    Alignment,
    BidirectionalMargin,
    Contrastive,
    Denoising,
    MaskedLanguageModeling,
    SignFlippedContrastive,
    Uniformity,
)
from sentrep.views import (
    FGSM,
    EncodedViews,
    FeatureDropout,
    GaussianNoise,
    TokenDeletion,
    TokenShuffling,
    TokenSwap,
    ViewMaker,
    WordRepetition,
)
from sentrep.weighting import SelfWeighting
from support import text_batch, tiny_encoder, toy_sentences

SENTENCES = toy_sentences(36)
SMALL: dict[str, Any] = {"layers": 1, "heads": 2, "feed_forward": 48}
PROMPT = {"prompt": Prompt('"[X]" means [MASK].', subtract=True), "pooling": "mask"}

STEPS: dict[str, tuple[Callable[[], Objective], Callable[[], ViewMaker], dict[str, Any]]] = {
    "contrastive": (Contrastive, EncodedViews, {}),
    "hard": (lambda: Contrastive(hard_negative_weight=0.5, label_smoothing=0.1), EncodedViews, {}),
    "weighted": (lambda: Contrastive(weighting=SelfWeighting(0.5)), EncodedViews, {}),
    "blocks": (lambda: Contrastive(block=4), EncodedViews, {}),
    "bank": (lambda: Contrastive(negatives={"bank": negatives.MemoryBank(20)}), EncodedViews, {}),
    "both ways": (lambda: Contrastive(nt_xent=True), EncodedViews, {}),
    "no batch": (lambda: Contrastive(negatives={"bank": negatives.MemoryBank(20)}, in_batch=False), EncodedViews, {}),
    "sign-flipped": (lambda: SignFlippedContrastive(scale=None), EncodedViews, {}),
    "alignment": (Alignment, EncodedViews, {}),
    "margin": (BidirectionalMargin, EncodedViews, {}),
    "uniformity": (Uniformity, EncodedViews, {}),
    "denoising": (lambda: Denoising(**SMALL), EncodedViews, {}),
    "tsdae": (lambda: Denoising(**SMALL, target="anchor", causal=True, token_deletion=0.6), EncodedViews, {}),
    "mlm": (MaskedLanguageModeling, EncodedViews, {}),
    "noise": (Contrastive, lambda: EncodedViews([GaussianNoise(), FeatureDropout(), FGSM()]), {}),
    "shuffled": (Contrastive, lambda: EncodedViews([TokenShuffling()]), {}),
    "tokens": (Contrastive, lambda: EncodedViews([WordRepetition(), TokenDeletion(), TokenSwap()]), {}),
    "template": (Contrastive, EncodedViews, PROMPT),
    "templates": (Contrastive, lambda: EncodedViews(positive_prompt="[X] means: [MASK]."), PROMPT),
    "packed": (Contrastive, EncodedViews, {"layout": "packed"}),
}


class Copies(TorchFunctionMode):
    """Fails where a tensor is made from numbers of the host on another device: that copy waits."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        made = function in (torch.tensor, torch.as_tensor) or function is torch.Tensor.new_tensor
        assert not (made and torch.device(kwargs.get("device") or "cpu").type != "cpu"), "copied from the host"
        return function(*args, **kwargs)


def step(module: SentRepModule, batch: TextBatch) -> None:
    views = module.views(module.encoder, batch, module.objectives.extra_inputs(batch))
    loss, _ = module.objectives(views, batch)
    loss.backward()
    with torch.no_grad():
        module.objectives.after_step(views)
        view_statistics(views.anchor, views.positive)


def moved(batch: TextBatch, device: str) -> TextBatch:
    def tokens(x: TokenBatch | None) -> Any:
        return x and replace(x, input_ids=x.input_ids.to(device), attention_mask=x.attention_mask.to(device))

    return TextBatch(tokens(batch.anchor), tokens(batch.positive), tokens(batch.negative), batch.rows.to(device))


@pytest.fixture
def meta(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(torch, "autocast", lambda *arguments, **keywords: contextlib.nullcontext())  # it knows no meta
    swaps = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)  # keeps tied weights tied
    yield
    torch.__future__.set_swap_module_params_on_conversion(swaps)


def made(name: str) -> tuple[SentRepModule, TextBatch]:
    objective, views, arguments = STEPS[name]
    encoder = tiny_encoder(dropout=0.1, **arguments)
    parts = (SENTENCES[:12], SENTENCES[12:24], SENTENCES[24:])
    return SentRepModule(encoder, {"term": objective()}, views=views()), text_batch(encoder, *parts)


@pytest.mark.parametrize("name", STEPS)
def test_a_step_asks_for_no_value(name: str, meta: None) -> None:
    module, batch = made(name)
    with Copies():
        step(module.to("meta"), moved(batch, "meta"))


def test_asking_is_noticed(meta: None) -> None:
    for ask in (torch.Tensor.item, torch.Tensor.bool, lambda x: x[x > 0], torch.Tensor.unique, torch.Tensor.tolist):
        with pytest.raises((RuntimeError, NotImplementedError)):
            bool(ask(torch.ones(1, device="meta")))
    with Copies(), pytest.raises(AssertionError, match="host"):
        torch.tensor([1.0], device="meta")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", [*STEPS, *(kind for kind in KINDS if kind != "refitted mixture")])  # it waits
def test_a_step_does_not_wait_for_a_gpu(name: str) -> None:
    if name in KINDS:
        kind, arguments = KINDS[name]
        _, batch = made("contrastive")
        sampler = getattr(negatives, kind)(**arguments)
        module = SentRepModule(tiny_encoder(dropout=0.1), {"term": Contrastive(negatives={"extra": sampler})})
    else:
        module, batch = made(name)
    module, batch = module.cuda(), moved(batch, "cuda")
    step(module, batch)  # loads kernels
    torch.cuda.set_sync_debug_mode("error")
    try:
        step(module, batch)
    finally:
        torch.cuda.set_sync_debug_mode("default")
