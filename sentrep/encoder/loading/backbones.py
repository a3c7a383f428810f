"""The transformer of a source, with its weights or random ones, and what its configuration says of it."""

from __future__ import annotations

import inspect
import json
from typing import Any

import torch
from transformers import MODEL_MAPPING, AutoModel, AutoModelForTextEncoding, PretrainedConfig, PreTrainedModel

from sentrep.encoder.loading.model_files import one_sentence
from sentrep.encoder.loading.soundness import ENCODER_ALONE, check_complete, check_finite
from sentrep.encoder.loading.sources import Source
from sentrep.errors import InputError
from sentrep.io.checkpoint_file import below
from sentrep.io.strangers import quiet_transformers


def load_backbone(source: Source, dropout: float | None, pooler: bool) -> PreTrainedModel:
    """The transformer itself, in float32, with the source's weights (or random ones).

    Raises:
        InputError: when weights cannot be read, are missing or not finite, or when ``pooler`` is wanted and the source
            has none to load.
    """
    config = source.config
    if dropout is not None:
        _set_dropout(config, dropout)
    family: Any = AutoModelForTextEncoding if config.model_type in ENCODER_ALONE else AutoModel
    kind: Any = MODEL_MAPPING.get(type(config), None)
    optional = kind is not None and "add_pooling_layer" in inspect.signature(kind.__init__).parameters
    missing: set[str] = set()
    if source.path is None:
        switch = {"add_pooling_layer": pooler} if optional else {}  # other families do not take the argument
        with one_sentence(f"{source.name}: no model can be built so"):
            model = family.from_config(config, dtype=torch.float32, trust_remote_code=source.trusted, **switch)
    else:
        switch = {"add_pooling_layer": True} if optional else {}  # NomicBERT's default is False
        model, missing = _from_files(family, source, source.path, switch)
        missing = {key for key in missing if key.startswith("pooler.")}
        if optional and not missing:
            weights = model.pooler.state_dict()
            source.dense, source.pooler = below("dense.", weights), {} if pooler else weights
        if optional and not pooler:
            model.pooler = None  # an unused one breaks DDP
        check_finite(model.state_dict(), source.name)
    unread = None if pooler else getattr(model, "pooler", None)
    if unread is not None:  # of a family that always has one
        unread.requires_grad_(False)
    if pooler and (missing or getattr(model, "pooler", None) is None):
        raise InputError(f"{source.name} has no trained pooler; choose another pooling, or head.kind mlp for a new one")
    return model


def _from_files(family: Any, source: Source, path: str, switch: dict[str, bool]) -> tuple[Any, set[str]]:
    """The model and the names of weights that its files lack, without transformers' own report of them."""
    refusing = one_sentence(f"{source.name}: its weights cannot be loaded")
    # a masked-LM checkpoint has a head that an encoder does not load; a pooler that is not there draws its weights
    with refusing, quiet_transformers(), torch.random.fork_rng(devices=[]):
        model, info = family.from_pretrained(
            path, config=source.config, dtype=torch.float32, output_loading_info=True,
            ignore_mismatched_sizes=True,  # its own error points to a report that nobody sees
            **source.hub, **switch,
        )  # fmt: skip
    for key, found, wanted in sorted(info["mismatched_keys"]):
        raise InputError(
            f"{source.name}: the weights of {key} have the shape {tuple(found)}, and the configuration asks for "
            f"{tuple(wanted)}; correct the sizes in its config.json"
        )
    absent = (key for key in info["missing_keys"] if not key.startswith("pooler."))
    check_complete(model, absent, info["unexpected_keys"], source.name)
    return model, set(info["missing_keys"])


def _set_dropout(config: PretrainedConfig, rate: float) -> None:
    """Set every rate of dropout, whose names differ by family; not the shares of layers or paths that are left out."""
    for name, value in vars(config).items():
        if isinstance(value, PretrainedConfig):  # of a part
            _set_dropout(value, rate)
        elif ("dropout" in name or name.endswith("_pdrop")) and type(value) in (int, float):
            setattr(config, name, rate)


def architecture(backbone: PreTrainedModel) -> dict[str, Any]:
    """The backbone's configuration as plain data, from which `open_source` builds it again."""
    return json.loads(backbone.config.to_json_string(use_diff=False))
