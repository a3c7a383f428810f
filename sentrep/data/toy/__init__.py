"""The embedded toy corpus: English sentences from a small grammar, graded pairs, and a tokenizer for them.

It exists so that training can be tried and tested in a minute without any download. It is a toy: scores on
The scores of ``toy-dev`` and ``toy-test`` mean nothing for real sentences.
"""

from sentrep.data.toy.shipped import scored_pairs, sentences, tokenizer

__all__ = ["scored_pairs", "sentences", "tokenizer"]
