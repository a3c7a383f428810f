"""Read the small files of a model, and refuse a broken model before its use."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedTokenizerBase

from sentrep.encoder.adapters import is_adapters, without_adapter
from sentrep.errors import InputError, did_you_mean, first_line
from sentrep.io.configurations import quiet_transformers
from sentrep.io.paths import check_inside, not_there

ENCODER_ALONE = ("mt5", "t5", "umt5")
"""Encoder-decoder families whose encoder transformers loads without the decoder."""
_NUMBER = re.compile(r"\.\d+\.")
"""The number of a layer in the name of a weight."""
_OLDER = {"gamma": "weight", "beta": "bias"}
"""Names of the weights of norms in files of old versions of transformers."""


def listed_modules(folder: Path) -> list[tuple[str, str]]:
    """Class and place of each module of a sentence-transformers folder.

    Raises:
        InputError: for a list of modules that is damaged, or leads out of the folder.
    """
    file = folder / "modules.json"
    with one_sentence(f"{file}: this list of modules is damaged"):
        found = [(str(module["type"]), str(module["path"])) for module in json.loads(file.read_text(encoding="utf-8"))]
    if not found:
        raise InputError(f"{file}: no module in it; the model folder is damaged")
    for _, inner in found:
        check_inside(inner, file)
    return found


@contextmanager
def one_sentence(says: str, reason: bool = True) -> Iterator[None]:
    """Turn exceptions of other packages, which have a dozen types for unusable files and values, into one sentence.

    Args:
        says: the sentence.
        reason: whether it ends with the first line of their message.

    Raises:
        InputError: for any other exception.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{says}: {first_line(error)}" if reason else says) from error


def check_encoder(config: PretrainedConfig, name: str) -> None:
    """Refuse an encoder-decoder model, whose output is its decoder's.

    Raises:
        InputError: names the family.
    """
    if getattr(config, "is_encoder_decoder", False) and config.model_type not in ENCODER_ALONE:
        raise InputError(f"{name}: {config.model_type} is an encoder-decoder model; choose an encoder such as bert")


def check_settings(description: Mapping[str, Any], config: PretrainedConfig) -> None:
    """Refuse a setting of a typed configuration that the family does not have.

    Raises:
        InputError: names the setting, and the one that was probably meant.
    """
    family: Any = type(config)
    known = {*vars(family()), *config.attribute_map, "model_type"}
    other = min((key for key in description.keys() - known if not _is_read(family, key)), default=None)
    if other is not None:
        raise InputError(
            f"backbone: {other} {str(description[other])[:80]!r} is no setting of the family {config.model_type}"
            f"{did_you_mean(other, known)}; leave it out, or allow it with trust_remote_code: true"
        )


def _is_read(family: Any, key: str) -> bool:
    """Whether a family that does not have a setting is changed by it."""
    one, two = ({**family.from_dict({key: value}).to_dict(), key: 0} for value in (1, 2))
    return one != two


def check_folder(folder: Path) -> Path:
    """Where in a model folder the transformer lies; refuse paths that lead out of the folder.

    Raises:
        InputError: names the path, or a transformer that is not there.
    """
    inner = listed_modules(folder)[0][1] if (folder / "modules.json").is_file() else ""
    place = folder / inner
    if not place.is_dir():
        raise not_there(place, "folder, which modules.json names")
    for index in place.glob("*.index.json"):  # by which transformers finds weights in several files
        with one_sentence(f"{index}: this index of weights is damaged"):
            for file in json.loads(index.read_text(encoding="utf-8")).get("weight_map", {}).values():
                check_inside(str(file), index)
    return place


def check_weights_of(backbone: Any, folder: Path, name: str) -> bool:
    """Refuse weights that leave a part of a transformer random, have more layers than it, or are not finite.

    Args:
        backbone: as it was read.
        folder: its files.
        name: of the model, for the message.

    Returns:
        Whether the weights have a pooler.

    Raises:
        InputError: names one of the weights.
    """
    stored = _stored(folder)
    keys = set(backbone.state_dict())
    found = {key for key in keys if any(f".{other}".endswith(f".{key}") for other in stored)}
    if absent := sorted(key for key in keys - found if not key.startswith("pooler.")):
        with quiet_transformers(), torch.random.fork_rng(devices=[]):
            _, info = type(backbone).from_pretrained(folder, local_files_only=True, output_loading_info=True)
        absent = sorted(key for key in info["missing_keys"] if not key.startswith("pooler."))
    if absent:
        many = f"{len(absent)} of its weights are missing" if len(absent) > 1 else "1 of its weights is missing"
        raise InputError(
            f"{name}: {many}, e.g. {absent[0]}; complete the folder (or take all weights at random: pretrained false)"
        )
    first = {_NUMBER.sub(".0.", key) for key in keys}
    for key in sorted(stored):  # such as the head of a masked-LM model, or layers beyond the model's
        plain = key.removeprefix(f"{backbone.base_model_prefix}.")
        if plain not in keys and _NUMBER.sub(".0.", plain) in first:
            raise InputError(
                f"{name}: the weights have {key}, and the configuration has no such layer; "
                "correct its number of layers (num_hidden_layers)"
            )
    check_finite(backbone.state_dict(), name)
    return any(key.startswith("pooler.") for key in found)


def _stored(folder: Path) -> set[str]:
    """Names of the weights in a folder."""
    names: set[str] = set()
    files = [*folder.glob("*.safetensors")]
    for file in files:
        with safe_open(file, "pt") as content:
            names |= set(content.keys())
    for file in folder.glob("pytorch_model*.bin") if not files else ():
        names |= set(torch.load(file, "cpu", weights_only=True, mmap=True))
    parts = (name.rpartition(".") for name in names)
    return {f"{before}{dot}{_OLDER.get(last, last)}" for before, dot, last in parts}


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


def check_rebuilds(backbone: Any, is_adapted: bool) -> None:
    """Refuse a backbone that has other weights than its configuration says: no folder or checkpoint would load.

    Args:
        backbone: of an encoder.
        is_adapted: whether the encoder has low-rank adapters in it, which are merged.

    Raises:
        InputError: names a weight that is missing, has no place, or has another shape.
    """
    with torch.device("meta"), quiet_transformers():
        places = type(backbone)(backbone.config).state_dict()
    weights = backbone.state_dict()
    if is_adapted:
        weights = {without_adapter(key): tensor for key, tensor in weights.items() if not is_adapters(key)}
    here, there = ({(key, tensor.shape) for key, tensor in state.items()} for state in (weights, places))
    if differing := sorted(key for key, _ in here ^ there if not key.startswith("pooler.")):
        raise InputError(
            f"the encoder's backbone: {differing[0]} does not fit backbone.config, so no checkpoint or folder could be "
            "loaded; correct the configuration (num_hidden_layers and other sizes), remove parametrizations, or merge "
            "adapters of peft (merge_and_unload)"
        )


def check_tokenizer(tokenizer: PreTrainedTokenizerBase, embeddings: int, name: str, backbone: nn.Module) -> None:
    """Refuse a tokenizer that gives ids beyond the table of word embeddings, or tokens of other types than 0.

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
    reads_types = "token_type_ids" in inspect.signature(backbone.forward).parameters
    if reads_types and any(tokenizer("a").get("token_type_ids", ())):
        raise InputError(
            f"{name}: the tokenizer gives some tokens of a text another type than 0 (token_type_ids), and sentrep does "
            "not pass types to the model; use another model"
        )
