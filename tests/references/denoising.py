"""The denoising decoder and its loss as one would write them without thinking: torch's own decoder, all logits."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sentrep.decoders import DenoisingDecoder


def torch_decoder(ours: DenoisingDecoder, activation: str) -> nn.TransformerDecoder:
    """``nn.TransformerDecoder`` with copies of our weights; its idle query and key projections are random."""
    first = ours.layers[0]
    width, memory_width = first.value.weight.shape
    heads, dropout = first.heads, first.dropout
    layer = nn.TransformerDecoderLayer(
        width, heads, first.hidden.out_features, dropout, activation, batch_first=True, norm_first=False
    )
    reference = nn.TransformerDecoder(layer, len(ours.layers))
    for theirs in reference.layers:
        theirs.multihead_attn = nn.MultiheadAttention(
            width, heads, dropout, kdim=memory_width, vdim=memory_width, batch_first=True
        )
    reference.to(first.hidden.weight)
    with torch.no_grad():
        for _, mine, theirs in counterparts(ours, reference):
            theirs.copy_(mine)
    return reference.train(ours.training)


def counterparts(ours: DenoisingDecoder, reference: nn.TransformerDecoder) -> list[tuple[str, Tensor, Tensor]]:
    """Name, our parameter and theirs (or the part of theirs) for everything that both have."""
    found = []
    for number, (mine, theirs) in enumerate(zip(ours.layers, reference.layers, strict=True)):
        attention, cross, width = theirs.self_attn, theirs.multihead_attn, mine.hidden.in_features
        value = cross.v_proj_weight if cross.in_proj_weight is None else cross.in_proj_weight[2 * width :]
        pairs = {
            "self.in.weight": (mine.projection.weight, attention.in_proj_weight),
            "self.in.bias": (mine.projection.bias, attention.in_proj_bias),
            "self.out.weight": (mine.attended.weight, attention.out_proj.weight),
            "self.out.bias": (mine.attended.bias, attention.out_proj.bias),
            "cross.value.weight": (mine.value.weight, value),
            "cross.value.bias": (mine.value.bias, cross.in_proj_bias[2 * width :]),
            "cross.out.weight": (mine.crossed.weight, cross.out_proj.weight),
            "cross.out.bias": (mine.crossed.bias, cross.out_proj.bias),
            "hidden.weight": (mine.hidden.weight, theirs.linear1.weight),
            "hidden.bias": (mine.hidden.bias, theirs.linear1.bias),
            "output.weight": (mine.output.weight, theirs.linear2.weight),
            "output.bias": (mine.output.bias, theirs.linear2.bias),
        }
        for place, norm in enumerate((theirs.norm1, theirs.norm2, theirs.norm3)):
            pairs[f"norm{place}.weight"] = (mine.norms[place].weight, norm.weight)
            pairs[f"norm{place}.bias"] = (mine.norms[place].bias, norm.bias)
        found += [(f"layer {number} {name}", *pair) for name, pair in pairs.items()]
    return found


def gradients(ours: DenoisingDecoder, reference: nn.TransformerDecoder) -> list[tuple[str, Tensor, Tensor]]:
    """`counterparts`, of the gradients."""
    for parameter in (*ours.parameters(), *reference.parameters()):
        parameter.data, parameter.grad = parameter.grad, None  # then the same slices are slices of the gradient
    return counterparts(ours, reference)


def run(
    reference: nn.TransformerDecoder, x: Tensor, attention_mask: Tensor, memory: Tensor, causal: bool = False
) -> Tensor:
    """(B, L, E) padded tokens and (B, D) vectors → (B, L, E)."""
    length = x.shape[1]
    future = torch.ones(length, length, dtype=torch.bool).triu(1) if causal else None
    return reference(x, memory[:, None], tgt_mask=future, tgt_key_padding_mask=~attention_mask.bool())


def denoising_loss(logits: Tensor, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
    """Mean cross-entropy over the real tokens, from all logits (B, L, V)."""
    targets = input_ids.masked_fill(attention_mask == 0, -100)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100)
