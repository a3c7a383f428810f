"""Training passes through `torch.compile`: nothing is compiled after warm-up."""

from __future__ import annotations

import functools
import importlib.util
import math
import os
import shutil
import sys
import weakref
from collections.abc import Callable
from typing import Any, Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel

from sentrep.encoder.compute.template import Prompts
from sentrep.errors import InputError
from sentrep.types import EncoderOutput, Layers, Need, TokenBatch

Mode = Literal["default", "reduce-overhead"]
"""A mode of `torch.compile`; ``reduce-overhead`` adds CUDA graphs."""

_BUCKETS = 4
"""Lengths that are compiled: torch compiles a function for 8 shapes, and groups of a batch come in two sizes."""

_HOOKED: weakref.WeakSet[PreTrainedModel] = weakref.WeakSet()


class Eager(Protocol):
    """The pass to compile: `sentrep.encoder.compute.plan.Pass` of the padded batch."""

    backbone: PreTrainedModel
    prompts: Prompts

    def run_compiled(self, tokens: TokenBatch, words: Tensor | None, need: Need) -> EncoderOutput:
        """Vectors and, where they are read, the tokens' states."""


def train(eager: Eager, mode: Mode, tokens: TokenBatch, words: Tensor | None, need: Need) -> EncoderOutput:
    """The pass over (B, L), compiled; columns that only fill the bucket are cut off again.

    Args:
        eager: the pass.
        mode: of `torch.compile`.
        tokens: (B, L).
        words: (B, L, W), or None.
        need: the outputs to compute.

    Raises:
        InputError: where torch finds no compiler.
    """
    _prepare(eager.backbone, tokens.input_ids)
    width = tokens.input_ids.shape[1]
    more = _bucket(eager.prompts.longest, width) - width
    ids = F.pad(tokens.input_ids, (0, more), value=eager.prompts.own.pad_token_id)
    words = None if words is None else F.pad(words, (0, 0, 0, more))
    mask = F.pad(tokens.attention_mask, (0, more))
    if need.vectors_only:
        return EncoderOutput(_compiled(_vectors, mode)(eager, ids, mask, words, tokens.prompt))
    pooled, *states = _compiled(_tokens, mode)(eager, ids, mask, words, tokens.prompt, need)
    last, embedded, *layers = [part[:, :width] for part in states]
    return EncoderOutput(pooled, last, embedded, Layers(zip(need.layers, layers, strict=True)))


@functools.cache
def check_compiler(device: str) -> None:
    """Refuse to compile where torch cannot.

    Args:
        device: type of the device that the code is for.

    Raises:
        InputError: names the missing compiler or package.
    """
    compiler = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")
    if device == "cpu" and shutil.which(compiler) is None:
        raise InputError(f"compile needs a C++ compiler, and there is no {compiler}: install it, name another in the "
                         "environment variable CXX, or leave compile out")  # fmt: skip
    if device == "cuda" and importlib.util.find_spec("triton") is None:
        raise InputError("compile needs the package triton on a GPU: install it, or leave compile out")


@functools.cache
def _compiled(function: Callable[..., Any], mode: Mode) -> Callable[..., Any]:
    return torch.compile(function, dynamic=False, mode=mode)


def _vectors(eager: Eager, ids: Tensor, mask: Tensor, words: Tensor | None, prompt: Tensor | None) -> Tensor:
    return eager.run_compiled(TokenBatch(ids, mask, prompt=prompt), words, Need(tokens=False)).embedding


def _tokens(
    eager: Eager, ids: Tensor, mask: Tensor, words: Tensor | None, prompt: Tensor | None, need: Need
) -> tuple[Tensor, ...]:
    output = eager.run_compiled(TokenBatch(ids, mask, prompt=prompt), words, need)
    return output.embedding, output.token_states, output.input_embeddings, *output.layers.values()


def _prepare(backbone: PreTrainedModel, ids: Tensor) -> None:
    """An eager pass over one token. In the first one transformers installs hooks, which would break the graph."""
    check_compiler(ids.device.type)
    if backbone not in _HOOKED:
        was_training = backbone.training
        backbone.eval()
        with torch.no_grad():
            backbone(input_ids=ids[:1, :1], output_hidden_states=True)
        backbone.train(was_training)
        _HOOKED.add(backbone)


def _bucket(longest: int, width: int) -> int:
    """The next of `_BUCKETS` lengths, evenly spaced up to the longest sequence of a training batch."""
    step = math.ceil(longest / _BUCKETS)
    return max(width, min(math.ceil(width / step) * step, longest))
