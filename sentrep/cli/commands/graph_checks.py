"""How near the vectors of an exported graph are to the model's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import torch

from sentrep.cli.commands.models import sentences_of
from sentrep.cli.errors import UsageError
from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.data.text.corpus import open_corpus
from sentrep.encoder import SentenceEncoder
from sentrep.errors import InputError
from sentrep.evaluation import evaluate_sts
from sentrep.functional.similarity import unit
from sentrep.reports.text import printable

_SAME = 0.9999
"""Least cosine of vectors that should differ by rounding alone."""
_ENOUGH, _READ = 500, 1024
"""Sentences that int8 is measured on, at least and at most."""


def calibration_sentences(calibration: str | None, quantize: str | None) -> list[str]:
    """Sentences that compare the graph with the model and scale int8; an empty list for the embedded text.

    Raises:
        InputError: there are too few.
        UsageError: none are named for int8.
    """
    if calibration is None:
        if quantize is not None:
            raise UsageError(
                f"{quantize} is measured on your text: name {_ENOUGH} sentences or more with --calibration"
            )
        return []
    found = list(islice(sentences_of(open_corpus(calibration)), _READ))
    if len(found) < _ENOUGH:
        raise InputError(f"{calibration}: a graph is compared on at least {_ENOUGH} sentences, and it has {len(found)}")
    return found


def compare_vectors(encoder: SentenceEncoder, graph: Any, sentences: list[str], least: float | None) -> None:
    """Print how near the graph's vectors are.

    Raises:
        InputError: for one that is further than ``least``, or than rounding explains.
    """
    ours, theirs = (unit(torch.as_tensor(which.encode(sentences))) for which in (encoder, graph))
    cosine = (ours * theirs).sum(1)
    if least is None and cosine.min() < _SAME:
        raise InputError(f"the graph's vectors are not the model's (cosine {cosine.min():.4f}), so nothing is written")
    if least is not None and cosine.min() < least:
        raise InputError(
            f"int8 turns vectors of this text too far (cosine to float32 {cosine.min():.4f} at worst, mean "
            f"{cosine.mean():.4f}), so nothing is written; leave --quantize out, or lower --least_cosine {least}"
        )
    print(f"cosine to torch in float32: mean {cosine.mean():.5f}, min {cosine.min():.5f} ({len(sentences)} sentences)")


def compare_scores(encoder: SentenceEncoder, graph: Any, sets: Sequence[ScoredPairs]) -> None:
    """Print the scores of model and graph on similarity sets."""
    for ours, theirs in zip(*(evaluate_sts(which, sets) for which in (encoder, graph)), strict=True):
        more = theirs.main_score - ours.main_score
        print(f"{printable(ours.name)}: {ours.main_score:.2f} in torch, {theirs.main_score:.2f} ({more:+.2f})")
