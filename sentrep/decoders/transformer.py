"""A Transformer decoder whose memory is one vector."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sentrep.decoders.dropout import keep_mask, relu_dropout
from sentrep.decoders.real_tokens import RealTokens
from sentrep.encoder.compute.cpu import drop

Activation = Literal["relu", "gelu"]


class DenoisingDecoder(nn.Module):
    """The decoder of DenoSent: post-norm Transformer layers (Vaswani et al. 2017) with the sentence vector as memory.

    Equal to ``nn.TransformerDecoder`` of ``nn.TransformerDecoderLayer`` with a memory of length 1, without what cannot
    matter there: a softmax over one key is 1, so that cross-attention needs no queries and keys, and only
    self-attention computes padding. On a CPU dropout comes from `sentrep.encoder.compute.cpu`, with rates
    exact to 2⁻¹⁶. Biases start at 0 and weights as N(0, 0.02²), except the in-projections of both attentions: as in
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
        causal: whether a token sees only itself and earlier tokens.
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
        made = [_Layer(width, memory_width, heads, feed_forward, activation, dropout, causal) for _ in range(layers)]
        self.layers = nn.ModuleList(made)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)
        for layer in made:
            for projection in (layer.projection, layer.value):
                bound = (6 / (projection.in_features + 3 * width)) ** 0.5
                nn.init.uniform_(projection.weight, -bound, bound)

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
    r"""A layer; see `DenoisingDecoder` for the arguments.

    The softmax over one key is 1 whatever the query, so that cross-attention gives every token t of a sentence with
    memory z

        o = W_o (W_v z + b_v) + b_o

    computed once. In training, dropout turns the 1 into m = 0 or 1 / (1 − p), drawn for each token and head h:

        o_t = Σ_h m_th W_o,h (W_v z + b_v)_h + b_o
    """

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
        self.projection = nn.Linear(width, 3 * width)
        self.attended = nn.Linear(width, width)
        self.value = nn.Linear(memory_width, width)
        self.crossed = nn.Linear(width, width)
        self.hidden = nn.Linear(width, feed_forward)
        self.output = nn.Linear(feed_forward, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.heads, self.activation, self.dropout, self.causal = heads, activation, dropout, causal

    def forward(self, x: Tensor, tokens: RealTokens, memory: Tensor) -> Tensor:
        """(T, E) → (T, E)."""
        rate = self.dropout if self.training else 0.0
        batch, length = tokens.mask.shape
        after_self, after_cross, after_hidden = self.norms

        projected = self.projection(x)
        padded = projected.new_zeros(batch * length, projected.shape[1]).index_copy_(0, tokens.index, projected)
        query, key, value = padded.view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        keys = None
        if not self.causal:  # padding is on the right: no real token has it before itself
            keys = tokens.mask.clone()
            keys[:, 0] = True  # a sentence without any token would be a softmax over nothing: NaN
            keys = keys[:, None, None, :]
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=keys, dropout_p=rate, is_causal=self.causal)
        mixed = mixed.transpose(1, 2).reshape(batch * length, -1).index_select(0, tokens.index)
        x = after_self(x + drop(self.attended(mixed), rate))

        by_head = self.crossed.weight.unflatten(1, (self.heads, -1))
        parts = torch.einsum("bhd,ehd->bhe", self.value(memory).unflatten(1, (self.heads, -1)), by_head)
        weights = parts.new_ones(batch, length, self.heads)
        if rate:
            weights = keep_mask(weights, rate)
        crossed = (weights @ parts).flatten(0, 1).index_select(0, tokens.index) + self.crossed.bias
        x = after_cross(x + drop(crossed, rate))

        hidden = self.hidden(x)
        hidden = relu_dropout(hidden, rate) if self.activation == "relu" else drop(F.gelu(hidden), rate)
        return after_hidden(x + drop(self.output(hidden), rate))
