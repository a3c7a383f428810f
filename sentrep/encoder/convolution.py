"""Convolutions over the tokens instead of a pooling (IS-BERT)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from sentrep.encoder.modules import SentenceModule


class ConvolutionalPooling(SentenceModule):
    """The mean of convolutions of several widths over the tokens (Zhang et al. 2020, IS-BERT, §3.2).

        c_t = ReLU([W_k ∗ h + b_k]_t),  k in ``windows``, concatenated;      s = mean over the real tokens t of c_t

    h are the last hidden states, 0 beyond a sentence's ends. It must be the first module, and ignores the
    pooled vector. `features` returns c, the local features that IS-BERT's objective compares with s.

    Args:
        windows: odd widths, in tokens.
        filters: of each width; None for H ÷ the number of widths, so that s has the backbone's width if this divides H.

    Examples:
        >>> import torch
        >>> from sentrep.encoder import ConvolutionalPooling
        >>> pooling = ConvolutionalPooling(windows=(1, 3), filters=8)
        >>> pooling.build(width=4, std=0.02)
        >>> pooling(torch.ones(3, 4), torch.ones(3, 5, 4), torch.ones(3, 5)).shape
        torch.Size([3, 16])
    """

    reads_tokens = True

    def __init__(self, windows: Sequence[int] = (1, 3, 5), filters: int | None = None) -> None:
        super().__init__()
        self.windows = list(windows)

    def build(self, width: int, std: float) -> None:
        """See `SentenceModule.build`; torch's own initial weights."""
        filters = self.init_args["filters"] or max(1, width // len(self.windows))
        self.layers = nn.ModuleList(nn.Conv1d(width, filters, size, padding=size // 2) for size in self.windows)
        self.out_features = filters * len(self.windows)

    def features(self, token_states: Tensor, mask: Tensor) -> Tensor:
        """(B, L, H) → c, (B, L, D'); rows of padding are undefined."""
        states = token_states.masked_fill(mask[..., None] == 0, 0.0).transpose(1, 2)
        return torch.cat([layer(states) for layer in self.layers], dim=1).relu().transpose(1, 2)

    def forward(self, embedding: Tensor, token_states: Tensor, mask: Tensor) -> Tensor:
        """See `SentenceModule.forward`."""
        found = self.features(token_states, mask).masked_fill(mask[..., None] == 0, 0.0)
        return found.sum(1) / mask.sum(1, keepdim=True).clamp_min(1)
