"""A backbone with cheap dropout: the same distribution and attention as torch's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from sentrep import SentenceEncoder
from sentrep.decoders.dropout import keep_mask
from sentrep.encoder.compute import cpu
from sentrep.encoder.compute.cpu import CheapDropout, attention, drop
from sentrep.types import TokenBatch
from support import text_batch, tiny_encoder, toy_sentences


def test_no_dropout_without_training_or_rate() -> None:
    x = torch.randn(4, 4)
    layer = CheapDropout(0.5)
    assert layer.eval()(x) is x
    assert torch.equal(CheapDropout(0.0)(x), x)
    assert torch.equal(CheapDropout(1.0)(x), torch.zeros(4, 4))


def test_attention_equals_torch_for_a_given_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = (torch.randn(2, 3, 5, 4) for _ in range(3))
    padding = torch.ones(2, 1, 5, 5, dtype=torch.bool)
    padding[1, :, :, 3:] = False
    monkeypatch.setattr(cpu, "keep", lambda x, p: (torch.ones_like(x, dtype=torch.uint8), 1.0))
    out, _ = attention(torch.nn.Module(), q, k, v, padding, dropout=0.1)
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=padding).transpose(1, 2)
    torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("rate", [0.0, 1e-9])
def test_a_decoders_attention_stays_causal(rate: float) -> None:
    module = torch.nn.Module()
    module.is_causal = True
    q, k, v = torch.randn(3, 2, 4, 7, 8, dtype=torch.float64)
    with torch.no_grad():
        found = attention(module, q, k, v, None, dropout=rate)[0]
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    "shape",
    [
        {"model_type": "gpt2", "n_embd": 32, "n_layer": 1, "n_head": 2, "vocab_size": 2200},
        {"model_type": "t5", "d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 1, "num_heads": 2},
    ],
    ids=lambda shape: shape["model_type"],
)
@pytest.mark.parametrize("rate", [0.0, 0.25])
def test_one_rate_replaces_all_rates_of_a_family(shape: dict[str, Any], rate: float) -> None:
    encoder = SentenceEncoder(dict(shape), tokenizer="toy", pooling="mean", dropout=rate)
    rates = [module.p for module in encoder.modules() if isinstance(module, nn.Dropout)]
    assert set(rates) == {rate}
    ids = torch.arange(24).view(2, 12) + 5
    first, second = (encoder(TokenBatch(ids, torch.ones_like(ids))).embedding for _ in range(2))
    assert torch.equal(first, second) == (rate == 0)


def test_in_expectation_it_is_torchs_dropout() -> None:
    plain, fast = tiny_encoder(dropout=0.1, cheap_dropout=False), tiny_encoder(dropout=0.1)
    tokens = text_batch(plain, toy_sentences(8)).anchor
    with torch.no_grad():
        moments = [
            torch.stack([encoder(tokens).embedding for _ in range(400)]).var(0).mean() for encoder in (plain, fast)
        ]
    assert moments[1].item() == pytest.approx(moments[0].item(), rel=0.05)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.825])
def test_rate_scale_and_independence(p: float) -> None:
    torch.manual_seed(0)
    mask = keep_mask(torch.empty(1000, 1003), p)  # an odd width: not a multiple of four
    assert (mask == 0).float().mean().item() == pytest.approx(p, abs=2e-3)
    assert mask.mean().item() == pytest.approx(1.0, abs=5e-3)
    assert mask.unique().numel() == 2
    kept = (mask > 0).float() - (1 - p)
    for shift in (1, 2, 3, 4):  # neighbours share a random number
        covariance = (kept[:, shift:] * kept[:, :-shift]).mean().item()
        assert abs(covariance) < 2e-3 * p * (1 - p) * 4


def test_value_and_gradient_belong_to_one_mask() -> None:
    x = torch.randn(50, 7, requires_grad=True)
    torch.manual_seed(3)
    mask = keep_mask(x, 0.3)
    torch.manual_seed(3)
    y = drop(x, 0.3)
    torch.testing.assert_close(y, x * mask)
    (gradient,) = torch.autograd.grad(y.square().sum(), x)
    torch.testing.assert_close(gradient, 2 * x * mask * mask)


@pytest.mark.parametrize("mask", [None, "bool", "float"])
def test_rows_are_computed_in_groups(mask: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    module = nn.Module()
    module.is_causal = False
    tensors = torch.randn(3, 5, 2, 8, 4, dtype=torch.float64, requires_grad=True)
    visible = None if mask is None else (torch.rand(5, 1, 8, 8) > 0.3) | torch.eye(8, dtype=torch.bool)
    if visible is not None and mask == "float":
        visible = torch.zeros(visible.shape, dtype=torch.float64).masked_fill(~visible, -torch.inf)
    results = []
    for limit in (10**6, 2 * 2 * 8 * 8, 1):  # all rows at once, two, one
        monkeypatch.setattr(cpu, "_IN_CACHE", limit)
        torch.manual_seed(0)
        found = attention(module, *tensors, visible, dropout=0.25)[0]
        results.append([found, *torch.autograd.grad(found.sin().sum(), tensors)])
    torch.testing.assert_close(results[1], results[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(results[2], results[0], rtol=0, atol=1e-12)
