"""DenoSent's denoising objective: rebuild a sentence's tokens from a ruined copy and the sentence vector."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from sentrep import checks, distributed
from sentrep.decoders import DenoisingDecoder, RealTokens
from sentrep.encoder import EncoderServices
from sentrep.encoder.compute.cpu import drop
from sentrep.errors import InputError
from sentrep.functional.sum_in_chunks import chunked_cross_entropy, rows_at_once, sum_in_chunks
from sentrep.objectives.base import Objective
from sentrep.random import own_draws
from sentrep.types import EncoderOutput, EncoderSpec, TextBatch, TokenBatch, Views

_SHORTENED = "tokens_deleted"


class Denoising(Objective):
    """Mean cross-entropy of a sentence's tokens, given a noisy copy of them and the sentence vector (DenoSent, eq. 4).

        L = mean_t −log softmax(head(Dec(dropout_p(E(x)), z)_t))[x_t]

    The decoder Dec (`sentrep.decoders.DenoisingDecoder`) has no causal mask: it reads the whole noisy sentence and, by
    cross-attention, the vector z. Its input is the encoder's embedding-layer output E(x), with positions and
    without gradient. Dropout p is so strong that the decoder needs z to rebuild the tokens. The head is the
    backbone's masked-LM head on the word embeddings; both are trained. t runs over the real tokens of the global
    batch, special tokens and prompt included (the paper prints their sum, its code takes the mean).

    z is the anchor's vector, after the projection head. The choice of the rebuilt sentence x is the *discrete* noise.
    **Departure from the paper**, following the authors' code: the paper has the anchor's tokens at the output and the
    rewritten sentence at the input, which needs aligned positions. Here, by default, the
    positive is both input and output, and the anchor's vector helps to rebuild it. Views with shuffled word embeddings
    or feature cutoff (`sentrep.views.EncodedViews`) are rebuilt clean and in order, views of changed tokens
    (`Views.read`) with their changed tokens.

    With ``causal`` and ``token_deletion`` it is TSDAE (Wang et al. 2021): the encoder reads the anchor with deleted
    tokens, and the decoder predicts each token of the whole sentence from the previous tokens. There z is the
    pooled vector of the shortened anchor, *without* projection head (TSDAE has none). The shortened anchors add
    one more copy of the batch to the shared pass. Unlike TSDAE's decoder, this one shares no weights with the encoder
    and starts at random. If this is the only objective, remove the projection head, which would not be trained.

    Noise and deletions are drawn at every call, also in evaluation mode, because they are the task.

    Metrics: ``accuracy``, the share of this process's tokens that the decoder predicts correctly.

    Args:
        layers: of the decoder; the paper's best of 12, 14, 16.
        heads: attention heads of the decoder; 1 beats 2 to 16 in the paper.
        feed_forward: width of the decoder's hidden layers.
        activation: of the hidden layers, ``relu`` or ``gelu``.
        dropout: of the decoder.
        noise: p in [0, 1), the dropout on the decoder's input; 0 without a causal mask gives a trivial task.
        target: the rebuilt sentence, ``positive`` or ``anchor``. Without given positives both are the same sentence,
            but the positive has another dropout mask in the embedding layer.
        causal: predict each token from the previous tokens, instead of from the noisy copies of all tokens.
        token_deletion: share in [0, 1) of the anchor's own tokens that are deleted from the encoder's input; one token
            always remains. 0: the contrastive objective's vector. TSDAE has 0.6.

    Raises:
        InputError: for values out of range; for heads that do not divide the width; for a backbone whose masked-LM head
            cannot be used; for views that do not belong to the batch's sentences.

    Examples:
        >>> from sentrep import SentenceEncoder, SentRepModule
        >>> from sentrep.objectives import Denoising
        >>> small = {"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> module = SentRepModule(SentenceEncoder(small, tokenizer="toy"), [Denoising(layers=1)])
        >>> sorted(module.objectives.terms)
        ['denoising']
    """

    def __init__(
        self,
        layers: int = 16,
        heads: int = 1,
        feed_forward: int = 2048,
        activation: Literal["relu", "gelu"] = "relu",
        dropout: float = 0.1,
        noise: float = 0.825,
        target: Literal["positive", "anchor"] = "positive",
        causal: bool = False,
        token_deletion: float = 0.0,
    ) -> None:
        super().__init__()
        checks.at_least(self, 1, layers=layers, heads=heads)
        checks.share(self, dropout=dropout, noise=noise, token_deletion=token_deletion)
        self.noise = noise
        self.target = target
        self.causal = causal
        self.token_deletion = token_deletion

    def build(self, spec: EncoderSpec, services: EncoderServices) -> None:
        """Create the decoder, and take the encoder's masked-LM head."""
        width, settings = spec.hidden_size, self.init_args
        checks.divides(self, width, "the encoder's width", heads=settings["heads"])
        self.lm_head = services.lm_head()
        self.frame = spec.frame
        self.pad_token_id = spec.pad_token_id
        self.chunk = rows_at_once(spec.vocab_size)
        self.rows = services.rows_at_once
        with own_draws(spec.seed, spec.name, "denoising"):
            self.decoder = DenoisingDecoder(
                width,
                spec.vector_dim if self.token_deletion else spec.embedding_dim,
                **{name: settings[name] for name in ("layers", "heads", "feed_forward", "activation", "dropout")},
                causal=self.causal,
            )

    def extra_inputs(self, batch: TextBatch) -> dict[str, TokenBatch]:
        """The anchors with deleted tokens, if the noise is token deletion."""
        if not self.token_deletion:
            return {}
        return {_SHORTENED: delete_tokens(batch.anchor, self.token_deletion, self.frame, self.pad_token_id)}

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        """Sum over this process's tokens ÷ their average number per process; see the class and `Objective.forward`."""
        clean, output = self._clean(views, batch if views.read is None else views.read)
        memory = views.extra[_SHORTENED].embedding if self.token_deletion else views.anchor
        embedded = output.input_embeddings[:, : clean.input_ids.shape[1]].detach()
        wanted, mask = clean.input_ids, clean.attention_mask
        count = None if clean.lengths is None else int(clean.lengths.sum())
        if self.causal:  # token t is predicted where token t − 1 is read
            embedded, wanted, mask = embedded[:, :-1], wanted[:, 1:], mask[:, 1:]
            count = None if count is None else count - len(clean)
        if self.rows is None:
            total, hits = self._rebuild(memory, embedded, wanted, mask, count)
        else:
            parameters = [*self.decoder.parameters(), *self.lm_head.parameters()]
            total, hits = sum_in_chunks(self._rebuild, [memory, embedded, wanted, mask], parameters, chunk=self.rows)
        predicted = max(int(mask.sum()) if count is None else count, 1)
        self.metrics = {"accuracy": hits / predicted}
        return total / distributed.average(total.new_full((), predicted))

    def _rebuild(
        self, memory: Tensor, embedded: Tensor, wanted: Tensor, mask: Tensor, count: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """Sum of the cross-entropies over ``count`` tokens, and how many of these are named."""
        tokens = RealTokens.of(mask, count)
        noisy = drop(tokens.pack(embedded), self.noise)
        states = self.decoder(noisy, tokens, memory)
        head = self.lm_head
        return chunked_cross_entropy(states, tokens.pack(wanted), head, list(head.parameters()), chunk=self.chunk)

    def _clean(self, views: Views, batch: TextBatch) -> tuple[TokenBatch, EncoderOutput]:
        """The sentences to rebuild, and their encoder outputs."""
        clean = batch.anchor if self.target == "anchor" or batch.positive is None else batch.positive
        output = views.anchor_output if self.target == "anchor" else views.positive_output
        rows, length = output.input_embeddings.shape[:2]
        if rows != len(clean) or length < clean.input_ids.shape[1]:
            raise InputError(
                f"Denoising: {self.target}_output of the views has {rows}×{length} tokens, but the batch's sentences "
                f"have {len(clean)}×{clean.input_ids.shape[1]}: its rows must belong to the batch's {self.target}s"
            )
        return clean, output


def delete_tokens(tokens: TokenBatch, rate: float, frame: tuple[int, int], pad_token_id: int) -> TokenBatch:
    """A copy in which each own token of a sentence is missing with probability ``rate`` (TSDAE, §3).

    Args:
        tokens: (B, L).
        rate: in [0, 1).
        frame: number of tokens before and after a sentence's own, which always stay; so does one own token.
        pad_token_id: what fills the rest.

    Returns:
        (B, L), the remaining tokens in order on the left.
    """
    ids, real, own = tokens.input_ids, tokens.attention_mask.bool(), tokens.own(frame)
    draws = torch.rand(ids.shape, device=ids.device).masked_fill(~own, -1.0)
    kept = real & (~own | (draws >= rate) | (draws == draws.amax(1, keepdim=True)))
    return tokens.repeat(kept.long(), ids.shape[1], pad_token_id)
