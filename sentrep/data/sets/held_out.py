"""Sentences that are taken out of the training text, to choose a checkpoint by without labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sentrep.data.text.tokenized import TokenizedCorpus
from sentrep.errors import InputError

_SEED = 0
"""Seed of the choice. It is not the run's, so that runs with different seeds are judged on the same sentences."""


@dataclass
class HeldOut:
    """Sentences held out of the training text, for criteria that need no labels."""

    ids: list[list[int]]
    """Token ids of each, as in training; no two sentences are the same."""

    def __len__(self) -> int:
        return len(self.ids)


def hold_out(tokens: TokenizedCorpus, count: int) -> tuple[HeldOut, TokenizedCorpus]:
    """Draw sentences (anchors, no two the same) from the corpus; the remaining training text has none of them.

    Every row in which a held-out sentence stands, in whatever column, is left out, so that a sentence that the corpus
    repeats is not trained on either. The choice is a function of the tokenised corpus and ``count`` alone.

    Args:
        tokens: the corpus.
        count: how many sentences, at least 2.

    Returns:
        The sentences, and the rows to train on, in the order of the corpus.

    Raises:
        InputError: for as many as there are different sentences.
    """
    keys = tokens.sentence_keys()
    order = np.random.default_rng(np.random.SeedSequence(_SEED)).permutation(len(tokens))
    distinct = np.sort(np.unique(keys[order, 0], return_index=True)[1])
    if count >= len(distinct):
        raise InputError(
            f"held_out {count}: the training text has only {len(distinct)} different sentences; hold out fewer"
        )
    chosen = order[distinct[:count]]
    kept = ~np.isin(keys, keys[chosen, 0]).any(axis=1)
    return HeldOut([ids.tolist() for ids in tokens[chosen].columns[0]]), TokenizedCorpus(tokens.path, tokens.rows[kept])
