"""The arguments of `SentenceEncoder`, checked before anything is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sentrep import checks
from sentrep.encoder.compute.pooling import POOLINGS
from sentrep.errors import InputError

LONGEST = 10**6
"""Tokens of a sequence."""


def check_arguments(arguments: Mapping[str, Any]) -> None:
    """Refuse values that would fail, or be misunderstood, only in training.

    Args:
        arguments: of `SentenceEncoder`, by name.

    Raises:
        InputError: names the argument.
    """
    owner, given = "SentenceEncoder", checks.given
    backbone, prompt = arguments["backbone"], arguments["prompt"]
    if not isinstance(backbone, dict):
        checks.text(owner, backbone=backbone)
    checks.one_of(owner, tuple(POOLINGS), pooling=arguments["pooling"])
    if arguments["pooling"] == "mask" and prompt is None:
        raise InputError("pooling 'mask' needs a prompt with a [MASK], for example '\"[X]\" means [MASK].'")
    if arguments["subtract_template"] and prompt is None:
        raise InputError("subtract_template needs a prompt: without one there is no template")
    checks.text(owner, **given(prompt=prompt, tokenizer=arguments["tokenizer"], revision=arguments["revision"]))
    checks.whole(owner, 1, LONGEST, max_length=arguments["max_length"])
    checks.whole(owner, 1, LONGEST, **given(max_seq_length=arguments["max_seq_length"]))
    checks.share(owner, **given(dropout=arguments["dropout"]))
    checks.whole(owner, 1, **given(chunks=arguments["chunks"]))
    flags = ("pretrained", "normalize", "fast_dropout", "pooled_token_only", "trust_remote_code", "subtract_template")
    checks.flag(owner, **{name: arguments[name] for name in (*flags, "packed")})
