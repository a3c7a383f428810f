"""The decoder against torch's own, in evaluation and with given dropout masks in training."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from references.denoising import gradients, run, torch_decoder
from sentrep.decoders import DenoisingDecoder, RealTokens, dropout, transformer

WIDTH, BATCH = 24, 4
LENGTHS = {"none": [7, 7, 7, 7], "some": [7, 3, 1, 5], "one long": [9, 2, 2, 2], "ends in padding": [4, 4, 3, 2]}
MASKS = {
    name: (torch.arange(9) < torch.tensor(lengths)[:, None])[:, : max(7, *lengths)] for name, lengths in LENGTHS.items()
}


def decoder(memory_width: int = WIDTH, **arguments: Any) -> DenoisingDecoder:
    torch.manual_seed(0)
    made = DenoisingDecoder(WIDTH, memory_width, **{"layers": 2, "feed_forward": 32, **arguments})
    with torch.no_grad():  # far from the initial weights, where attention is nearly uniform and biases are 0
        for parameter in made.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return made


def inputs(mask: Tensor, memory_width: int = WIDTH, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    x = torch.randn(*mask.shape, WIDTH, dtype=dtype)
    return x.masked_fill(~mask[..., None], 1e3), torch.randn(len(mask), memory_width, dtype=dtype, requires_grad=True)


def assert_equal_to_torch(ours: DenoisingDecoder, reference: nn.TransformerDecoder, mask: Tensor, **how: Any) -> None:
    """Output, every gradient that both have, and the memory's."""
    memory_width = ours.layers[0].value.in_features
    x, memory = inputs(mask, memory_width)
    theirs_memory = memory.detach().clone().requires_grad_()
    x1, x2 = x.clone().requires_grad_(), x.clone().requires_grad_()
    tokens = RealTokens.of(mask)
    out = ours(tokens.pack(x1), tokens, memory)
    expected = run(reference, x2, mask, theirs_memory, **how)[mask]
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-10)
    weights = torch.randn_like(out)
    (out * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(memory.grad, theirs_memory.grad, rtol=0, atol=1e-9)
    torch.testing.assert_close(x1.grad[mask], x2.grad[mask], rtol=0, atol=1e-9)
    assert not x1.grad[~mask].any()
    for name, mine, theirs in gradients(ours, reference):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-9, msg=name)
        assert mine.abs().sum() > 0, name


@pytest.mark.parametrize("padding", MASKS)
@pytest.mark.parametrize(("layers", "heads", "activation"), [(1, 1, "relu"), (3, 4, "gelu"), (2, 2, "relu")])
@pytest.mark.parametrize("causal", [False, True])
def test_evaluation_equals_torch(padding: str, layers: int, heads: int, activation: Any, causal: bool) -> None:
    ours = decoder(layers=layers, heads=heads, activation=activation, causal=causal).double().eval()
    assert_equal_to_torch(ours, torch_decoder(ours, activation), MASKS[padding], causal=causal)


@pytest.mark.parametrize("memory_width", [5, 40])
def test_the_memory_may_be_of_another_width(memory_width: int) -> None:
    ours = decoder(memory_width, heads=2).double().eval()
    assert_equal_to_torch(ours, torch_decoder(ours, "relu"), MASKS["some"])


class Draws:
    """Draws our decoder's dropout masks, remembers them, and gives them to torch's decoder."""

    def __init__(self, tokens: RealTokens, seed: int = 3) -> None:
        self.tokens = tokens
        self.generator = torch.Generator().manual_seed(seed)
        self.elementwise: list[Tensor] = []  # (B, L, ·) with 1 on padding
        self.crossing: list[Tensor] = []  # (B, heads, L, 1)
        self.attending: list[Tensor] = []  # (B, heads, L, L)

    def keep(self, x: Tensor, p: float) -> tuple[Tensor, float]:
        kept = (torch.rand(x.shape, generator=self.generator) >= p).to(torch.uint8)
        padded = self.tokens.unpack(kept.double() / (1 - p))
        self.elementwise.append(padded.masked_fill(~self.tokens.mask[..., None], 1.0))
        return kept, 1 / (1 - p)

    def drop(self, x: Tensor, p: float) -> Tensor:
        kept, scale = self.keep(x, p)
        return x * kept * scale

    def keep_mask(self, x: Tensor, p: float) -> Tensor:
        mask = (torch.rand(x.shape, generator=self.generator) >= p).to(x.dtype) / (1 - p)
        self.crossing.append(mask.transpose(1, 2)[..., None])
        return mask

    def attention(
        self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Any, dropout_p: float, is_causal: bool = False
    ) -> Tensor:
        """In the place of ``scaled_dot_product_attention``: for ours it draws, for torch's it replays."""
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        if is_causal:
            scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
        if self.replaying:
            mask = (self.crossing if key.shape[-2] == 1 else self.attending).pop(0)
        else:
            mask = (torch.rand(scores.shape, generator=self.generator) >= dropout_p).to(scores.dtype) / (1 - dropout_p)
            self.attending.append(mask)
        return (scores.softmax(-1) * mask) @ value

    replaying = False


class Replayed(nn.Module):
    def __init__(self, draws: Draws) -> None:
        super().__init__()
        self.draws = draws

    def forward(self, x: Tensor) -> Tensor:
        return x * self.draws.elementwise.pop(0)


@pytest.mark.parametrize("padding", ["none", "some"])
@pytest.mark.parametrize(("heads", "activation"), [(1, "relu"), (4, "relu"), (2, "gelu")])
def test_training_equals_torch_for_given_masks(
    padding: str, heads: int, activation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = decoder(heads=heads, activation=activation, dropout=0.3).double().train()
    reference = torch_decoder(ours, activation)
    draws = Draws(RealTokens.of(MASKS[padding]))
    for theirs in reference.layers:
        for name in ("dropout1", "dropout2", "dropout", "dropout3"):
            setattr(theirs, name, Replayed(draws))
    for module, name in ((transformer, "drop"), (transformer, "keep_mask"), (dropout, "keep")):
        monkeypatch.setattr(module, name, getattr(draws, name))
    monkeypatch.setattr(F, "scaled_dot_product_attention", draws.attention)
    reference.register_forward_pre_hook(lambda *_: setattr(draws, "replaying", True))
    assert_equal_to_torch(ours, reference, MASKS[padding])
    assert not draws.elementwise, "a mask was not used"
    assert not draws.crossing
    assert not draws.attending


def test_weights_start_small() -> None:
    torch.manual_seed(0)
    made = DenoisingDecoder(64, 48, layers=2, heads=4, feed_forward=100)
    for name, parameter in made.named_parameters():
        if name.endswith(("projection.weight", "value.weight")):
            # rows of torch's one in-projection (3E, E): Xavier, uniform
            variance = 2 / (parameter.shape[1] + 3 * 64)
            assert parameter.std().item() == pytest.approx(variance**0.5, rel=0.05), name
            assert parameter.abs().max().item() == pytest.approx((3 * variance) ** 0.5, rel=0.01), name
        elif parameter.ndim == 2:
            assert parameter.std().item() == pytest.approx(0.02, rel=0.05), name
            assert parameter.mean().item() == pytest.approx(0.0, abs=0.002), name
        else:
            assert parameter.unique().tolist() == [1.0 if "norms" in name and "weight" in name else 0.0], name


def test_a_sentence_without_tokens_hurts_no_other() -> None:
    made = decoder().eval()
    mask = MASKS["some"].clone()
    mask[1] = False
    x, memory = inputs(mask, dtype=torch.float32)
    tokens = RealTokens.of(mask)
    out = made(tokens.pack(x), tokens, memory)
    out.sum().backward()
    assert torch.isfinite(out).all()
    assert all(torch.isfinite(parameter.grad).all() for parameter in made.parameters())
