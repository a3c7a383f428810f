"""Telling two encoders apart."""

from __future__ import annotations

from typing import Any

from sentrep.config import to_config
from sentrep.io.configurations import settings_text
from sentrep.io.hashes import hash_weights


def fingerprint(encoder: Any) -> str:
    """16 hexadecimal digits that change whenever `SentenceEncoder.encode` could give a sentence another vector.

    They follow the weights, the transformer's configuration, the tokenizer, the prompt and its subtraction, the default
    prompt, the length limits, the pooling and the modules.

    Args:
        encoder: a `SentenceEncoder` or a `GraphEncoder`.
    """
    how: list[Any] = [encoder.tokenize.fingerprint, encoder.max_seq_length, encoder.truncate_dim]
    if encoder.default_prompt_name is not None:
        how.append(encoder.prompts[encoder.default_prompt_name])
    if hasattr(encoder, "backbone"):  # a graph holds its settings
        how += [encoder.pooling, encoder.subtract_template, encoder.include_prompt]
        how.append(settings_text(encoder.backbone.config))
        for module in encoder.sentence_modules:
            arguments = to_config({**module.init_args, "out_features": module.out_features})
            how.append([type(module).__qualname__, arguments])
    weights = {name: tensor for name, tensor in encoder.state_dict().items() if not name.startswith("head.")}
    return hash_weights("/".join(map(str, how)), weights)
