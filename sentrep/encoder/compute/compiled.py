"""The encoder through `torch.compile`: nothing is compiled after warm-up, in training nor in `encode`."""

from __future__ import annotations

import functools
import importlib.util
import math
import os
import shutil
import sys
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel

from sentrep.encoder.compute import forward
from sentrep.encoder.compute.chunks import vectors_only
from sentrep.errors import InputError
from sentrep.types import EncoderOutput, TokenBatch

if TYPE_CHECKING:
    from sentrep.encoder.encoder import SentenceEncoder

Mode = Literal["default", "reduce-overhead"]
"""Of `torch.compile`; ``reduce-overhead`` adds CUDA graphs."""

_BUCKETS = 4
"""Lengths that are compiled: torch compiles a function for 8 shapes, and groups of a batch come in two sizes."""

_HOOKED: weakref.WeakSet[PreTrainedModel] = weakref.WeakSet()


def run(encoder: SentenceEncoder, tokens: TokenBatch, word_embeddings: Tensor | None, mode: Mode) -> EncoderOutput:
    """The padded pass over (B, L), compiled; columns that only fill the bucket are cut off again.

    Raises:
        InputError: where torch finds no compiler.
    """
    check_compiler(tokens.input_ids.device.type)
    _install_hooks(encoder.backbone, tokens.input_ids)
    width = tokens.input_ids.shape[1]
    more = _bucket(encoder, width) - width
    ids = F.pad(tokens.input_ids, (0, more), value=encoder.tokenize.pad_token_id)
    words = None if word_embeddings is None else F.pad(word_embeddings, (0, 0, 0, more))
    mask = F.pad(tokens.attention_mask, (0, more))
    if not encoder.keeps_tokens:
        return vectors_only(_compiled(_pooled, mode)(encoder, ids, mask, words))
    pooled, states, embedded = _compiled(_pass, mode)(encoder, ids, mask, words)
    return EncoderOutput(pooled, states[:, :width], embedded[:, :width])


def pool(encoder: SentenceEncoder, tokens: TokenBatch) -> Tensor:
    """The pooled vectors of `SentenceEncoder.pool`, (B, H), by one piece of code for all shapes of batches.

    Raises:
        InputError: where torch finds no compiler.
    """
    check_compiler(tokens.input_ids.device.type)
    _install_hooks(encoder.backbone, tokens.input_ids)
    vectors: Tensor = _compiled(_encoded, "default", dynamic=True)(encoder, tokens.input_ids, tokens.attention_mask)
    return vectors


def check_encoder(encoder: SentenceEncoder) -> None:
    """Refuse what cannot be compiled.

    Raises:
        InputError: for packing, whose shapes change always.
    """
    if encoder.packed:
        raise InputError("compiling does not go with packed of the encoder; leave one of them out")


@functools.cache
def check_compiler(device: str) -> None:
    """Refuse to compile where torch cannot.

    Args:
        device: type of the device that the code is for.

    Raises:
        InputError: says what is missing.
    """
    compiler = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")
    if device == "cpu" and shutil.which(compiler) is None:
        raise InputError(f"compile needs a C++ compiler, and there is no {compiler}: install it, name another in the "
                         "environment variable CXX, or leave compile out")  # fmt: skip
    if device == "cuda" and importlib.util.find_spec("triton") is None:
        raise InputError("compile needs the package triton on a GPU: install it, or leave compile out")


@functools.cache
def _compiled(function: Callable[..., Any], mode: Mode, dynamic: bool = False) -> Callable[..., Any]:
    return torch.compile(function, dynamic=dynamic, mode=mode)


def _pooled(encoder: SentenceEncoder, ids: Tensor, mask: Tensor, word_embeddings: Tensor | None) -> Tensor:
    return forward.pooled_alone(encoder, TokenBatch(ids, mask), word_embeddings)


def _pass(
    encoder: SentenceEncoder, ids: Tensor, mask: Tensor, word_embeddings: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    pooled, output = forward.run(encoder, TokenBatch(ids, mask), word_embeddings)
    return pooled, output.last_hidden_state, output.hidden_states[0]


def _encoded(encoder: SentenceEncoder, ids: Tensor, mask: Tensor) -> Tensor:
    """`_pooled` under another name: torch limits how often it compiles one function."""
    return _pooled(encoder, ids, mask, None)


def _install_hooks(backbone: PreTrainedModel, ids: Tensor) -> None:
    """An eager pass over one token. In the first one transformers installs hooks, which would break the graph."""
    if backbone not in _HOOKED:
        was_training = backbone.training
        backbone.eval()
        with torch.no_grad():
            backbone(input_ids=ids[:1, :1], output_hidden_states=True)
        backbone.train(was_training)
        _HOOKED.add(backbone)


def _bucket(encoder: SentenceEncoder, width: int) -> int:
    """The next of `_BUCKETS` lengths, evenly spaced up to the longest sequence of a training batch."""
    frame = len(encoder.tokenize.prefix) + len(encoder.tokenize.suffix)
    longest = encoder.max_length + (frame if encoder.prompt is not None else 0)
    if encoder.tokenize.limit is not None:
        longest = min(longest, encoder.tokenize.limit)
    step = math.ceil(longest / _BUCKETS)
    return max(width, min(math.ceil(width / step) * step, longest))
