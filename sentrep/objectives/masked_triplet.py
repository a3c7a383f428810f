"""A sentence is nearer to itself with few words missing than with many."""

from __future__ import annotations

import torch
from torch import Tensor

from sentrep import checks
from sentrep.encoder import EncoderServices
from sentrep.errors import InputError
from sentrep.functional.similarity import unit
from sentrep.objectives.base import Objective
from sentrep.types import EncoderSpec, TextBatch, TokenBatch, Views


class MaskedTriplet(Objective):
    """The order of a sentence and two shortened versions (ArcCSE, Zhang et al. 2022, the triplet term).

        ℓ_i = max(0, cos(h_i, h_i″) − cos(h_i, h_i′) + margin)

    h′ is the vector of the sentence with a masked span of a share ``less`` of its own tokens. h″ has a larger masked
    span, of a share ``more``, that contains the first: the sentence entails h′, which entails h″. The shared pass
    encodes the masked sentences. The spans are drawn at every call. If a sentence is so short that both spans are
    equal, its loss is ``margin`` up to dropout, with almost no gradient.

    **Departures**: spans are of tokens, not of words, and their lengths are rounded; the margin's default is ours.

    Args:
        less: share of masked tokens for h′, in (0, 1).
        more: share of masked tokens for h″, in (``less``, 1).
        margin: ≥ 0, the required difference of the cosines.

    Raises:
        InputError: for values out of range, and for a tokenizer without a mask token.

    Examples:
        >>> from sentrep import SentenceEncoder, SentRepModule
        >>> from sentrep.objectives import MaskedTriplet
        >>> small = {"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> module = SentRepModule(SentenceEncoder(small, tokenizer="toy"), [MaskedTriplet()])
        >>> sorted(module.objectives.terms)
        ['maskedtriplet']
    """

    reads_tokens = False
    projects_extra = True

    def __init__(self, less: float = 0.2, more: float = 0.4, margin: float = 0.1) -> None:
        super().__init__()
        checks.within(self, 0, 1 - 1e-9, open_below=True, less=less, more=more)
        checks.not_negative(self, margin=margin)
        if more <= less:
            raise InputError(f"MaskedTriplet: more must be above less, got {more} and {less}")
        self.less, self.more, self.margin = less, more, margin

    def build(self, spec: EncoderSpec, services: EncoderServices) -> None:
        """Take note of the mask token."""
        self._mask_token_id, self._frame = spec.mask_token(self), spec.frame

    def extra_inputs(self, batch: TextBatch) -> dict[str, TokenBatch]:
        """The anchors with the shorter span masked, and with the longer one."""
        tokens = batch.anchor
        where = torch.rand(len(tokens), 1, device=tokens.input_ids.device)
        inside = torch.rand(len(tokens), 1, device=tokens.input_ids.device)
        own = tokens.own(self._frame)
        count = own.sum(1, keepdim=True)
        longer, shorter = ((share * count).round().clamp_min(1) for share in (self.more, self.less))
        begin = (where * (count - longer + 1)).floor()
        nested = begin + (inside * (longer - shorter + 1)).floor()
        place = own.cumsum(1) - 1  # 0 for the first own token

        def masked(begin: Tensor, length: Tensor) -> TokenBatch:
            span = own & (place >= begin) & (place < begin + length)
            ids = tokens.input_ids.masked_fill(span, self._mask_token_id)
            return TokenBatch(ids, tokens.attention_mask, tokens.lengths)

        return {"less": masked(nested, shorter), "more": masked(begin, longer)}

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        """Mean of ℓ_i over this process's rows; see the class."""
        whole, less, more = (unit(x) for x in (views.anchor, views.projected["less"], views.projected["more"]))
        apart = (whole * less).sum(1) - (whole * more).sum(1)
        self.metrics = {"ordered": (apart > 0).float().mean()}
        return (self.margin - apart).clamp_min(0).mean()
