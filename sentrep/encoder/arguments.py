"""The arguments of `SentenceEncoder`, checked before anything is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sentrep import checks
from sentrep.encoder.adapters import Lora
from sentrep.encoder.compute.plan import Compute
from sentrep.encoder.compute.pooling import POOLINGS
from sentrep.encoder.loading.sources import Hub
from sentrep.encoder.modules import SentenceModule
from sentrep.encoder.text.tokenizer import Prompt
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
    if not isinstance(prompt, Prompt):
        checks.text(owner, **given(prompt=prompt))
    checks.text(owner, **given(tokenizer=arguments["tokenizer"]))
    checks.whole(owner, 1, LONGEST, max_length=arguments["max_length"])
    checks.whole(owner, 1, LONGEST, **given(max_seq_length=arguments["max_seq_length"]))
    checks.share(owner, **given(dropout=arguments["dropout"]))
    checks.flag(owner, pretrained=arguments["pretrained"])
    checks.each(owner, SentenceModule, modules=arguments["modules"] or [])
    checks.instance(owner, Hub, hub=arguments["hub"])
    checks.instance(owner, Compute, compute=arguments["compute"])
    checks.instance(owner, Lora, **given(adapter=arguments["adapter"]))
    if not isinstance(arguments["trainable"], bool):
        checks.each(owner, str, trainable=arguments["trainable"])
