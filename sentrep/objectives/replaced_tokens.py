"""Which tokens of a sentence were replaced, told by a reader that knows the vector of the whole sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sentrep import checks, distributed
from sentrep.encoder import EncoderServices, FrozenEncoder
from sentrep.functional.masking import choose_tokens
from sentrep.functional.similarity import at_least_float32
from sentrep.objectives.base import Objective, between
from sentrep.random import own_draws
from sentrep.types import EncoderSpec, TextBatch, TokenBatch, Views


class ReplacedTokenDetection(Objective):
    """Detect the replaced tokens of an edited sentence by the sentence's vector (DiffCSE, Chuang et al. 2022).

        L = mean_t BCE(D(x″, h)_t, [x″_t ≠ x_t])

    A frozen masked language model, the generator, reads the anchor with a share ``probability`` of its tokens masked,
    and replaces them by draws from its predictions: x″. The discriminator D, a trained copy of the encoder with a
    linear layer, reads x″ with the anchor's vector h (after the projection head) instead of the first token, and
    classifies each token as replaced or not. The gradient flows into h; a linear layer adapts h if its width differs
    from the word embeddings'. t runs over the real tokens of the global batch. The paper's weight of the term is
    λ = 0.005, beside InfoNCE.

    **Departures**: h replaces the first token's *word* embedding, before position and normalisation are
    applied; the authors' code inserts h after the embedding layer. Their code also reads both copies of a sentence, and
    takes the most likely token at every position; the paper, and this class, draw the masked tokens. Of the chosen
    tokens their code masks 80 %, replaces 10 % and keeps 10 %, as BERT does; here all become the mask token. Its mean
    runs over padding, too, as tokens that were not replaced. The paper's projection head has batch normalisation, which
    `sentrep.ProjectionHead` lacks.

    Metrics: ``accuracy`` over this process's tokens, and ``replaced``, the share of changed tokens.

    Args:
        generator: a folder, a checkpoint or a hub id of a masked language model with the same tokenizer and prompt; the
            checkpoint holds its name and a fingerprint. None: the encoder as it was when training began, with its own
            masked-LM head, whose weights the checkpoint holds.
        probability: share of the batch's tokens that is masked, in (0, 1).

    Raises:
        InputError: for values out of range; for a tokenizer without a mask token; for a generator that cannot be
            loaded, or has changed.

    Examples:
        >>> from sentrep import SentenceEncoder, SentRepModule
        >>> from sentrep.objectives import ReplacedTokenDetection
        >>> small = {"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> module = SentRepModule(SentenceEncoder(small, tokenizer="toy"), [ReplacedTokenDetection()])
        >>> sorted(module.objectives.terms)
        ['replacedtokendetection']
    """

    reads_tokens = False

    def __init__(self, generator: str | None = None, probability: float = 0.3) -> None:
        super().__init__()
        checks.within(self, 0, 1 - 1e-9, open_below=True, probability=probability)
        self.generator: FrozenEncoder | None = None
        self.probability = probability

    def build(self, spec: EncoderSpec, services: EncoderServices) -> None:
        """Copy the encoder, and its masked-LM head if it is the generator."""
        self._mask_token_id, self._frame = spec.mask_token(self), spec.frame
        discriminator: Any = services.copy(trainable=True)
        self.discriminator = discriminator
        width = discriminator.encoder.backbone.get_input_embeddings().weight.shape[1]
        with own_draws(spec.seed, spec.name, "replaced_tokens"):
            self.enter = between(spec.embedding_dim, width)
            self.detect = nn.Linear(spec.hidden_size, 1)
        if (generator := self.init_args["generator"]) is not None:
            self.generator = services.frozen(generator)
        else:
            self.first_encoder = services.copy()
            self.first_lm_head = services.lm_head(trainable=False)

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        """Sum over this process's tokens ÷ their average number per process; see the class and `Objective.forward`."""
        tokens = batch.anchor
        edited = self.edit(tokens)
        words = self.discriminator.encoder.look_up(edited)
        words = torch.cat([self.enter(views.anchor)[:, None].to(words.dtype), words[:, 1:]], dim=1)
        states = self.discriminator(edited, words).token_states[:, : tokens.input_ids.shape[1]]
        # undefined rows of padding are taken out before they meet the loss
        logits = at_least_float32(self.detect(states).squeeze(-1)).masked_fill(tokens.attention_mask == 0, 0.0)
        replaced, real = edited.input_ids != tokens.input_ids, tokens.attention_mask.to(logits.dtype)
        count = real.sum()
        right = ((logits > 0) == replaced) * real
        self.metrics = {"accuracy": right.sum() / count, "replaced": replaced.sum() / count}
        loss = F.binary_cross_entropy_with_logits(logits, replaced.to(logits.dtype), weight=real, reduction="sum")
        return loss / distributed.average(count)

    @torch.no_grad()
    def edit(self, tokens: TokenBatch) -> TokenBatch:
        """The sentences (B, L) with the generator's guesses instead of masked tokens."""
        count = max(1, round(self.probability * (tokens.count() - len(tokens) * sum(self._frame))))
        chosen = choose_tokens(tokens.own(self._frame), count)
        flat = tokens.input_ids.flatten()
        masked = flat.scatter(0, chosen, self._mask_token_id).view_as(tokens.input_ids)
        logits = self._guess(replace(tokens, input_ids=masked), chosen).float()
        # the largest logit with Gumbel noise is a draw from their softmax
        noise = torch.rand(logits.shape, device=logits.device).clamp_min(1e-30).log().neg().log().neg()
        drawn = flat.scatter(0, chosen, (logits + noise).argmax(1))
        return replace(tokens, input_ids=drawn.view_as(masked))

    def _guess(self, masked: TokenBatch, chosen: Tensor) -> Tensor:
        """Logits (m, V) at the chosen places."""
        if self.generator is not None:
            return self.generator.predict_tokens(masked).flatten(0, 1)[chosen]
        states = self.first_encoder(masked).token_states[:, : masked.input_ids.shape[1]]
        return self.first_lm_head(states.flatten(0, 1)[chosen])

    def get_extra_state(self) -> dict[str, Any]:
        """A reference to the generator, for the checkpoint."""
        return {} if self.generator is None else self.generator.state()

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Remember which generator the checkpoint was trained with."""
        if self.generator is not None:
            self.generator.load_state(state)
