"""Refuse a broken model before its use: no encoder, or weights that do not fit or are not finite."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedTokenizerBase

from sentrep.encoder.loading.model_files import one_sentence
from sentrep.errors import InputError

_MOST_LAYERS = 1_000
"""Well beyond every model that there is. More would take hours to build; what fits no memory is refused by torch."""
ENCODER_ALONE = frozenset({"mt5", "t5", "umt5"})
"""Encoder-decoder families whose encoder transformers loads without the decoder."""
_NUMBER = re.compile(r"\.\d+\.")
"""The number of a layer in the name of a weight."""


def check_encoder(config: PretrainedConfig, name: str) -> None:
    """Refuse a configuration that would take hours to build, or is no encoder of text.

    Raises:
        InputError: says which.
    """
    if getattr(config, "is_encoder_decoder", False) and config.model_type not in ENCODER_ALONE:
        raise InputError(f"{name}: {config.model_type} is an encoder-decoder model; choose an encoder such as bert")
    layers = getattr(config, "num_hidden_layers", 1)
    if not isinstance(layers, int) or not 1 <= layers <= _MOST_LAYERS:
        called = config.attribute_map.get("num_hidden_layers", "num_hidden_layers")
        raise InputError(f"{name}: {called} is {str(layers)[:40]}; expected a whole number from 1 to {_MOST_LAYERS:,}")


def check_complete(model: nn.Module, missing: Iterable[str], unexpected: Iterable[str], name: str) -> None:
    """Refuse weights that leave a part of the model random, or have more layers than it.

    Raises:
        InputError: names one of the weights.
    """
    if absent := sorted(missing):
        many = f"{len(absent)} of its weights are missing" if len(absent) > 1 else "1 of its weights is missing"
        raise InputError(
            f"{name}: {many}, e.g. {absent[0]}; complete the folder (or take all weights at random: pretrained false)"
        )
    first = {_NUMBER.sub(".0.", key) for key in model.state_dict()}
    for key in sorted(unexpected):  # such as the head of a masked-LM model, or layers beyond the model's
        if _NUMBER.sub(".0.", key.removeprefix(f"{getattr(model, 'base_model_prefix', '')}.")) in first:
            raise InputError(
                f"{name}: the weights have {key}, and the configuration has no such layer; "
                "correct its number of layers (num_hidden_layers)"
            )


def check_weights(
    found: Mapping[str, Any], places: Mapping[str, Tensor], name: str, part: str = "", optional: str = "\0"
) -> None:
    """Refuse weights of other names or shapes than a model's, or with a number that is not finite.

    Args:
        found: the weights.
        places: those that the model has, on whatever device.
        name: where they come from, for the message.
        part: of the model, likewise.
        optional: beginning of the names that may be on one side only.

    Raises:
        InputError: names one of the weights.
    """
    for key in sorted(found.keys() | places.keys()):
        here, there = (_shape(weights.get(key)) for weights in (found, places))
        if here != there and not (key.startswith(optional) and None in (here, there)):
            what = f"has the shape {here} where {there} was expected"
            if here is None or there is None:
                what = "is missing" if here is None else "has no place in the model"
            raise InputError(f"{name}: the weights do not fit the architecture: {part}{key} {what}")
    check_finite({f"{part}{key}": tensor for key, tensor in found.items()}, name)


def _shape(weight: Any) -> tuple[int, ...] | None:
    return tuple(weight.shape) if isinstance(weight, Tensor) else None


def check_finite(weights: Mapping[str, Tensor], name: str) -> None:
    """Refuse weights that are NaN or infinite: every vector would be.

    Raises:
        InputError: names the tensor.
    """
    for key, tensor in weights.items():
        if not tensor.is_floating_point() or tensor.sum(dtype=torch.float32).isfinite():
            continue
        if wrong := int((~tensor.isfinite()).sum()):  # a sum may overflow where no number does
            raise InputError(
                f"{name}: {wrong} of the {tensor.numel()} numbers of {key} are NaN or infinite; use another model"
            )


def check_tokenizer(tokenizer: PreTrainedTokenizerBase, embeddings: int, name: str, backbone: nn.Module) -> None:
    """Refuse a tokenizer that gives ids beyond the table of word embeddings, fails on words that it does not know, or
    gives the backbone more to read than ids.

    Raises:
        InputError: names the fault.
    """
    largest, token = max(((number, token) for token, number in tokenizer.get_vocab().items()), default=(0, ""))
    if largest >= embeddings:
        raise InputError(
            f"{name}: the tokenizer gives {token[:40]!r} the id {largest}, and the model has {embeddings:,} word "
            "embeddings; use the model's own tokenizer, or add embeddings for added tokens (resize_token_embeddings of "
            "transformers) and save the model"
        )
    with one_sentence(f"{name}: use another tokenizer, as this one fails on unknown words"):
        read = tokenizer("\u2603 zq\u4e00\U0010fffd")
    types = read.get("token_type_ids") if "token_type_ids" in inspect.signature(backbone.forward).parameters else None
    if types is not None and any(types):
        raise InputError(
            f"{name}: the tokenizer gives some tokens of a text another type than 0 (token_type_ids), and sentrep does "
            "not pass types to the model; use another model"
        )
