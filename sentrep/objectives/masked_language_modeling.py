"""Masked language modelling, alone or beside other objectives."""

from __future__ import annotations

from torch import Tensor

from sentrep import checks, distributed
from sentrep.encoder import EncoderServices
from sentrep.errors import InputError
from sentrep.functional.masking import choose_tokens, corrupt
from sentrep.functional.sum_in_chunks import chunked_cross_entropy, rows_at_once
from sentrep.objectives.base import Objective
from sentrep.types import EncoderSpec, TextBatch, TokenBatch, Views

KEY = "masked_language_modeling"
"""Key of the masked sentences among the extra inputs."""


class MaskedLanguageModeling(Objective):
    """Predict masked tokens (BERT, §3.1); with weight 0.1, SimCSE's auxiliary term.

        L = −(1/m) Σ_k log p(x_k | masked sentences),   k over the m chosen tokens of all processes

    A share ``probability`` of each batch's tokens is chosen; special tokens and the prompt's words never are. Of those,
    ``mask`` become the mask token, ``random`` a random token, and the rest does not change. The shared pass encodes
    the masked sentences. Logits, by the backbone's own head, are computed for chosen tokens only.

    BERT chooses 15 % of each sentence; here it is 15 % of the batch, which is the same on average and does not round
    the share of a sentence. (SimCSE's code draws each token independently with probability 0.15.)

    Args:
        probability: share of the tokens that is chosen, in (0, 1).
        whole_word: choose words instead of tokens.
        mask: probability that a chosen token becomes the mask token.
        random: probability that it becomes a random token; ``mask + random`` ≤ 1.
        both_copies: also mask the positives (without given positives the anchors a second time, by another draw), as
            SimCSE's code does, which masks hard negatives, too. False masks only the anchors, at half the cost.

    Raises:
        InputError: for values out of range, and for a tokenizer without a mask token.

    Examples:
        >>> from sentrep import SentenceEncoder, SentRepModule
        >>> from sentrep.objectives import MaskedLanguageModeling
        >>> small = {"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> module = SentRepModule(SentenceEncoder(small, tokenizer="toy"), [MaskedLanguageModeling(probability=0.15)])
        >>> sorted(module.objectives.terms)
        ['maskedlanguagemodeling']
    """

    def __init__(
        self,
        probability: float = 0.15,
        whole_word: bool = False,
        mask: float = 0.8,
        random: float = 0.1,
        both_copies: bool = False,
    ) -> None:
        super().__init__()
        checks.within(self, 0, 1 - 1e-9, open_below=True, probability=probability)
        checks.within(self, -checks.LARGEST, checks.LARGEST, mask=mask, random=random)
        if mask < 0 or random < 0 or mask + random > 1:
            raise InputError(f"mask and random must be ≥ 0 with a sum ≤ 1, got {mask} and {random}")
        self.probability = probability
        self.whole_word = whole_word
        self.mask = mask
        self.random = random
        self.both_copies = both_copies

    def build(self, spec: EncoderSpec, services: EncoderServices) -> None:
        """Take the backbone's masked-LM head."""
        self._mask_token_id, self._vocab_size, self._frame = spec.mask_token(self), spec.vocab_size, spec.frame
        self._pad_token_id = spec.pad_token_id
        self._chunk = rows_at_once(spec.vocab_size)
        self.lm_head = services.lm_head()
        self.word_starts: Tensor | None
        self.register_buffer("word_starts", services.word_starts() if self.whole_word else None, persistent=False)

    def extra_inputs(self, batch: TextBatch) -> dict[str, TokenBatch]:
        """The anchors, and perhaps the positives below them, with chosen tokens masked."""
        tokens = batch.anchor
        if self.both_copies:
            tokens = TokenBatch.concatenate([tokens, batch.positive or tokens], self._pad_token_id)
        self._width = tokens.input_ids.shape[1]
        count = max(1, round(self.probability * (tokens.count() - len(tokens) * sum(self._frame))))
        starts = None if self.word_starts is None else self.word_starts[tokens.input_ids]
        self._chosen = choose_tokens(tokens.own(self._frame), count, starts)
        self._targets = tokens.input_ids.flatten()[self._chosen]
        masked = corrupt(
            tokens.input_ids,
            self._chosen,
            mask_token_id=self._mask_token_id,
            vocab_size=self._vocab_size,
            mask=self.mask,
            random=self.random,
        )
        return {KEY: TokenBatch(masked, tokens.attention_mask, tokens.lengths)}

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        """The mean over the chosen tokens of all processes; see the class."""
        states = views.extra[KEY].token_states
        # the shared pass pads to its longest input, and positions were counted in the masked sentences' own width
        total, correct = chunked_cross_entropy(
            states[:, : self._width].reshape(-1, states.shape[-1])[self._chosen],
            self._targets,
            self.lm_head,
            list(self.lm_head.parameters()),
            chunk=self._chunk,
        )
        self.metrics = {"accuracy": correct / len(self._targets)}
        return total / distributed.average(total.new_full((), len(self._targets)))
