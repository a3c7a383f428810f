"""The toy corpus: English sentences from a small grammar, graded pairs, and a tokenizer for them.

A sentence says a meaning in a wording. The grade of two sentences is the agreement of their meanings, never of their
words.
"""

from __future__ import annotations

import functools
import gzip
import json
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerFast

from sentrep.data.sets.scored_pairs import ScoredPairs

CORPUS_FILE = Path(__file__).with_name("corpus.json.gz")
TOKENIZER_FILE = Path(__file__).with_name("tokenizer.json")
MODEL_MAX_LENGTH = 64
"""Longest sequence in tokens; the longest toy sentence has fewer than 40."""

SPECIAL_TOKENS = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}


def sentences(count: int = 20_000) -> list[str]:
    """The first ``count`` of the toy's 20,000 sentences, no two the same; none has a meaning of `scored_pairs`.

    Examples:
        >>> sentences(1)
        ['The docker loaded the freighter silently on the reef.']
    """
    return _corpus()["train"][:count]


def scored_pairs(split: str) -> ScoredPairs:
    """The toy's 750 graded pairs of a split, from 0 (unrelated) to 5 (the same meaning).

    Args:
        split: ``"dev"`` or ``"test"``.
    """
    return ScoredPairs(f"toy-{split}", **_corpus()[split], protocol="toy: agreement of meaning slots, not a benchmark")


def tokenizer() -> PreTrainedTokenizerFast:
    """The toy's lower-casing WordPiece tokenizer; it adds [CLS] and [SEP] as BERT's does.

    Examples:
        >>> tokenizer().tokenize("The chef baked bread.")
        ['the', 'chef', 'b', '##ak', '##ed', 'bread', '.']
    """
    return PreTrainedTokenizerFast(
        tokenizer_file=str(TOKENIZER_FILE),
        model_max_length=MODEL_MAX_LENGTH,
        **{f"{role}_token": token for role, token in SPECIAL_TOKENS.items()},
    )


@functools.cache
def _corpus() -> dict[str, Any]:
    return json.loads(gzip.decompress(CORPUS_FILE.read_bytes()))
