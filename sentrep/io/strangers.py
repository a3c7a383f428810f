"""Model folders of strangers: what in their configurations chooses code is left out or refused, here and nowhere else.

transformers takes more from a ``config.json`` than sizes: the name of a kernel to download and run
(``attn_implementation``), of classes in files of the model's own (``auto_map``), of packages to import
(``quantization_config``, PEFT adapters), of any class of transformers in the tokenizer's place (``tokenizer_class``).
Every configuration and every tokenizer goes through this module. Only ``trust_remote_code: true``, which a user gives
and a file cannot, lets them through as they are.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import CONFIG_MAPPING, AutoConfig, AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerBase
from transformers.models.auto.tokenization_auto import get_tokenizer_config, tokenizer_class_from_name
from transformers.utils import DummyObject, find_adapter_config_file, is_kernels_available

from sentrep.errors import InputError

_CHOOSES_CODE = re.compile(
    r"_*(\w*_implementation\w*|auto_(map|class)|use_(hub_)?kernels?|hub_kernels?|\w*kernel_config|"
    r"custom_(pipelines?|generate)|trust_remote_code|code_revision|(fusion|distributed)_config|transformers_weights)"
)
_REFUSED = ("quantization_config", "compression_config")
_ATTENTION = re.compile("_?attn_implementation")
_NATIVE_ATTENTION = ("eager", "sdpa")
_LABELS = ("id2label", "label2id")  # their keys are names that people gave

_DATA = {"model_type", "num_labels", "output_attentions", "rope_scaling", "per_layer_config", "use_return_dict"}
_OWN_PARTS = set(dir(PreTrainedConfig)) - {field.name for field in dataclasses.fields(PreTrainedConfig)} - _DATA
_PRIVATE_FIELDS = {"_remove_final_layer_norm", "_out_features", "_out_indices", "_label_trainable_num_channels"}

_OTHER_PACKAGES = {
    "timm_backbone",
    "timm_wrapper",
    "layoutlmv2",
}  # build what the configuration names: timm, detectron2
_OWN_KERNELS = {"mra", "rwkv", "yoso"}  # fetch kernels when they are built, where the package `kernels` is installed

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
    kept = _kept(description, source, own)
    if kept.get("model_type") == "mistral" and "layer_types" in kept:
        kept["model_type"] = "ministral"  # as `AutoConfig` reads it
    known = kept.get("model_type") in CONFIG_MAPPING  # whose method get knows of no family
    config = (CONFIG_MAPPING[kept["model_type"]] if known else PreTrainedConfig).from_dict(kept)
    if not own and _chosen(config):
        raise InputError(f"{source}: its configuration chooses {_chosen(config)}; do not use this model")
    return config


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


def _kept(value: Any, source: str, own: bool) -> Any:
    """Plain data without the keys that choose code, at any depth."""
    if isinstance(value, list):
        return [_kept(element, source, own) for element in value]
    if not isinstance(value, Mapping):
        return value
    _check_family(value, source)
    kept = {}
    for key, inner in value.items():
        if _ATTENTION.fullmatch(str(key)) and own and inner in (None, *_NATIVE_ATTENTION):
            kept[key] = inner
        elif _CHOOSES_CODE.fullmatch(str(key)) and own and inner not in (None, False):
            raise InputError(
                f"{source}: {key} {str(inner)[:80]!r} would choose code; leave it out (attn_implementation may be "
                f"{' or '.join(_NATIVE_ATTENTION)}), or allow it with trust_remote_code: true"
            )
        elif not _chooses(str(key)):
            kept[key] = inner if key in _LABELS else _kept(inner, source, own)
    return kept


def _chooses(key: str) -> bool:
    private = key.startswith("_") and key not in _PRIVATE_FIELDS
    return private or key in ("dtype", *_OWN_PARTS, *_REFUSED) or _CHOOSES_CODE.fullmatch(key) is not None


def _check_family(description: Mapping[str, Any], source: str) -> None:
    for key in _REFUSED:
        if description.get(key):
            raise InputError(
                f"{source}: {key} asks for quantised weights, which run code of other packages; "
                "use the model as it was before, or allow it with trust_remote_code: true"
            )
    kind = description.get("model_type")
    if kind in _OTHER_PACKAGES or (kind in _OWN_KERNELS and is_kernels_available()):
        raise InputError(
            f"{source}: a model of the family {kind!r} runs code that comes neither with transformers nor with torch; "
            "if you want that, allow it with trust_remote_code: true"
        )


def _chosen(config: PreTrainedConfig) -> str | None:
    """What a built configuration still chooses, however it got there."""
    found = config._attn_implementation or config._experts_implementation
    parts = [getattr(config, name, None) for name in type(config).sub_configs]
    below = [_chosen(part) for part in parts if isinstance(part, PreTrainedConfig)]
    return next((str(name) for name in (found, *below) if name), None)


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
