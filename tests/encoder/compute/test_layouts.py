"""A packed batch: what the padded one gives, in value and gradient."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from sentrep import InputError, SentenceEncoder
from sentrep.encoder import Compute, Prompt
from sentrep.encoder.compute import attention, layout
from sentrep.encoder.compute.attention import mask_of_pass
from sentrep.encoder.compute.layout import PACKABLE, Packed
from sentrep.types import Need, TokenBatch
from support import FAMILIES, text_batch, tiny_encoder, toy_sentences

SHAPES = {**FAMILIES, **{name: {**FAMILIES["roberta"], "model_type": name} for name in ("camembert", "xlm-roberta")}}
CONFIG = SimpleNamespace(model_type="bert", pad_token_id=0)
LENGTHS = torch.tensor([3, 7, 1, 5])
MASK = (torch.arange(7) < LENGTHS[:, None]).long()


def packed(mask: Tensor = MASK, count: int | None = None) -> Packed:
    return Packed.of(TokenBatch(torch.zeros_like(mask), mask, count), CONFIG)


def one_by_one(query: Tensor, key: Tensor, value: Tensor, boundaries: Tensor, scale: float | None) -> Tensor:
    """Attention of (T, heads, d) as a loop over the sentences."""
    out = []
    for start, stop in pairwise(boundaries.tolist()):
        q, k, v = (x[start:stop].transpose(0, 1) for x in (query, key, value))
        scores = q @ k.transpose(1, 2) * (q.shape[-1] ** -0.5 if scale is None else scale)
        out.append((scores.softmax(-1) @ v).transpose(0, 1))
    return torch.cat(out)


def heads() -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    made = [torch.randn(int(LENGTHS.sum()), 2, 16, generator=generator) for _ in range(3)]
    return [x.double().requires_grad_() for x in made]


def attended(batch: Packed, tensors: list[Tensor], scaling: float | None = None, dropout: float = 0.0) -> Tensor:
    """`attention` of (T, heads, d), as a backbone calls it."""
    rows = [x.transpose(0, 1)[None] for x in tensors]
    return attention.attention(False, torch.nn.Module(), *rows, None, dropout, scaling, batch)[0][0]


@pytest.mark.parametrize("scaling", [None, 0.3])
def test_attention_is_that_of_each_sentence_alone(scaling: float | None) -> None:
    tensors, batch = heads(), packed()
    expected = one_by_one(*tensors, batch.boundaries, scaling)
    found = attended(batch, tensors, scaling)
    torch.testing.assert_close(found, expected)
    weights = torch.randn_like(expected)
    for one, other in zip(*(torch.autograd.grad((x * weights).sum(), tensors) for x in (found, expected)), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dropout", [0.0, 0.5])  # torch has one kernel without and another with
def test_the_bias_is_the_mask_to_the_bit(dtype: torch.dtype, dropout: float) -> None:
    visible = MASK.bool()[:, None, None, :].expand(-1, 1, 7, -1)
    found = []
    for mask in (visible, layout.as_bias(visible, dtype)):
        torch.manual_seed(0)
        tensors = [torch.randn(4, 2, 7, 16).to(dtype).requires_grad_() for _ in range(3)]
        out = F.scaled_dot_product_attention(*tensors, mask, dropout_p=dropout)
        found.append([out, *torch.autograd.grad(out.float().square().sum(), tensors)])
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


class Launches(TorchDispatchMode):
    """Counts operations by name."""

    def __init__(self) -> None:
        super().__init__()
        self.names: Counter[str] = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names[function.overloadpacket.__name__] += 1
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("how", ["padded", "packed"])
def test_a_device_makes_the_bias_once_a_pass(how: Any) -> None:
    """torch itself makes it with a ``where`` in every layer."""
    layers = 3
    encoder = SentenceEncoder(
        {**SHAPES["bert"], "num_hidden_layers": layers}, tokenizer="toy", dropout=0.1, compute=Compute(layout=how)
    )
    swaps = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    tokens = TokenBatch(torch.zeros(4, 7, dtype=torch.long), MASK, int(LENGTHS.sum()))
    tokens = TokenBatch(tokens.input_ids.to("meta"), MASK.to("meta"), tokens.real_tokens)
    try:
        with Launches() as count:
            encoder.to("meta")(tokens, need=Need(tokens=False))
    finally:
        torch.__future__.set_swap_module_params_on_conversion(swaps)
    assert count.names["_safe_softmax"] == layers
    assert (count.names["masked_fill_"], count.names["where"]) == (1, 0)


def pair(family: str = "bert", **arguments: Any) -> tuple[SentenceEncoder, SentenceEncoder]:
    """The same encoder padded and packed."""
    how = {name: arguments.pop(name) for name in ("cheap_dropout", "short_last_layer") if name in arguments}
    encoders = []
    for kind in ("padded", "packed"):
        torch.manual_seed(0)
        made = SentenceEncoder(
            dict(SHAPES[family]), tokenizer="toy", dropout=0.0, compute=Compute(layout=kind, **how), **arguments
        )
        encoders.append(made.double())
    return encoders[0], encoders[1]


def gradients(loss: Tensor, encoder: SentenceEncoder) -> list[Tensor]:
    found = torch.autograd.grad(loss, list(encoder.parameters()), allow_unused=True)
    return [gradient for gradient in found if gradient is not None]


def assert_same_pass(padded: SentenceEncoder, row: SentenceEncoder, words: bool = False) -> None:
    tokens = text_batch(padded, toy_sentences(9)).anchor
    real = tokens.attention_mask.bool()
    results = []
    for encoder in (padded, row):
        embedded = encoder.look_up(tokens) if words else None
        output = encoder(tokens, embedded)
        states, inputs = output.token_states[real], output.input_embeddings[real]
        loss = output.embedding.square().sum() + states.sin().sum() + inputs.cos().sum()
        alone = encoder(tokens, need=Need(tokens=False)).embedding
        results.append([output.embedding, states, inputs, *gradients(loss, encoder)])
        results[-1] += [alone, *gradients(alone.sin().sum(), encoder)]
    assert len(results[0]) > 20
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("family", sorted(PACKABLE))
@pytest.mark.parametrize(("words", "cheap"), [(False, False), (False, True), (True, True)])
def test_every_declared_family_in_value_and_gradient(family: str, words: bool, cheap: bool) -> None:
    assert_same_pass(*pair(family, pooling="mean", cheap_dropout=cheap), words)


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("pooling", ["cls", "max", "last", "mean_first_last", "mean_embedding_last", "mean_last_two"])
def test_poolings(pooling: str, short: bool) -> None:
    assert_same_pass(*pair(pooling=pooling, short_last_layer=short))


@pytest.mark.parametrize("subtract", [False, True])
def test_prompts(subtract: bool) -> None:
    assert_same_pass(*pair(prompt=Prompt('"[X]" means [MASK].', subtract), pooling="mask"))


def rows_computed(encoder: SentenceEncoder, tokens: TokenBatch, need: Need = Need()) -> list[int]:
    """Of every linear layer in the order of a pass, how many tokens it sees."""
    seen: list[int] = []
    hooks = [
        module.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0].shape[:-1].numel()))
        for module in encoder.backbone.modules()
        if isinstance(module, torch.nn.Linear)
    ]
    encoder(tokens, need=need)
    for hook in hooks:
        hook.remove()
    return seen


def test_no_layer_computes_padding_in_training_on_a_cpu() -> None:
    for encoder in (pair()[1], tiny_encoder(dropout=0.0)):
        tokens = text_batch(encoder, toy_sentences(9)).anchor
        seen = rows_computed(encoder, tokens)
        real = tokens.count()
        # the last layer for the pooled tokens: query, key, value, output, feed-forward; then for all tokens
        assert seen[-12:-6] == [9, real, real, 9, 9, 9]
        assert set(seen[:-12] + seen[-6:]) == {real}


def test_the_last_layer_ends_for_the_pooled_tokens() -> None:
    _, row = pair()
    tokens = text_batch(row, toy_sentences(9)).anchor
    seen = rows_computed(row, tokens, Need(tokens=False))
    assert seen[-6:] == [9, tokens.count(), tokens.count(), 9, 9, 9]  # query, key, value, output, feed-forward
    assert set(seen[:-6]) == {tokens.count()}


def test_encode() -> None:
    one, other = pair(pooling="mean")
    torch.testing.assert_close(
        torch.tensor(other.encode(toy_sentences(20))), torch.tensor(one.encode(toy_sentences(20)))
    )


def test_dropout_reaches_attention_and_layers() -> None:
    encoder = tiny_encoder(dropout=0.3, layout="packed")
    tokens = text_batch(encoder, toy_sentences(9)).anchor
    assert not torch.equal(encoder(tokens).embedding, encoder(tokens).embedding)
    tensors, batch = heads(), packed()
    whole, dropped = (attended(batch, tensors, dropout=p) for p in (0.0, 0.5))
    assert not torch.allclose(whole, dropped)
    mean = torch.stack([attended(batch, tensors, dropout=0.5) for _ in range(3000)]).mean(0)
    torch.testing.assert_close(mean, whole, rtol=0, atol=0.2)


def test_a_family_with_its_own_attention_keeps_padding() -> None:
    with pytest.warns(UserWarning, match="mpnet cannot be packed"):
        one, other = pair("mpnet")
    assert_same_pass(one, other)
    tokens = text_batch(other, toy_sentences(9)).anchor
    assert set(rows_computed(other, tokens)) == {tokens.input_ids.numel()}


def test_local_attention_keeps_padding() -> None:
    config = {**FAMILIES["modernbert"], "global_attn_every_n_layers": 2}
    with pytest.warns(UserWarning, match="modernbert cannot be packed"):
        SentenceEncoder(config, tokenizer="toy", compute=Compute(layout="packed"))


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(InputError, match="pooler"):
        tiny_encoder(layout="packed", pooling="pooler")
    with pytest.raises(InputError, match="compile does not go with layout packed"):
        Compute(layout="packed", compile=True)


def test_the_mask_never_asks_a_device() -> None:
    """transformers' own asks whether there is any padding; a device without data cannot answer."""
    sizes = {
        "batch_size": 4,
        "q_length": 7,
        "kv_length": 7,
        "allow_is_bidirectional_skip": True,
        "allow_is_causal_skip": False,
        "dtype": torch.float32,
    }
    everyone = lambda *indices: indices[-1] >= 0  # noqa: E731
    mask = mask_of_pass(
        **sizes, mask_function=everyone, attention_mask=MASK.bool().to("meta"), device=torch.device("meta")
    )
    assert mask is not None
    assert mask.is_meta
    assert mask_of_pass(**sizes, mask_function=everyone, attention_mask=torch.ones(4, 7).bool()) is None
    tokens = TokenBatch(torch.zeros(4, 7, dtype=torch.long, device="meta"), MASK.to("meta"), int(LENGTHS.sum()))
    assert Packed.of(tokens, CONFIG).tokens.index.shape == (16,)
    assert F.pad(LENGTHS.cumsum(0), (1, 0)).tolist() == packed().boundaries.tolist()
