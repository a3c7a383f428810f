"""The weights of a file into the modules that they belong to."""

from __future__ import annotations

import pydoc
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sentrep.encoder import adapters
from sentrep.encoder.adapters import Lora
from sentrep.encoder.loading.model_files import first_line
from sentrep.encoder.loading.settings import Settings
from sentrep.encoder.loading.soundness import check_weights
from sentrep.encoder.loading.sources import Source, config_from, load_backbone, quiet_transformers
from sentrep.encoder.modules import SentenceModule, described
from sentrep.errors import InputError

MODULES = "sentence_modules."


def built(modules: Sequence[Mapping[str, Any]], source: str, trusted: bool) -> list[SentenceModule]:
    """Modules made of their classes and arguments.

    Args:
        modules: see `described`.
        source: of the data, for messages.
        trusted: whether they may be of other classes than sentrep's, whose files are then imported.

    Raises:
        InputError: for another class without trust, or what is no module.
    """
    own = {f"{kind.__module__}.{kind.__qualname__}": kind for kind in SentenceModule.__subclasses__()}
    found = []
    for module in modules:
        name, arguments = module.get("class_path"), module.get("init_args")
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise InputError(f"{source}: {str(module)[:80]!r} is no module with its arguments; the model is damaged")
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


def fill(modules: Iterable[Any], stored: Sequence[Mapping[str, Any]], weights: Mapping[str, Tensor], name: str) -> None:
    """Give each module the weights of the one that a model has just so at the same place.

    Args:
        modules: built.
        stored: classes and arguments of the model's.
        weights: of these, by their names in a list of them.
        name: of the model, for messages.
    """
    for place, (own, other) in enumerate(zip(modules, stored, strict=False)):
        (mine,) = described([own])
        if mine["class_path"] == other["class_path"] and mine["init_args"] == mine["init_args"] | other["init_args"]:
            found = {k.removeprefix(f"{place}."): v for k, v in weights.items() if k.startswith(f"{place}.")}
            check_weights(found, own.state_dict(), name, f"module {place}, ")
            own.load_state_dict(found)


def restore(encoder: nn.Module, adapter: Lora | None, modules: Iterable[Any], source: Source) -> None:
    """Put a checkpoint's weights into an encoder.

    Args:
        encoder: a `SentenceEncoder`.
        adapter: what it has; that of the checkpoint is merged where it is another one.
        modules: what follows its pooling.
        source: the checkpoint.
    """
    settings = source.settings
    places = _without_modules(encoder.state_dict())
    wanted = _without_modules(source.state or {})
    if adapter != settings.adapter:
        wanted = adapters.carried_over(wanted, settings.adapter, places)
    # a pooler may be in one of the two only: it belongs to the pooling, which the caller may choose anew
    check_weights(wanted, places, source.name, optional="backbone.pooler.")
    encoder.load_state_dict(wanted, strict=False)
    weights = {k.removeprefix(MODULES): v for k, v in (source.state or {}).items() if k.startswith(MODULES)}
    fill(modules, settings.modules, weights, source.name)


def _without_modules(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {key: tensor for key, tensor in state.items() if not key.startswith(("head.", MODULES))}


def check_rebuilds(payload: dict[str, Any], state: dict[str, Any]) -> None:
    """See that a checkpoint's weights will find their places in a backbone made from its architecture, without memory.

    Args:
        payload: what the checkpoint says of its encoder.
        state: weights of the whole checkpoint.

    Raises:
        InputError: names a weight that has no place, or a place that has no weight.
    """
    settings = Settings.read(payload["settings"], "checkpoint")
    with torch.device("meta"), quiet_transformers():
        source = Source("checkpoint", None, config_from(payload["architecture"], "checkpoint"))
        backbone = load_backbone(source, dropout=None, pooler=settings.pooling == "pooler")
        if settings.adapter is not None:
            adapters.inject(backbone, settings.adapter)
    prefix = "encoder.backbone."
    found = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
    try:
        check_weights(found, backbone.state_dict(), "the encoder's backbone", optional="pooler.")
    except InputError as error:
        raise InputError(
            f"{error}, so no checkpoint of it could be read back; train a backbone whose modules are those of its "
            "model type"
        ) from error
