"""A Transformer decoder whose memory is one vector."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sentrep.encoder.compute.attention import drop, keep_mask, relu_dropout
from sentrep.encoder.compute.layout import RealTokens

Activation = Literal["relu", "gelu"]


class DenoisingDecoder(nn.Module):
    """The decoder of DenoSent: post-norm Transformer layers (Vaswani et al. 2017) with the sentence vector as memory.

    Equal to ``nn.TransformerDecoder`` of ``nn.TransformerDecoderLayer`` with a memory of length 1, without what cannot
    matter there: a softmax over one key is 1, so that cross-attention has no use for queries and keys, and padding is
    left out of everything but self-attention. On a CPU dropout is that of `sentrep.encoder.compute.attention`, rates
    exact to 2⁻¹⁶. Biases start at 0 and weights as N(0, 0.02²), but for the in-projections of both attentions: as in
    ``nn.MultiheadAttention``, whose query, key and value are one (3E, E) matrix, they are uniform with the variance
    2 / (E + 3E) (Xavier; sd 0.0255 at E = 768). DenoSent's code leaves them so.

    Args:
        width: E of tokens in and out.
        memory_width: D of the memory.
        layers: number of layers.
        heads: attention heads, a divisor of E.
        feed_forward: width of the hidden layer in each layer.
        activation: ``relu`` or ``gelu``, in the hidden layer.
        dropout: rate in [0, 1): of attention weights, hidden layers and each sub-layer's output.
        causal: whether a token sees only itself and what stands before it.
    """

    def __init__(
        self,
        width: int,
        memory_width: int,
        layers: int = 16,
        heads: int = 1,
        feed_forward: int = 2048,
        activation: Activation = "relu",
        dropout: float = 0.1,
        causal: bool = False,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            _Layer(width, memory_width, heads, feed_forward, activation, dropout, causal) for _ in range(layers)
        )
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)
        for module in self.modules():
            if isinstance(module, SelfAttention | VectorCrossAttention):
                weight = module.projection.weight if isinstance(module, SelfAttention) else module.value.weight
                bound = (6 / (weight.shape[1] + 3 * width)) ** 0.5
                nn.init.uniform_(weight, -bound, bound)

    def forward(self, x: Tensor, tokens: RealTokens, memory: Tensor) -> Tensor:
        """One pass over T real tokens of B sentences.

        Args:
            x: (T, E) embedded tokens.
            tokens: where they stand.
            memory: (B, D), a vector for each sentence.

        Returns:
            (T, E).
        """
        for layer in self.layers:
            x = layer(x, tokens, memory)
        return x


class _Layer(nn.Module):
    def __init__(
        self,
        width: int,
        memory_width: int,
        heads: int,
        feed_forward: int,
        activation: Activation,
        dropout: float,
        causal: bool,
    ) -> None:
        super().__init__()
        self.self_attention = SelfAttention(width, heads, dropout, causal)
        self.cross_attention = VectorCrossAttention(width, memory_width, heads, dropout)
        self.hidden = nn.Linear(width, feed_forward)
        self.output = nn.Linear(feed_forward, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.activation = activation
        self.dropout = dropout

    def forward(self, x: Tensor, tokens: RealTokens, memory: Tensor) -> Tensor:
        """(T, E) → (T, E)."""
        rate = self.dropout if self.training else 0.0
        after_self, after_cross, after_hidden = self.norms
        x = after_self(x + drop(self.self_attention(x, tokens), rate))
        x = after_cross(x + drop(self.cross_attention(memory, tokens), rate))
        hidden = self.hidden(x)
        hidden = relu_dropout(hidden, rate) if self.activation == "relu" else drop(F.gelu(hidden), rate)
        return after_hidden(x + drop(self.output(hidden), rate))


class SelfAttention(nn.Module):
    """Attention among the tokens of each sentence; see `DenoisingDecoder` for the arguments."""

    def __init__(self, width: int, heads: int, dropout: float, causal: bool) -> None:
        super().__init__()
        self.projection = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.heads = heads
        self.dropout = dropout
        self.causal = causal

    def forward(self, x: Tensor, tokens: RealTokens) -> Tensor:
        """(T, E) → (T, E)."""
        batch, length = tokens.mask.shape
        projected = tokens.unpack(self.projection(x)).view(batch, length, 3, self.heads, -1)
        query, key, value = projected.permute(2, 0, 3, 1, 4)
        keys = None
        if not self.causal:  # padding is on the right: no real token has it before itself
            keys = tokens.mask.clone()
            keys[:, 0] = True  # a sentence without any token would be a softmax over nothing: NaN
            keys = keys[:, None, None, :]
        mixed = F.scaled_dot_product_attention(
            query, key, value, attn_mask=keys, dropout_p=self.dropout if self.training else 0.0, is_causal=self.causal
        )
        return self.output(tokens.pack(mixed.transpose(1, 2).reshape(batch, length, -1)))


class VectorCrossAttention(nn.Module):
    r"""Attention to a memory of length 1.

    The softmax over one key is 1 whatever the query, so that every token t of a sentence with memory z gets

        o = W_o (W_v z + b_v) + b_o

    computed once. In training, dropout turns the 1 into m = 0 or 1 / (1 − p), drawn for each token and head h:

        o_t = Σ_h m_th W_o,h (W_v z + b_v)_h + b_o

    Args:
        width: E of the output.
        memory_width: D of the memory.
        heads: attention heads, a divisor of E.
        dropout: p in [0, 1).
    """

    def __init__(self, width: int, memory_width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.value = nn.Linear(memory_width, width)
        self.output = nn.Linear(width, width)
        self.heads = heads
        self.dropout = dropout

    def forward(self, memory: Tensor, tokens: RealTokens) -> Tensor:
        """(B, D) → (T, E)."""
        batch, length = tokens.mask.shape
        value = self.value(memory)
        if not self.training or self.dropout == 0:
            return tokens.pack(self.output(value)[:, None].expand(-1, length, -1))
        by_head = self.output.weight.unflatten(1, (self.heads, -1))
        parts = torch.einsum("bhd,ehd->bhe", value.unflatten(1, (self.heads, -1)), by_head)
        weights = keep_mask(parts.new_empty(batch, length, self.heads), self.dropout)
        return tokens.pack(weights @ parts) + self.output.bias
