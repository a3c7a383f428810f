"""Sentences to token ids, with special tokens and prompt, the text cut to length but never the prompt."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PretrainedConfig, PreTrainedTokenizerBase

from sentrep.encoder.compute.rows import OFFSET_POSITIONS
from sentrep.encoder.compute.template import Template
from sentrep.errors import InputError

TEXT_SLOT = "[X]"
MASK_SLOT = "[MASK]"


@dataclass(frozen=True)
class Prompt:
    """A template, and whether its own vector is subtracted.

    Args:
        template: such as ``"[X]" means [MASK].`` (quotes included); ``[X]`` is the text.
        subtract: subtract the vector of the template without text (PromptBERT, §4); costs a pass over a row per length.

    Examples:
        >>> from sentrep.encoder import Prompt
        >>> Prompt("This sentence : {sentence} means [MASK].", subtract=True).subtract
        True
    """

    template: str
    subtract: bool = False


def position_limit(config: PretrainedConfig) -> int | None:
    """The longest sequence that the position table holds (None for models without one)."""
    positions = getattr(config, "max_position_embeddings", None)
    if positions is None or positions < 1:  # XLNet has -1 for no limit
        return None
    return positions - 2 if config.model_type in OFFSET_POSITIONS else positions


class TextTokenizer:
    """Token ids of sentences: ``prefix + text + suffix``, where prefix and suffix hold special tokens and prompt.

    The text is tokenised alone and cut first, so a prompt such as ``"[X]" means [MASK].`` is always whole, and the
    position of its mask follows from the length even when the text itself contains a mask token.

    Args:
        tokenizer: a transformers tokenizer.
        prompt: a template with the slot ``[X]``, and ``[MASK]`` for the pooling ``mask``, or None.
        limit: longest sequence that the model can read, in tokens; None for no limit.

    Raises:
        InputError: for a template without its slots, or a tokenizer without a pad (or mask) token.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, prompt: str | None = None, limit: int | None = None) -> None:
        if tokenizer.pad_token_id is None:
            raise InputError(f"the tokenizer of {tokenizer.name_or_path} has no padding token; add one to its config")
        tokenizer.padding_side = "right"  # as here, so that exports do the same elsewhere
        self._keeps_end = tokenizer.truncation_side == "left"
        self.tokenizer = tokenizer
        self.prompt = prompt
        self.limit = limit
        self.pad_token_id: int = tokenizer.pad_token_id
        self._tokens = len(tokenizer)
        before, after = self._special_tokens()
        left, right = self._prompt_ids()
        self.prefix, self.suffix = before + left, right + after
        self.mask_index: int | None = None
        """Position of the prompt's mask: from the start (≥ 0) or, after the text, from the end (< 0)."""
        if prompt is not None and MASK_SLOT in prompt:
            mask = tokenizer.mask_token_id
            self.mask_index = self.prefix.index(mask) if mask in left else self.suffix.index(mask) - len(self.suffix)
        self._vocabulary = self._hash()

    def __call__(self, sentences: Sequence[str], max_length: int | None) -> tuple[list[list[int]], int]:
        """Ids of every sentence, and how many sentences were cut.

        Args:
            sentences: any number of sentences.
            max_length: longest sequence in tokens, special tokens included; with a prompt the length of the text
                alone. None for the model's own limit.

        Returns:
            One list of ids per sentence, and the number of sentences that lost tokens.
        """
        self.check_unchanged()
        room = self._room(max_length)
        texts, cut = self._text_ids(list(sentences)) if sentences else [], 0
        if room is not None:
            cut = sum(len(text) > room for text in texts)
            texts = [text[-room:] if self._keeps_end else text[:room] for text in texts]
        return [self.prefix + text + self.suffix for text in texts], cut

    @property
    def template(self) -> Template:
        """The special tokens and the prompt around a sentence."""
        return Template(self.prefix, self.suffix, self.pad_token_id, self.mask_index)

    @property
    def vocabulary(self) -> str:
        """Fingerprint of the tokenizer's content and the prompt, which decide the ids of a short text."""
        self.check_unchanged()
        return self._vocabulary

    @property
    def fingerprint(self) -> str:
        """The vocabulary's fingerprint and the model's limit, which decide the ids of any text."""
        return f"{self.vocabulary}-{self.limit}"

    def check_unchanged(self) -> None:
        """Refuse a tokenizer that has more or fewer tokens than at first: stored ids and embeddings would not fit it.

        Raises:
            InputError: names the way to add tokens.
        """
        if len(self.tokenizer) != self._tokens:
            raise InputError(
                f"the tokenizer had {self._tokens} tokens when the encoder was built, and has {len(self.tokenizer)} "
                "now; add tokens to a model folder (add_tokens, resize_token_embeddings and save_pretrained of "
                "transformers), and load the folder"
            )

    def word_starts(self, vocab_size: int) -> Tensor:
        """(V,) bool: False for tokens that continue the word before them (``##ing``, or without ``Ġ`` or ``▁``).

        Args:
            vocab_size: V, at least the size of the tokenizer's own vocabulary.
        """
        tokens = self.tokenizer.convert_ids_to_tokens(list(range(len(self.tokenizer))))
        special = set(self.tokenizer.all_special_tokens)
        marks = tuple(mark for mark in ("Ġ", "▁") if any(token.startswith(mark) for token in tokens))
        starts = torch.ones(vocab_size, dtype=torch.bool)
        for number, token in enumerate(tokens):
            goes_on = not token.startswith(marks) if marks else token.startswith("##")
            starts[number] = token in special or not goes_on
        return starts

    def _text_ids(self, sentences: list[str]) -> list[list[int]]:
        """Ids of whole sentences, without special tokens."""
        ids: list[list[int]] = self.tokenizer(
            sentences, add_special_tokens=False, return_attention_mask=False, return_token_type_ids=False, verbose=False
        )["input_ids"]
        return ids

    def _room(self, max_length: int | None) -> int | None:
        frame = len(self.prefix) + len(self.suffix)
        rooms = [] if self.limit is None else [self.limit - frame]
        if max_length is not None:
            rooms.append(max_length if self.prompt is not None else max_length - frame)
        room = min(rooms, default=None)
        if room is not None and room < 1:
            raise InputError(
                f"max_length {max_length} leaves no room for text beside {frame} special and prompt tokens "
                f"(the model reads at most {self.limit}); raise max_length or shorten the prompt"
            )
        return room

    def _special_tokens(self) -> tuple[list[int], list[int]]:
        """The special tokens before and after a text."""
        text = self._ids("a")
        full = self.tokenizer("a", verbose=False)["input_ids"]
        for start in range(len(full) - len(text) + 1):
            if full[start : start + len(text)] == text:
                return full[:start], full[start + len(text) :]
        raise InputError(f"the tokenizer of {self.tokenizer.name_or_path} changes the text when it adds special tokens")

    def _prompt_ids(self) -> tuple[list[int], list[int]]:
        if self.prompt is None:
            return [], []
        if self.prompt.count(TEXT_SLOT) != 1 or self.prompt.count(MASK_SLOT) > 1:
            raise InputError(
                f"prompt {self.prompt!r} needs {TEXT_SLOT} once and {MASK_SLOT} at most once, "
                f'for example: "{TEXT_SLOT}" means {MASK_SLOT}.'
            )
        mask: str | None = self.tokenizer.mask_token
        if mask is None and MASK_SLOT in self.prompt:
            raise InputError(f"prompt {self.prompt!r} needs a mask token, which the tokenizer does not have")
        left, right = self.prompt.replace(MASK_SLOT, mask or "").split(TEXT_SLOT)
        return self._ids(left), self._ids(right)

    def _ids(self, text: str) -> list[int]:
        return self._text_ids([text])[0] if text else []

    def _hash(self) -> str:
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if backend is None:
            content = f"{type(self.tokenizer).__name__} {sorted(self.tokenizer.get_vocab().items())}"
        else:
            # both are left by the last call, and are no settings of the tokenizer
            backend.no_truncation()
            backend.no_padding()
            content = backend.to_str()
        description = f"{content} {self.prefix} {self.suffix} {self._keeps_end}"
        return hashlib.blake2b(description.encode(), digest_size=16).hexdigest()
