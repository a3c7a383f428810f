"""Telling two encoders apart."""

from __future__ import annotations

import hashlib

import torch

from sentrep.encoder.protocol import Encoder


def fingerprint(encoder: Encoder) -> str:
    """16 hexadecimal digits that change whenever `SentenceEncoder.encode` could give a sentence another vector.

    They follow the weights, the tokenizer, the prompt and its subtraction, the length limits, the pooling and a head
    that is kept.
    """
    head = encoder.head if encoder.head is not None and encoder.head.keep else None
    how = [encoder.tokenize.fingerprint, encoder.pooling, encoder.max_seq_length, encoder.normalize]
    if encoder.subtract_template:
        how.append("subtract_template")
    digest = hashlib.blake2b("/".join(map(str, [*how, head and head.trained()["kind"]])).encode(), digest_size=8)
    for name, weights in sorted(encoder.state_dict().items()):
        if head is not None or not name.startswith("head."):
            digest.update(name.encode())
            digest.update(weights.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()
