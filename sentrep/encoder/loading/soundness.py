"""What is wrong with a model, seen before it is used: absurd sizes, weights that do not fit or are not finite."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedTokenizerBase

from sentrep.data.text.cells import parse_json
from sentrep.encoder.loading.model_files import one_sentence
from sentrep.errors import InputError
from sentrep.io.paths import check_plain_files

_LARGEST = {
    "num_hidden_layers": 1_000,
    "num_attention_heads": 10_000,
    "hidden_size": 100_000,
    "intermediate_size": 1_000_000,
    "vocab_size": 10_000_000,
    "max_position_embeddings": 10_000_000,
}
"""Well beyond every model that there is; what fits no memory is refused by torch."""


def check_files(folder: Path) -> None:
    """Refuse a model folder with a pipe, a broken link, or a JSON file in it that says something twice.

    Raises:
        InputError: names the file.
    """
    check_plain_files(folder)
    for file in folder.glob("*.json"):
        try:
            parse_json(file.read_text(encoding="utf-8"))
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
            pass  # whoever needs the file says so
        except ValueError as error:
            raise InputError(f"{file}: {error}; remove one of the two") from None


def check_sizes(config: PretrainedConfig, name: str) -> None:
    """Refuse a configuration that would take hours or all memory to build, or is no encoder of text.

    Raises:
        InputError: names the key.
    """
    if getattr(config, "is_encoder_decoder", False):
        raise InputError(f"{name}: {config.model_type} is an encoder-decoder model; choose an encoder such as bert")
    for key, largest in _LARGEST.items():
        size = getattr(config, key, None)
        least = -1 if key == "max_position_embeddings" else 1  # there a family without such a table says so
        if size is not None and (type(size) is not int or size == 0 or not least <= size <= largest):
            called = config.attribute_map.get(key, key)
            raise InputError(f"{name}: {called} is {str(size)[:40]}; expected a whole number from 1 to {largest:,}")


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
    lists = {path: len(module) for path, module in model.named_modules() if isinstance(module, nn.ModuleList)}
    for key in sorted(unexpected):
        for found in re.finditer(r"\.(\d+)\.", key):
            before = key[: found.start()].removeprefix(f"{getattr(model, 'base_model_prefix', '')}.")
            if int(found[1]) >= lists.get(before, int(found[1]) + 1):
                raise InputError(
                    f"{name}: the weights have {key}, but the configuration has {lists[before]} such layers; "
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


def check_tokenizer(tokenizer: PreTrainedTokenizerBase, embeddings: int, name: str) -> None:
    """Refuse a tokenizer that gives ids beyond the table of word embeddings, or fails on words that it does not know.

    Raises:
        InputError: says what is wrong with it.
    """
    added = tokenizer.get_added_vocab()
    largest = max((number for token, number in tokenizer.get_vocab().items() if token not in added), default=0)
    if max(largest, tokenizer.pad_token_id or 0) >= embeddings:
        raise InputError(f"{name}: the tokenizer knows more tokens than the model; use the model's own")
    with one_sentence(f"{name}: use another tokenizer, as this one fails on unknown words"):
        tokenizer("\u2603 zq\u4e00\U0010fffd")
