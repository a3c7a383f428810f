"""Telling two encoders apart."""

from __future__ import annotations

from typing import Any

from sentrep.io.hashes import hash_weights
from sentrep.io.strangers import settings_text


def fingerprint(encoder: Any) -> str:
    """16 hexadecimal digits that change whenever `SentenceEncoder.encode` could give a sentence another vector.

    They follow the weights, the transformer's configuration, the tokenizer, the prompt and its subtraction, the default
    prompt, the length limits, the pooling and the modules.

    Args:
        encoder: a `SentenceEncoder` or a `GraphEncoder`.
    """
    settings = encoder.settings
    how = [encoder.tokenize.fingerprint, settings.pooling, settings.max_seq_length, encoder.normalizes]
    if settings.subtract_template:
        how.append("subtract_template")
    if settings.default_prompt:
        how.append(settings.default_prompt)
    if hasattr(encoder, "backbone"):  # a graph holds its settings
        how.append(settings_text(encoder.backbone.config))
    others = settings.modules[: -1 if encoder.normalizes else None]
    weights = {name: tensor for name, tensor in encoder.state_dict().items() if not name.startswith("head.")}
    return hash_weights("/".join(map(str, [*how, others or None])), weights)
