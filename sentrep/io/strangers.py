"""Untrusted model folders: the only module that decides which settings of their configurations are read or refused.

transformers takes more from a ``config.json`` than sizes: the name of a kernel to download and run
(``attn_implementation``), of classes in files of the model's own (``auto_map``), of packages to import
(``quantization_config``, PEFT adapters), of any class of transformers in the tokenizer's place (``tokenizer_class``).
So only the settings that the model's family declares are read, and numbers. Every configuration and every tokenizer
goes through this module. Only ``trust_remote_code: true``, which a user gives and a file cannot, lets them through as
they are.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from transformers import (
    CONFIG_MAPPING,
    AutoConfig,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedConfig,
    PreTrainedTokenizerBase,
)
from transformers.models.auto.tokenization_auto import get_tokenizer_config, tokenizer_class_from_name
from transformers.utils import DummyObject, find_adapter_config_file
from transformers.utils import logging as transformers_logging

from sentrep.errors import InputError, did_you_mean
from sentrep.io.paths import check_inside

_OF_ALL = {field.name for field in dataclasses.fields(PreTrainedConfig)}
"""Settings that transformers knows of every family; few of them make a model."""
_READ_OF_ALL = {
    "model_type", "tokenizer_class", "is_encoder_decoder", "chunk_size_feed_forward", "id2label", "label2id",
    "rope_scaling", "rope_theta",
}  # fmt: skip
_ORIGIN = {"_name_or_path", "architectures", "dtype", "transformers_version", "_from_model_config"}
"""Settings about the file of a configuration; they do not change the model's output."""
_NUMBERS = (int, float, bool, type(None))
_QUANTISED = ("quantization_config", "compression_config")
_ATTENTION = ("attn_implementation", "_attn_implementation")

_OTHER_PACKAGES = ("timm_backbone", "timm_wrapper", "layoutlmv2", "mra", "rwkv", "yoso")
"""Families that build other models by name (timm, detectron2), or fetch kernels when they are built."""
_LEADING_ELSEWHERE = (
    "gguf_file", "tokenizer_object", "from_slow", "init_inputs", "__slow_tokenizer", "vocab", "merges",
    "fast_tokenizer_files",
)  # fmt: skip
"""Keys that build a tokenizer from something else than the files of its folder."""


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """No progress bars and reports of transformers: a model of ours is one line of ours, or none."""
    verbosity, bars = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()


def read_config(name: str, hub: Mapping[str, Any]) -> PreTrainedConfig:
    """The configuration of a model folder or hub id, without what chooses code.

    Args:
        name: folder or hub id.
        hub: arguments for ``from_pretrained``, among them the user's ``trust_remote_code``.

    Raises:
        InputError: for what cannot be left out without another model coming of it: an adapter, see also `build_config`;
            and for an index of weights that leads out of the folder.
        OSError: there is no such configuration.
        ValueError: transformers cannot make a configuration of it.
    """
    for index in Path(name).glob("*.index.json"):  # by which transformers finds weights in several files
        for file in json.loads(index.read_text(encoding="utf-8")).get("weight_map", {}).values():
            check_inside(str(file), index)
    if hub.get("trust_remote_code"):
        return AutoConfig.from_pretrained(name, **hub)
    if find_adapter_config_file(name, **_place(hub)) is not None:
        raise InputError(f"{name}: it holds a PEFT adapter, which would not be applied; merge it into its model first")
    config = build_config(_stored_config(name, hub), name)
    config.name_or_path = name
    return config


def build_config(description: Mapping[str, Any], source: str, own: bool = False) -> PreTrainedConfig:
    """A configuration from plain data, without what chooses code.

    Args:
        description: with ``model_type``.
        source: of the description, for messages.
        own: the user wrote it: what would be left out of a file's is refused.

    Raises:
        InputError: for what cannot be left out: quantised weights, families that are unknown or run foreign packages.
        ValueError: transformers cannot make a configuration of it.
    """
    kind: Any = description.get("model_type")
    if kind == "mistral" and "layer_types" in description:
        kind = "ministral"  # as `AutoConfig` reads it
    if kind not in CONFIG_MAPPING:
        raise InputError(
            f"{source}: its model_type {str(kind)[:80]!r} is no family of this transformers; if the model brings code "
            "of its own and you trust its authors, allow it with trust_remote_code: true"
        )
    family = CONFIG_MAPPING[kind]
    kept = _kept(description, family, source)
    known = {key for key in kept if key in _declared(family) or key in _ATTENTION or (own and _reads(family, key))}
    if own and (other := min(description.keys() - known - _OF_ALL, default=None)):
        raise InputError(
            f"{source}: {other} {str(description[other])[:80]!r} is no setting of the family {kind}"
            f"{did_you_mean(other, _declared(family))}; leave it out, or allow it with trust_remote_code: true"
        )
    return family.from_dict({**kept, "model_type": kind})


def read_tokenizer(
    name: str, hub: Mapping[str, Any], config: PreTrainedConfig | None = None, **options: Any
) -> PreTrainedTokenizerBase:
    """The tokenizer of a folder or hub id; its class is a tokenizer of transformers, or, with trust, its own.

    Args:
        name: folder or hub id.
        hub: arguments for ``from_pretrained``, among them the user's ``trust_remote_code``.
        config: of the model in the same place; None reads it there, if it exists.
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
        config = PreTrainedConfig()
        with suppress(OSError, InputError):  # a tokenizer alone, or beside a model that is not wanted
            config = build_config(_stored_config(name, hub), name)
    _check_class(stored.get("tokenizer_class"), name)
    _check_class(getattr(config, "tokenizer_class", None), name)
    if wrong := [key for key in _LEADING_ELSEWHERE if stored.get(key)]:
        raise InputError(f"{name}: its tokenizer_config.json sets {wrong[0]}, which leads elsewhere; do not use it")
    return AutoTokenizer.from_pretrained(name, config=config, **hub, **options)


def settings_text(config: PreTrainedConfig | GenerationConfig) -> str:
    """The settings that a model computes by, as text, without where they come from."""
    settings = json.loads(config.to_json_string(use_diff=False))
    return json.dumps({key: settings[key] for key in sorted(settings.keys() - _ORIGIN)})


def _place(hub: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in hub.items() if key != "trust_remote_code"}


def _stored_config(name: str, hub: Mapping[str, Any]) -> dict[str, Any]:
    stored = PreTrainedConfig.get_config_dict(name, **_place(hub))[0]
    if not stored:
        raise OSError(f"{name} has no config.json, or an empty one")
    return stored


def _declared(family: type[PreTrainedConfig]) -> set[str]:
    """The settings that a family declares, and the settings of all families that shape a model."""
    return {field.name for field in dataclasses.fields(family)} - _OF_ALL | _READ_OF_ALL | {*family.attribute_map}


def _reads(family: Any, number: str) -> bool:
    """Whether a family reads a number that it does not declare: it has it anyway, or is changed by it."""
    configs = [family.from_dict({number: value}).to_dict() for value in (1, 2)]
    return hasattr(family(), number) or {**configs[0], number: 0} != {**configs[1], number: 0}


def _kept(description: Mapping[str, Any], family: Any, source: str) -> dict[str, Any]:
    """The settings that a family declares, and numbers, which older files have under other names."""
    kind = description.get("model_type")
    quantised = next((key for key in _QUANTISED if description.get(key)), None)
    if quantised or kind in _OTHER_PACKAGES:
        what = f"{quantised} asks for quantised weights, which run" if quantised else f"the family {kind!r} runs"
        raise InputError(
            f"{source}: {what} code of other packages than transformers and torch; use another model, or the model as "
            "it was before, or allow it with trust_remote_code: true"
        )
    kept, declared = {}, _declared(family)
    for key, value in description.items():
        attention = key in _ATTENTION and value in ("eager", "sdpa")
        number = type(value) in _NUMBERS and not key.startswith("_") and not hasattr(PreTrainedConfig, key)
        if key in declared and isinstance(value, Mapping):  # a model within the model, or a table
            inner: Any = value.get("model_type")
            part = CONFIG_MAPPING[inner] if inner in CONFIG_MAPPING else family.sub_configs.get(key)
            kept[key] = value if part is None else _kept(value, part, source)
        elif key in declared or attention or number:
            kept[key] = value
    return kept


def _check_class(name: Any, source: str) -> None:
    """Refuse the name of a tokenizer's class that transformers would find something else under."""
    for spelling in () if name is None else {str(name), str(name).removesuffix("Fast"), f"{name}Fast"}:
        found = tokenizer_class_from_name(spelling)
        tokenizer = isinstance(found, type) and issubclass(found, PreTrainedTokenizerBase)
        if not isinstance(name, str) or not (tokenizer or found is None or isinstance(found, DummyObject)):
            raise InputError(f"{source}: its tokenizer_class {str(name)[:80]!r} is no tokenizer; do not use this model")
