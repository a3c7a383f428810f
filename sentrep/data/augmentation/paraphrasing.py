"""Paraphrases and contrary sentences of a language model: which are fit to train on."""

from __future__ import annotations

from dataclasses import dataclass

from sentrep.data.augmentation.filters import PairFilter, letters

TRIPLET = ("sent0", "sent1", "hard_neg")
"""Columns of the output: sentence, paraphrase and contrary sentence, under SimCSE's names."""
NO_CONTRAST = "contrary says the same"


@dataclass(frozen=True)
class Contrast:
    """The condition on a triplet: a paraphrase that passes the filter, and a contrary sentence that is neither."""

    check: PairFilter
    """What a paraphrase must satisfy."""

    def __call__(self, sentence: str, texts: tuple[str, ...]) -> str:
        """The verdict on (paraphrase, contrary)."""
        paraphrase, contrary = texts
        if letters(contrary) in (letters(sentence), letters(paraphrase)):
            return NO_CONTRAST
        return self.check(sentence, paraphrase)
