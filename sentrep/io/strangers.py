"""Model folders of strangers: what of their configurations is read, and what is refused, here and nowhere else.

transformers takes more from a ``config.json`` than sizes: the name of a kernel to download and run
(``attn_implementation``), of classes in files of the model's own (``auto_map``), of packages to import
(``quantization_config``, PEFT adapters), of any class of transformers in the tokenizer's place (``tokenizer_class``).
So only the settings that the model's family declares are read, and numbers. Every configuration and every tokenizer
goes through this module. Only ``trust_remote_code: true``, which a user gives and a file cannot, lets them through as
they are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import CONFIG_MAPPING, AutoConfig, AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerBase
from transformers.models.auto.tokenization_auto import get_tokenizer_config, tokenizer_class_from_name
from transformers.utils import DummyObject, find_adapter_config_file, is_kernels_available

from sentrep.errors import InputError, did_you_mean

_OF_ALL = {field.name for field in dataclasses.fields(PreTrainedConfig)}
"""Settings that transformers knows of every family; few of them make a model."""
_READ_OF_ALL = {
    "model_type", "tokenizer_class", "is_encoder_decoder", "chunk_size_feed_forward", "id2label", "label2id",
    "rope_scaling", "rope_theta",
}  # fmt: skip
_NUMBERS = (int, float, bool, type(None))
_REFUSED = ("quantization_config", "compression_config")
_ATTENTION = ("attn_implementation", "_attn_implementation")
_NATIVE_ATTENTION = ("eager", "sdpa")

_OTHER_PACKAGES = ("timm_backbone", "timm_wrapper", "layoutlmv2")
"""Families that build what the configuration names: timm, detectron2."""
_OWN_KERNELS = ("mra", "rwkv", "yoso")
"""Families that fetch kernels when they are built, where the package `kernels` is installed."""

_TOKENIZER_REFUSED = ("gguf_file", "tokenizer_object", "from_slow", "init_inputs", "__slow_tokenizer")


def read_config(name: str, hub: Mapping[str, Any]) -> PreTrainedConfig:
    """The configuration of a model folder or hub id, without what chooses code.

    Args:
        name: folder or hub id.
        hub: arguments for ``from_pretrained``, among them the user's ``trust_remote_code``.

    Raises:
        InputError: for what cannot be left out without another model coming of it: quantised weights, an adapter,
            families that run foreign packages.
        OSError: there is no such configuration.
        ValueError: it is none that transformers knows.
    """
    if hub.get("trust_remote_code"):
        return AutoConfig.from_pretrained(name, **hub)
    place = _place(hub)
    if find_adapter_config_file(name, **place) is not None:
        raise InputError(f"{name}: it holds a PEFT adapter, which would not be applied; merge it into its model first")
    stored = _stored_config(name, place)
    kind = stored.get("model_type")
    if kind is None:
        raise ValueError("its config.json names no model_type")
    if kind not in CONFIG_MAPPING:
        known = "needs code of its own" if "auto_map" in stored else "is of a family that this transformers lacks"
        raise InputError(
            f"{name}: the model (model_type {str(kind)[:80]!r}) {known}; "
            "if you trust its authors, allow code with trust_remote_code: true"
        )
    config = build_config(stored, name)
    config.name_or_path = name
    return config


def build_config(description: Mapping[str, Any], source: str, own: bool = False) -> PreTrainedConfig:
    """A configuration from plain data, without what chooses code.

    Args:
        description: with ``model_type``.
        source: of the description, for messages.
        own: the user wrote it. Then ``attn_implementation`` eager or sdpa stays, and what else would choose code is
            refused instead of left out.

    Raises:
        InputError: for what cannot be left out.
        ValueError: transformers cannot make a configuration of it.
    """
    kind: Any = description.get("model_type")
    if kind == "mistral" and "layer_types" in description:
        kind = "ministral"  # as `AutoConfig` reads it
    family = CONFIG_MAPPING[kind] if kind in CONFIG_MAPPING else PreTrainedConfig  # noqa: SIM401 (its get finds none)
    return family.from_dict({**_kept(description, family, source, own), "model_type": kind})


def read_tokenizer(
    name: str, hub: Mapping[str, Any], config: PreTrainedConfig | None = None, **options: Any
) -> PreTrainedTokenizerBase:
    """The tokenizer of a folder or hub id; its class is a tokenizer of transformers, or, with trust, its own.

    Args:
        name: folder or hub id.
        hub: arguments for ``from_pretrained``, among them the user's ``trust_remote_code``.
        config: of the model in the same place; None reads it there, where there is one.
        options: for the tokenizer.

    Raises:
        InputError: its files name another class, or files elsewhere.
        OSError: there is no such tokenizer.
        ValueError: it is none that transformers knows.
    """
    if hub.get("trust_remote_code"):
        return AutoTokenizer.from_pretrained(name, **hub, **options)
    stored = get_tokenizer_config(name, **_place(hub))
    if config is None:
        config = _tokenizers_config(name, hub)
    for content in (stored, {} if config is None else {"tokenizer_class": getattr(config, "tokenizer_class", None)}):
        _check_tokenizer(content, name)
    return AutoTokenizer.from_pretrained(name, **({} if config is None else {"config": config}), **hub, **options)


def _place(hub: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in hub.items() if key != "trust_remote_code"}


def _stored_config(name: str, place: Mapping[str, Any]) -> dict[str, Any]:
    stored = PreTrainedConfig.get_config_dict(name, **place)[0]
    if not stored:
        raise OSError(f"{name} has no config.json, or an empty one")
    return stored


def _tokenizers_config(name: str, hub: Mapping[str, Any]) -> PreTrainedConfig | None:
    """What stands beside a tokenizer alone; a family that is not known matters for the model only."""
    try:
        stored = _stored_config(name, _place(hub))
    except OSError:
        return None
    return build_config(stored, name)


def _kept(description: Mapping[str, Any], family: type[PreTrainedConfig], source: str, own: bool) -> dict[str, Any]:
    """The settings that a family declares, and numbers, which older files have under other names."""
    _check_family(description, source)
    declared = {field.name for field in dataclasses.fields(family)} - _OF_ALL | _READ_OF_ALL | {*family.attribute_map}
    kept = {}
    for key, value in description.items():
        if key in declared:
            kept[key] = _section(value, family.sub_configs.get(key), source, own)
        elif own and key in _ATTENTION and value in (None, *_NATIVE_ATTENTION):
            kept[key] = value
        elif own and key not in _OF_ALL and (value is True or type(value) not in _NUMBERS):
            raise InputError(
                f"{source}: {key} {str(value)[:80]!r} is no setting of the family {family.model_type}"
                f"{did_you_mean(key, declared)}; leave it out, or allow it with trust_remote_code: true"
            )
        elif type(value) in _NUMBERS and not key.startswith("_") and not hasattr(PreTrainedConfig, key):
            kept[key] = value
    return kept


def _section(value: Any, family: type | None, source: str, own: bool) -> Any:
    """The value of a setting; of a model within the model, which may be of any family, what that family declares."""
    kind: Any = value.get("model_type") if isinstance(value, Mapping) else None
    if kind in CONFIG_MAPPING:
        family = CONFIG_MAPPING[kind]
    if family is None or not isinstance(value, Mapping):
        return value
    return _kept(value, family if issubclass(family, PreTrainedConfig) else PreTrainedConfig, source, own)


def _check_family(description: Mapping[str, Any], source: str) -> None:
    kind = description.get("model_type")
    quantised = next((key for key in _REFUSED if description.get(key)), None)
    if quantised or kind in _OTHER_PACKAGES or (kind in _OWN_KERNELS and is_kernels_available()):
        what = f"{quantised} asks for quantised weights, which run" if quantised else f"the family {kind!r} runs"
        raise InputError(
            f"{source}: {what} code of other packages than transformers and torch; use another model, or the model as "
            "it was before, or allow it with trust_remote_code: true"
        )


def _check_tokenizer(stored: Mapping[str, Any], source: str) -> None:
    name = stored.get("tokenizer_class")
    if name is not None and not isinstance(name, str):
        raise InputError(f"{source}: its tokenizer_class {str(name)[:80]!r} is no name; the model folder is damaged")
    for spelling in (name, name.removesuffix("Fast"), f"{name}Fast") if name else ():
        found = tokenizer_class_from_name(spelling)
        if found is None or isinstance(found, DummyObject):  # stands for a package that is missing, and says so itself
            continue
        if not isinstance(found, type) or not issubclass(found, PreTrainedTokenizerBase):
            raise InputError(f"{source}: its tokenizer_class {str(name)[:80]!r} is no tokenizer; do not use this model")
    if wrong := [key for key in _TOKENIZER_REFUSED if stored.get(key)]:
        raise InputError(f"{source}: its tokenizer_config.json sets {wrong[0]}, which is for programs; do not use it")
    files = stored.get("fast_tokenizer_files") or []
    paths = [value for key in ("vocab", "merges") if isinstance(value := stored.get(key), str)]
    if paths or any(Path(str(file)).name != str(file) for file in files):
        raise InputError(f"{source}: its tokenizer_config.json names files elsewhere; do not use this model")
