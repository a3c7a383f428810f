"""The weights of a file into the modules that they belong to."""

from __future__ import annotations

import pydoc
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from sentrep.encoder import adapters
from sentrep.encoder.adapters import Lora
from sentrep.encoder.loading.backbones import load_backbone
from sentrep.encoder.loading.settings import Settings
from sentrep.encoder.loading.soundness import check_weights
from sentrep.encoder.loading.sources import MODULES, Source, config_from
from sentrep.encoder.modules import SentenceModule, described
from sentrep.errors import InputError, first_line
from sentrep.io.checkpoint_file import below
from sentrep.io.strangers import quiet_transformers


def built(modules: Sequence[Mapping[str, Any]], source: str, trusted: bool) -> list[SentenceModule]:
    """Modules made of their classes and arguments.

    Args:
        modules: see `described`.
        source: of the data, for messages.
        trusted: whether they may be of other classes than sentrep's, whose files are then imported.

    Raises:
        InputError: for a foreign class without trust, or a class that is no module.
    """
    own = {f"{kind.__module__}.{kind.__qualname__}": kind for kind in SentenceModule.__subclasses__()}
    found = []
    for module in modules:
        name, arguments = module["class_path"], module["init_args"]
        if not trusted and not (name in own and name.startswith("sentrep.")):
            raise InputError(
                f"{source}: its module {name[:80]!r} is not one of sentrep's and would run foreign code; if you trust "
                "the model, allow it with trust_remote_code: true"
            )
        try:
            kind: Any = own.get(name) or pydoc.locate(name)
            if not (isinstance(kind, type) and issubclass(kind, SentenceModule)):
                raise TypeError("there is no such class of a SentenceModule; put its file on Python's path")
            found.append(kind(**arguments))
        except (TypeError, ValueError, pydoc.ErrorDuringImport) as error:
            raise InputError(f"{source}: its module {name[:80]} cannot be built: {first_line(error)}") from error
    return found


def restore(encoder: nn.Module, adapter: Lora | None, modules: Iterable[Any], source: Source) -> None:
    """Put the weights of a source into an encoder, but for those that transformers has loaded.

    Args:
        encoder: a `SentenceEncoder`, without a head.
        adapter: the encoder's adapter; a checkpoint's adapter is merged if it differs.
        modules: the modules after its pooling; each takes the weights of an equal module at the same place.
        source: of the weights.
    """
    settings = source.settings or Settings()
    if source.state is not None:
        places = {key: tensor for key, tensor in encoder.state_dict().items() if not key.startswith(MODULES)}
        wanted = source.state
        if adapter != settings.adapter:
            wanted = adapters.carried_over(wanted, settings.adapter, places)
        # a pooler may be in one of the two only: it belongs to the pooling, which the caller may choose anew
        check_weights(wanted, places, source.name, optional="backbone.pooler.")
        encoder.load_state_dict(wanted, strict=False)
    for place, (own, other) in enumerate(zip(modules, settings.modules, strict=False)):
        (mine,) = described([own])
        if mine["class_path"] == other["class_path"] and mine["init_args"] == mine["init_args"] | other["init_args"]:
            found = below(f"{place}.", source.modules)
            check_weights(found, own.state_dict(), source.name, f"module {place}, ")
            own.load_state_dict(found)


def check_rebuilds(payload: dict[str, Any], state: dict[str, Any]) -> None:
    """See that a checkpoint's weights will find their places in a backbone made from its architecture, without memory.

    Args:
        payload: the checkpoint's description of its encoder.
        state: weights of the whole checkpoint.

    Raises:
        InputError: names a weight that has no place, or a place that has no weight.
    """
    settings = Settings.read(payload["settings"], "checkpoint")
    weights = below("encoder.backbone.", state)
    check_places(payload["architecture"], settings.pooling == "pooler", settings.adapter, weights)


def check_places(architecture: dict[str, Any], pooler: bool, adapter: Lora | None, weights: dict[str, Any]) -> None:
    """See that weights will find their places in a backbone made from its architecture, without memory.

    Args:
        architecture: of the backbone.
        pooler: whether it has a pooler.
        adapter: beside its weights.
        weights: of the backbone.

    Raises:
        InputError: names a weight that has no place, or a place that has no weight.
    """
    with torch.device("meta"), quiet_transformers():
        source = Source("checkpoint", None, config_from(architecture, "checkpoint"))
        backbone = load_backbone(source, dropout=None, pooler=pooler)
        if adapter is not None:
            adapters.inject(backbone, adapter)
    try:
        check_weights(weights, backbone.state_dict(), "the encoder's backbone", optional="pooler.")
    except InputError as error:
        raise InputError(
            f"{error}, so no checkpoint or folder of it could be loaded; merge adapters of peft (merge_and_unload), "
            "remove parametrizations, or correct backbone.config (num_hidden_layers and other sizes)"
        ) from error
