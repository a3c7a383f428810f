"""What objectives may know of an encoder."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from sentrep.encoder.loading.lm_head import HeadOrigin, language_model_head
from sentrep.types import EncoderSpec

if TYPE_CHECKING:
    from sentrep.encoder.encoder import SentenceEncoder


def specification(encoder: SentenceEncoder, origin: HeadOrigin, seed: int) -> EncoderSpec:
    """The facts about ``encoder``, and the door to its masked-LM head, which is made when it is first asked for.

    Args:
        encoder: with its projection head attached.
        origin: where the masked-LM head's weights come from.
        seed: of the run.
    """
    tokenizer = encoder.tokenize.tokenizer
    return EncoderSpec(
        embedding_dim=encoder.hidden_size if encoder.head is None else encoder.head.dense.out_features,
        hidden_size=encoder.hidden_size,
        input_embedding_dim=encoder.hidden_size,
        vocab_size=encoder.vocab_size,
        pad_token_id=encoder.tokenize.pad_token_id,
        mask_token_id=tokenizer.mask_token_id,
        special_token_ids=tuple(tokenizer.all_special_ids),
        vocabulary=encoder.tokenize.vocabulary,
        seed=seed,
        frame=(len(encoder.tokenize.prefix), len(encoder.tokenize.suffix)),
        grad_cache_chunk=encoder.grad_cache_chunk,
        word_starts=lambda: encoder.tokenize.word_starts(encoder.vocab_size),
        lm_head=functools.cache(lambda: language_model_head(encoder.backbone, origin, seed)),
    )
