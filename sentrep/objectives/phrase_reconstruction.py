"""PaSeR: write a sentence's phrase from two vectors, of the sentence and of the sentence without the phrase."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sentrep import checks, distributed
from sentrep.encoder import EncoderServices
from sentrep.errors import InputError
from sentrep.functional.phrases import find_phrases
from sentrep.functional.similarity import at_least_float32
from sentrep.objectives.base import Objective, between, draw_weights
from sentrep.random import own_draws
from sentrep.types import EncoderSpec, TextBatch, TokenBatch, Views

_MASKED = "phrase_masked"
_IGNORED = -100


class PhraseReconstruction(Objective):
    """Mean cross-entropy of a phrase's tokens, written one after the other (PaSeR, Wu & Zhao 2022).

        L = mean_t −log softmax(head(Dec(x_<t; [a·(z ∘ z'), b·(z − z'), z, z'])))[x_t]

    x is the sentence's phrase and z the sentence's vector (the anchor's, after the projection head). z' = W z̃ + c comes
    from the vector z̃ of the sentence with a masked phrase, from the same pass. Dec is a Transformer decoder with a
    causal mask, and its memory are the four vectors. It reads the encoder's embedding-layer output of the previous
    tokens, after a learned start. The head is the backbone's masked-LM head. t runs over the phrases of the global
    batch. From the authors' code: the four vectors and their weights, W for z̃ only, layers, heads and the shared
    head; their code adds masked language modelling with weight 1 (`MaskedLanguageModeling`).

    **Departures.** The paper extracts phrases beforehand and replaces words of the second sentence by synonyms. Here
    the phrase is the run of ``share`` of the sentence's own tokens with the largest sum of log(N / n), where n of the
    N sentences of the global batch contain the token. Its tokens become mask tokens, and there are no synonyms. The
    decoder sees the tokens' places in the sentence, and has no position table. Anchors must be unchanged:
    no token augmentation or `TokenShuffling` of anchors.

    Metrics: ``accuracy``, the share of this process's phrase tokens that the decoder predicts correctly.

    Args:
        share: of a sentence's own tokens that are its phrase, in (0, 1); at least one token.
        layers: of the decoder.
        heads: attention heads of the decoder.
        feed_forward: width of the decoder's hidden layers; None for the backbone's hidden size.
        dropout: of the decoder.
        product: a.
        difference: b.

    Raises:
        InputError: for values out of range; for heads that do not divide the width; for a tokenizer without a mask
            token; for a backbone whose masked-LM head cannot be used.

    Examples:
        >>> from sentrep import SentenceEncoder, SentRepModule
        >>> from sentrep.objectives import PhraseReconstruction
        >>> small = {"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> module = SentRepModule(SentenceEncoder(small, tokenizer="toy"), [PhraseReconstruction(layers=1, heads=2)])
        >>> sorted(module.objectives.terms)
        ['phrasereconstruction']
    """

    def __init__(
        self,
        share: float = 0.3,
        layers: int = 6,
        heads: int = 16,
        feed_forward: int | None = None,
        dropout: float = 0.1,
        product: float = 1.0,
        difference: float = 1.0,
    ) -> None:
        super().__init__()
        checks.within(self, 0, 1 - 1e-9, open_below=True, share=share)
        checks.at_least(self, 1, layers=layers, heads=heads)
        checks.share(self, dropout=dropout)
        checks.not_negative(self, product=product, difference=difference)
        self.share, self.product, self.difference = share, product, difference

    def build(self, spec: EncoderSpec, services: EncoderServices) -> None:
        """Create the decoder, and take the encoder's masked-LM head."""
        width, settings = spec.hidden_size, self.init_args
        checks.divides(self, width, "the encoder's width", heads=settings["heads"])
        self._mask_token_id, self._frame, self._vocab_size = spec.mask_token(self), spec.frame, spec.vocab_size
        self.lm_head = services.lm_head()
        with own_draws(spec.seed, spec.name, "phrase_reconstruction"):
            self.masked = nn.Linear(spec.vector_dim, spec.embedding_dim)
            self.memory = between(spec.embedding_dim, width)
            self.start = nn.Parameter(0.02 * torch.randn(width))
            layer = nn.TransformerDecoderLayer(
                width, settings["heads"], settings["feed_forward"] or width, settings["dropout"], "gelu",
                batch_first=True,
            )  # fmt: skip
            self.decoder = nn.TransformerDecoder(layer, settings["layers"])
            draw_weights(self.decoder)  # the layers are copies of one

    def extra_inputs(self, batch: TextBatch) -> dict[str, TokenBatch]:
        """The anchors with their phrases masked."""
        tokens, ids = batch.anchor, batch.anchor.input_ids
        first, length = find_phrases(ids, tokens.own(self._frame), self.share, self._vocab_size)
        place = torch.arange(ids.shape[1], device=ids.device)
        hidden = (place >= first[:, None]) & (place < (first + length)[:, None])
        step = torch.arange(max(1, round(self.share * ids.shape[1])), device=ids.device)
        self._places = (first[:, None] + step).clamp_max(ids.shape[1] - 1)
        self._targets = ids.gather(1, self._places).masked_fill(step >= length[:, None], _IGNORED)
        return {_MASKED: replace(tokens, input_ids=ids.masked_fill(hidden, self._mask_token_id))}

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        """Sum over this process's phrase tokens ÷ their average number per process; see the class."""
        if views.read is not None and views.read.anchor is not batch.anchor:
            raise InputError("PhraseReconstruction reads anchors where they stand; leave out what moves their tokens")
        whole, masked = views.anchor, self.masked(views.extra[_MASKED].embedding)
        parts = [self.product * whole * masked, self.difference * (whole - masked), whole, masked]
        embedded = views.anchor_output.input_embeddings
        before = embedded.gather(1, self._places[:, :-1, None].expand(-1, -1, embedded.shape[-1]))
        read = torch.cat([self.start.to(before.dtype).expand(len(before), 1, -1), before], 1)
        causal = torch.ones(read.shape[1], read.shape[1], dtype=torch.bool, device=read.device).triu(1)
        states = self.decoder(read, self.memory(torch.stack(parts, 1)), tgt_mask=causal, tgt_is_causal=True)
        targets = self._targets.flatten()
        logits = at_least_float32(self.lm_head(states)).flatten(0, 1)
        count = (targets != _IGNORED).sum()
        self.metrics = {"accuracy": (logits.argmax(1) == targets).sum() / count.clamp_min(1)}
        total = F.cross_entropy(logits, targets, ignore_index=_IGNORED, reduction="sum")
        return total / distributed.average(count.to(total)).clamp_min(1e-6)
