"""Mutual information between a sentence's vector and its own tokens (IS-BERT)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sentrep import distributed
from sentrep.encoder import ConvolutionalPooling, EncoderServices
from sentrep.errors import InputError
from sentrep.functional.similarity import at_least_float32, linear
from sentrep.objectives.base import Objective
from sentrep.random import own_draws
from sentrep.types import EncoderSpec, TextBatch, Views


class LocalGlobalInformation(Objective):
    """Jensen-Shannon estimate of mutual information between sentences and their tokens (Zhang et al. 2020, IS-BERT).

        L = mean_i mean_{t of i} [ sp(−T(c_it, s_i)) + mean_{j≠i} sp(T(c_it, s_j)) ],    sp(x) = log(1 + eˣ)

    s are the anchors' vectors of all processes. c are the features of their tokens, from the `ConvolutionalPooling` in
    ``model.encoder.modules``, or otherwise the last hidden states. T(c, s) = sᵀ W c with a learned W. Departures: in
    the authors' code T is the plain dot product, without W; here the mean is first over the tokens of a sentence, so
    that long and short sentences have the same weight.

    Raises:
        InputError: for a batch of one sentence, which has no negatives.

    Examples:
        >>> from sentrep import SentenceEncoder, SentRepModule
        >>> from sentrep.encoder import ConvolutionalPooling
        >>> from sentrep.objectives import LocalGlobalInformation
        >>> small = {"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> encoder = SentenceEncoder(small, tokenizer="toy", modules=[ConvolutionalPooling()])
        >>> module = SentRepModule(encoder, [LocalGlobalInformation()], head=None)
    """

    def build(self, spec: EncoderSpec, services: EncoderServices) -> None:
        """Create W, and find the convolutions, which stay the encoder's."""
        self._pooling = tuple(module for module in services.modules if isinstance(module, ConvolutionalPooling))
        width = self._pooling[0].out_features if self._pooling else spec.hidden_size
        with own_draws(spec.seed, spec.name, "local_global_information"):
            self.score = nn.Linear(width, spec.embedding_dim, bias=False)

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        """Mean over this process's rows; see the class."""
        sentences = at_least_float32(distributed.gather(views.anchor))
        if len(sentences) == 1:
            raise InputError("a batch of one sentence has no other sentences: raise data.batch_size")
        mask = (views.read or batch).anchor.attention_mask
        states = views.anchor_output.token_states[:, : mask.shape[1]]
        tokens = self._pooling[0].features(states, mask) if self._pooling else states
        with torch.autocast(sentences.device.type, enabled=False):
            tokens = at_least_float32(tokens.masked_fill(mask[..., None] == 0, 0.0))
            scores = linear(self.score, tokens) @ sentences.T  # (B, L, N)
        rows = distributed.own_rows(len(mask), mask.device)
        own = F.one_hot(rows, len(sentences)).bool()[:, None]
        positive = F.softplus(-scores).masked_fill(~own, 0.0).sum(2)
        negative = F.softplus(scores).masked_fill(own, 0.0).sum(2) / (len(sentences) - 1)
        loss = (positive + negative).masked_fill(mask == 0, 0.0).sum(1) / mask.sum(1)
        return loss.mean()
