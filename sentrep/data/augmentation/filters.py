"""Accept a pair of a sentence and its rewriting for training, or name the reason against it."""

from __future__ import annotations

import functools
import unicodedata
from collections import Counter
from dataclasses import dataclass

from sentrep.errors import InputError

KEPT = "kept"
BLANK = "blank in the input"
EMPTY = "empty"
MALFORMED = "malformed answer"
NO_ANSWER = "no answer"
NO_CONTRAST = "contrary says the same"
IDENTICAL = "identical"
LENGTH = "length ratio"
SCRIPT = "other script"
TOO_LONG = "source too long"
UNFINISHED = "unfinished translation"

_FOREIGN_SHARE = 0.1


@dataclass(frozen=True)
class PairFilter:
    """The conditions on a pair, checked in this order: empty, identical, script, length ratio.

    Examples:
        >>> check = PairFilter()
        >>> check("A man plays the flute.", "a man plays, the flute")
        'identical'
        >>> check("A man plays the flute.", "The flute is played by a man.")
        'kept'
        >>> check("A man plays the flute.", "Yes.")
        'length ratio'
        >>> check("A man plays the flute.", "A man plays the 长笛.")
        'other script'

    Raises:
        InputError: the ratios are not 0 ≤ min < max.
    """

    keep_identical: bool = False
    """keep pairs that differ in case, spacing and punctuation only."""
    check_script: bool = True
    """leave out rewritings in which more than a tenth of the letters are of scripts that the sentence does not use."""
    min_ratio: float = 0.5
    """minimum ratio of the rewriting's length to the sentence's length, in characters."""
    max_ratio: float = 2.0
    """maximum of this ratio."""

    def __post_init__(self) -> None:
        if not 0 <= self.min_ratio < self.max_ratio:
            raise InputError(
                f"length ratio from {self.min_ratio} to {self.max_ratio}: expected 0 or more, and the first below the "
                "second"
            )

    def __call__(self, sentence: str, rewriting: str) -> str:
        """`KEPT`, or the name of the first condition that fails."""
        if not rewriting.strip():
            return EMPTY
        if not self.keep_identical and letters(sentence) == letters(rewriting):
            return IDENTICAL
        if self.check_script and _foreign_share(sentence, rewriting) > _FOREIGN_SHARE:
            return SCRIPT
        ratio = len(rewriting.strip()) / max(1, len(sentence.strip()))
        return KEPT if self.min_ratio <= ratio <= self.max_ratio else LENGTH


def contrasting(check: PairFilter, sentence: str, paraphrase: str, contrary: str) -> str:
    """The verdict on a paraphrase that passes the filter, and a contrary sentence that is neither of the other two."""
    if letters(contrary) in (letters(sentence), letters(paraphrase)):
        return NO_CONTRAST
    return check(sentence, paraphrase)


def letters(text: str) -> str:
    """The text without case, spacing and punctuation; the text itself if nothing else is left."""
    return "".join(filter(str.isalnum, text.casefold())) or text.strip()


def _foreign_share(sentence: str, rewriting: str) -> float:
    """Share of the rewriting's letters that are in no script of the sentence; 0 where either has no letters."""
    own = {_script(character) for character in sentence if character.isalpha()}
    scripts = Counter(_script(character) for character in rewriting if character.isalpha())
    foreign = sum(count for script, count in scripts.items() if script not in own)
    return foreign / scripts.total() if own and scripts else 0.0


@functools.lru_cache(maxsize=1 << 16)
def _script(letter: str) -> str:
    """First word of the character's Unicode name, its script: LATIN, CYRILLIC, CJK, HIRAGANA, ..."""
    return unicodedata.name(letter, "UNNAMED").split()[0]
