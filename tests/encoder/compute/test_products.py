"""Products by oneDNN: torch's values and gradients, and where they are taken."""

from __future__ import annotations

import pickle

import pytest
import torch
from torch import Tensor, nn

from sentrep import SentenceEncoder
from sentrep.encoder.compute import products
from support import text_batch, tiny_encoder, toy_sentences

onednn = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="needs a torch with oneDNN")


def gradients(layer: nn.Linear, x: Tensor) -> list[Tensor]:
    layer.zero_grad()
    x.grad = None
    found = layer(x)
    if found.requires_grad:
        (found * torch.linspace(-1, 1, found.numel()).view_as(found)).sum().backward()
    return [found.detach(), *(t.grad for t in (x, *layer.parameters()) if t.grad is not None)]


@onednn
@pytest.mark.parametrize("shape", [(70, 96), (2, 35, 96)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("input", "weight"), [(True, True), (True, False), (False, True), (False, False)])
def test_values_and_gradients_are_torchs(shape: tuple[int, ...], bias: bool, input: bool, weight: bool) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(96, 512, bias=bias).requires_grad_(weight)
    x = torch.randn(*shape[::-1]).mT if len(shape) == 2 else torch.randn(shape)  # one that is not contiguous
    x.requires_grad_(input)
    wanted = gradients(layer, x)
    products.use_onednn(nn.Sequential(layer))
    assert products._earns(x, layer.weight)
    torch.testing.assert_close(gradients(layer, x), wanted, atol=2e-5, rtol=1e-4)
    assert type(pickle.loads(pickle.dumps(layer))) is products.Linear


@onednn
@pytest.mark.parametrize("how", [{}, {"layout": "padded"}, {"rows_at_once": 4}])
def test_a_pass_is_the_same(how: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_LEAST", 0)
    sentences = toy_sentences(10)

    def result(encoder: SentenceEncoder) -> tuple[list[Tensor], Tensor]:
        vectors = encoder(text_batch(encoder, sentences).anchor).embedding
        vectors.square().sum(1).log().sum().backward()
        found = [vectors.detach(), *(p.grad for p in encoder.parameters() if p.grad is not None)]
        return found, encoder.encode(sentences, convert_to_tensor=True)

    calls = []
    monkeypatch.setattr(Tensor, "to_mkldnn", lambda x, inner=Tensor.to_mkldnn: calls.append(1) or inner(x))
    encoders = [tiny_encoder(dropout=0.0, products=name, **how) for name in ("torch", "onednn")]
    wanted, found = map(result, encoders)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)
    assert calls
    assert encoders[0].state_dict().keys() == encoders[1].state_dict().keys()


def test_other_precisions_and_short_batches_are_torchs() -> None:
    x, weight = torch.zeros(100, 300), torch.zeros(300, 300)
    assert products._earns(x, weight)
    assert not products._earns(x[:3], weight)
    assert not products._earns(x.double(), weight.double())
    assert not products._earns(x.to("meta"), weight.to("meta"))
    with torch.autocast("cpu", torch.bfloat16):
        assert not products._earns(x, weight)


@pytest.mark.parametrize(
    ("about", "zen_5"),
    [
        ("vendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\n", True),
        ("vendor_id\t: AuthenticAMD\ncpu family\t: 25\n", False),
        ("vendor_id\t: GenuineIntel\ncpu family\t: 26\n", False),
        ("AMD64 Family 26 Model 68 Stepping 0, AuthenticAMD", True),
        ("arm", False),
    ],
)
def test_it_is_on_where_the_processor_is_one_that_mkl_does_not_use(about: str, zen_5: bool) -> None:
    assert products.is_zen_5(about) is zen_5
