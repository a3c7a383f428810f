"""The data that flows through one training step: tokens in, views out. Every field states its shape.

B is the number of sentences on this process, L the padded length, D the embedding width, E the width of the embedding
layer's output.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from torch.optim import Optimizer

from sentrep.errors import InputError

OptimizerCallable = Callable[[Iterable], Optimizer]
"""Parameters, or groups of them, to an optimiser. Lightning's own type is in a module that needs jsonargparse, which a
machine that only trains may not have."""


@dataclass
class TokenBatch:
    """Right-padded token ids of B sentences."""

    input_ids: Tensor
    """(B, L) int64."""
    attention_mask: Tensor
    """(B, L) int64, 1 on real tokens and 0 on padding."""
    lengths: NDArray[np.int64] | None = None
    """(B,) number of real tokens of each sentence, if the host knows it; None if only the device does."""
    prompt: Tensor | None = None
    """(B,) int64, the number of the prompt around each sentence: 0 is the encoder's prompt, higher numbers come from
    `EncoderServices.add_prompt`; None: 0 for all sentences."""

    def __len__(self) -> int:
        return self.input_ids.shape[0]

    def own(self, frame: tuple[int | Tensor, int | Tensor]) -> Tensor:
        """(B, L) bool, the tokens of the sentences themselves: no padding, special tokens or words of a prompt.

        Args:
            frame: numbers of tokens before and after a sentence's own tokens (`EncoderSpec.frame`), or (B, 1) of each.
        """
        position = torch.arange(self.input_ids.shape[1], device=self.input_ids.device)
        return (position >= frame[0]) & (position < self.attention_mask.sum(1, keepdim=True) - frame[1])

    def count(self) -> int:
        """Number of real tokens; waits for the device only if ``lengths`` is None."""
        return int(self.attention_mask.sum() if self.lengths is None else self.lengths.sum())

    def split(self, rows: int) -> list[TokenBatch]:
        """Parts of at most ``rows`` rows, of the same padded length."""
        return [self[slice(start, start + rows)] for start in range(0, len(self), rows)]

    def __getitem__(self, rows: slice) -> TokenBatch:
        """Some of the rows, of the same padded length."""
        parts = (self.input_ids, self.attention_mask, self.lengths, self.prompt)
        return TokenBatch(*(None if part is None else part[rows] for part in parts))  # type: ignore[arg-type]

    def widened(self, columns: int, pad_token_id: int) -> TokenBatch:
        """The same sentences with more columns of padding: (B, L + columns)."""
        ids = F.pad(self.input_ids, (0, columns), value=pad_token_id)
        return TokenBatch(ids, F.pad(self.attention_mask, (0, columns)), self.lengths, self.prompt)

    def repeat(self, times: Tensor, width: int, pad_token_id: int) -> TokenBatch:
        """Repeat each real token ``times`` times, in order, without waiting for the device.

        Args:
            times: (B, L) int64; 0 deletes a token.
            width: L', at least the length of the longest resulting row.
            pad_token_id: fills the rest.

        Returns:
            (B, L').
        """
        ends = (times * self.attention_mask).cumsum(1)
        position = torch.arange(width, device=ends.device).repeat(len(self), 1)
        source = torch.searchsorted(ends, position, right=True).clamp_max(ends.shape[1] - 1)
        mask = position < ends[:, -1:]
        ids = self.input_ids.gather(1, source).masked_fill(~mask, pad_token_id)
        return TokenBatch(ids, mask.to(self.attention_mask.dtype), prompt=self.prompt)

    @staticmethod
    def concatenate(batches: Sequence[TokenBatch], pad_token_id: int) -> TokenBatch:
        """Stack batches along the rows, padded to the longest of them.

        Args:
            batches: at least one batch; shapes (B_k, L_k).
            pad_token_id: fills the new columns.

        Returns:
            A batch of shape (Σ B_k, max L_k).
        """
        width = max(batch.input_ids.shape[1] for batch in batches)
        lengths = [batch.lengths for batch in batches if batch.lengths is not None]

        def stack(tensors: list[Tensor], value: int) -> Tensor:
            return torch.cat([F.pad(t, (0, width - t.shape[1]), value=value) for t in tensors])

        prompts = [torch.zeros_like(b.input_ids[:, 0]) if b.prompt is None else b.prompt for b in batches]
        return TokenBatch(
            input_ids=stack([batch.input_ids for batch in batches], pad_token_id),
            attention_mask=stack([batch.attention_mask for batch in batches], 0),
            lengths=np.concatenate(lengths) if len(lengths) == len(batches) else None,
            prompt=None if all(batch.prompt is None for batch in batches) else torch.cat(prompts),
        )


@dataclass
class TextBatch:
    """One training batch: a sentence per row, with a positive and a hard negative if the corpus has them."""

    anchor: TokenBatch
    """The sentences (B, L)."""
    positive: TokenBatch | None
    """Their given positives (B, L'), or None: the sentence itself, encoded twice."""
    negative: TokenBatch | None
    """Their hard negatives (B, L''), or None."""
    rows: Tensor
    """(B,) int64, the row numbers in the corpus, so that a batch can be found again."""

    def __len__(self) -> int:
        return len(self.anchor)


@dataclass(frozen=True)
class Need:
    """The outputs of an encoder pass that are needed besides the pooled vectors."""

    tokens: bool = True
    """Whether the states of all tokens are needed (`EncoderOutput.token_states` and ``input_embeddings``)."""
    layers: tuple[int, ...] = ()
    """The keys of `EncoderOutput.layers`."""

    @property
    def vectors_only(self) -> bool:
        """Whether only the vectors are needed."""
        return not self.tokens and not self.layers


class Layers(dict[int, Tensor]):
    """The layers' outputs that objectives requested; reading another layer raises an error with advice."""

    def __missing__(self, layer: int) -> NoReturn:
        raise InputError(f"layer {layer} was not kept: an objective that reads it must say reads_layers = ({layer},)")


NOT_MADE = "the tokens' states were not made: an objective or module that reads them must say reads_tokens = True"


_OF_SENTENCES = ("embedding", "layers")


@dataclass(init=False, eq=False, repr=False)
class EncoderOutput:
    """The output of one encoder pass for B sentences; reading tokens' states that were not computed raises an error."""

    embedding: Tensor
    """(B, D) the vectors of `SentenceEncoder.encode`: after pooling and modules, before any projection head."""
    token_states: Tensor
    """(B, L, H) last hidden states; rows of padding are undefined."""
    input_embeddings: Tensor
    """(B, L, E) output of the embedding layer; rows of padding are undefined."""
    layers: dict[int, Tensor]
    """(B, L, H) each, the outputs of the layers in `Objective.reads_layers`, by their number: 0 is the
    embedding layer, k the k-th layer, −1 the last layer; rows of padding are undefined."""

    def __init__(
        self,
        embedding: Tensor,
        token_states: Tensor | None = None,
        input_embeddings: Tensor | None = None,
        layers: dict[int, Tensor] | None = None,
    ) -> None:
        self.embedding = embedding
        self.layers = Layers() if layers is None else layers
        if token_states is not None:
            self.token_states = token_states
        if input_embeddings is not None:
            self.input_embeddings = input_embeddings

    def __getattr__(self, name: str) -> NoReturn:
        """Raise an error for outputs that were not computed.

        Raises:
            InputError: for the tokens' states.
        """
        if name in ("token_states", "input_embeddings"):
            raise InputError(NOT_MADE)
        raise AttributeError(name)

    def narrowed(self, columns: int) -> EncoderOutput:
        """The same output without the last columns of the tokens' states."""
        made = {name: x[:, : x.shape[1] - columns] for name, x in vars(self).items() if name not in _OF_SENTENCES}
        layers = Layers({number: x[:, : x.shape[1] - columns] for number, x in self.layers.items()})
        return EncoderOutput(self.embedding, **made, layers=layers)

    def split(self, start: int, extra: Mapping[str, TokenBatch]) -> dict[str, EncoderOutput]:
        """The outputs of the extra inputs of a step, which begin at row ``start``."""
        ends = [*itertools.accumulate((len(tokens) for tokens in extra.values()), initial=start)]
        return {name: self[slice(*rows)] for name, rows in zip(extra, itertools.pairwise(ends), strict=True)}

    def __getitem__(self, rows: slice) -> EncoderOutput:
        layers = Layers({number: states[rows] for number, states in self.layers.items()})
        made = {name: tensor[rows] for name, tensor in vars(self).items() if name != "layers"}
        return EncoderOutput(**made, layers=layers)


@dataclass(frozen=True)
class EncoderSpec:
    """Facts about the encoder and the run for a plug-in that creates its tensors (`Objective.build`)."""

    embedding_dim: int
    """D, the width of `Views.anchor` (after the projection head)."""
    vector_dim: int
    """Width of `EncoderOutput.embedding` (before the projection head)."""
    hidden_size: int
    """H, the width of `EncoderOutput.token_states`."""
    layers: int
    """Number of layers, without the embedding layer."""
    vocab_size: int
    """Number of rows of the word embedding."""
    pad_token_id: int
    """What fills up shorter sentences."""
    mask_token_id: int | None
    """The token that hides a word; None where the tokenizer has none."""
    frame: tuple[int, int]
    """Number of special tokens and words of the prompt before and after a sentence's own tokens."""
    seed: int
    """Seed of everything that is drawn per step (`sentrep.random.step_generator`)."""
    name: str = ""
    """The objective's name in the run, which its draws may depend on (`sentrep.random.step_generator`)."""

    def mask_token(self, owner: object) -> int:
        """The token that hides a word, for an objective that cannot do without.

        Raises:
            InputError: the tokenizer has none; names the class of ``owner``.
        """
        if self.mask_token_id is None:
            raise InputError(f"{type(owner).__name__} needs a tokenizer with a mask token, and this one has none")
        return self.mask_token_id


@dataclass
class Views:
    """The views of this process's B sentences, after the projection head, from one shared encoder pass."""

    anchor: Tensor
    """(B, D)."""
    positive: Tensor
    """(B, D)."""
    negative: Tensor | None
    """(B, D) hard negatives, or None."""
    anchor_output: EncoderOutput
    """The encoder's output of the anchors."""
    positive_output: EncoderOutput
    """The encoder's output of the positives."""
    extra: dict[str, EncoderOutput] = field(default_factory=dict)
    """Outputs for `Objective.extra_inputs`: an objective sees its own, by the keys that it gave."""
    projected: dict[str, Tensor] = field(default_factory=dict)
    """Their vectors (B, D) after the projection head, where the objective has `Objective.projects_extra`."""
    second: Tensor | None = None
    """(B, D) further views of the sentences, used as negatives of other sentences; None: the positives are used."""
    read: TextBatch | None = None
    """The tokens of the views; None: the batch's tokens. Token augmentations and prompts of one view
    change them."""

    @property
    def key(self) -> Tensor:
        """(B, D) each sentence's vector as a negative of the other anchors of the batch."""
        return self.positive if self.second is None else self.second


@dataclass
class StepTerms:
    """The results of one training batch, with their graph, just before the backward pass."""

    views: Views
    losses: dict[str, Tensor]
    """L_k of each objective, by name."""
    weighted: dict[str, Tensor]
    """weight_k · L_k, by name."""
    rows: Tensor
    """(B,) `TextBatch.rows`."""
    loss: Tensor
    """The sum of `weighted`."""


class Tokenize(Protocol):
    """Turns sentences into token ids exactly as the encoder wants them; `SentenceEncoder.tokenize` is one."""

    pad_token_id: int
    vocabulary_size: int
    """Every id is below it."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever the same sentence could get other ids: the tokenizer's content and the prompt."""
        ...

    def __call__(self, sentences: Sequence[str], max_length: int | None) -> tuple[list[list[int]], int]:
        """Ids of every sentence, special tokens and prompt included, and how many sentences were cut.

        Args:
            sentences: any number of sentences.
            max_length: longest allowed sequence in tokens; None means the model's own limit.
        """
        ...
