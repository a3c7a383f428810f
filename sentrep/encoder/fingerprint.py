"""Telling two encoders apart."""

from __future__ import annotations

from sentrep.encoder.encoder import SentenceEncoder
from sentrep.encoder.graph_encoder import GraphEncoder
from sentrep.io.hashes import hash_weights
from sentrep.io.strangers import settings_text


def fingerprint(encoder: SentenceEncoder | GraphEncoder) -> str:
    """16 hexadecimal digits that change whenever `SentenceEncoder.encode` could give a sentence another vector.

    They follow the weights, the transformer's configuration, the tokenizer, the prompt and its subtraction, the default
    prompt, the length limits, the pooling and the modules.
    """
    settings = encoder.settings
    how = [encoder.tokenize.fingerprint, settings.pooling, settings.max_seq_length, encoder.normalizes]
    if settings.subtract_template:
        how.append("subtract_template")
    if settings.default_prompt:
        how.append(settings.default_prompt)
    if isinstance(encoder, SentenceEncoder):  # a graph holds its settings
        how.append(settings_text(encoder.backbone.config))
    others = settings.modules[: -1 if encoder.normalizes else None]
    weights = {name: tensor for name, tensor in encoder.state_dict().items() if not name.startswith("head.")}
    return hash_weights("/".join(map(str, [*how, others or None])), weights)
