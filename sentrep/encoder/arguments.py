"""The arguments of `SentenceEncoder` that no other class checks, checked before anything is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sentrep import checks
from sentrep.encoder.adapters import Lora
from sentrep.encoder.compute.plan import Compute
from sentrep.encoder.loading.settings import Settings
from sentrep.encoder.modules import SentenceModule
from sentrep.encoder.text.tokenizer import Prompt


def check_arguments(arguments: Mapping[str, Any]) -> None:
    """Refuse values that would fail, or be misunderstood, only in training.

    Args:
        arguments: of `SentenceEncoder`, by name.

    Raises:
        InputError: names the argument.
    """
    owner, given, prompt = "encoder", checks.given, arguments["prompt"]
    template = prompt.template if isinstance(prompt, Prompt) else prompt
    lengths = {name: arguments[name] for name in ("max_length", "max_seq_length")}
    Settings(arguments["pooling"], template, **lengths)
    checks.text(owner, **given(tokenizer=arguments["tokenizer"]))
    checks.share(owner, **given(dropout=arguments["dropout"]))
    checks.flag(owner, pretrained=arguments["pretrained"])
    checks.each(owner, SentenceModule, modules=arguments["modules"] or [])
    checks.instance(owner, Compute, compute=arguments["compute"])
    checks.instance(owner, (bool, list, Lora), trainable=arguments["trainable"])
    if isinstance(arguments["trainable"], list):
        checks.each(owner, str, trainable=arguments["trainable"])
