"""Where an encoder comes from: a model hub id, a folder, a checkpoint, or a configuration with random weights."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import CONFIG_MAPPING, MODEL_MAPPING, AutoConfig, AutoModel, PretrainedConfig, PreTrainedModel
from transformers.utils import logging as transformers_logging

from sentrep import checks
from sentrep.encoder.compute.layout import OFFSET_POSITIONS
from sentrep.encoder.loading.model_files import not_found, one_sentence
from sentrep.encoder.loading.settings import Settings
from sentrep.encoder.loading.soundness import check_complete, check_files, check_finite, check_sizes
from sentrep.encoder.loading.st_folders import transformer_folder
from sentrep.errors import InputError
from sentrep.io.checkpoint_file import PAYLOAD_KEY, read_checkpoint, trained_head
from sentrep.io.hub import fail_fast
from sentrep.io.paths import check_name, check_plain, expanded
from sentrep.io.strangers import build_config, read_config

_DROPOUT_NAMES = (
    "hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout",
    "embedding_dropout", "mlp_dropout", "classifier_dropout_prob",
)  # fmt: skip


@dataclass
class Source:
    """An opened origin of a backbone. Without ``path`` and ``state`` weights are random."""

    name: str
    path: str | None
    """Folder or hub id that transformers loads from; None for a checkpoint or a configuration."""
    config: PretrainedConfig
    hub: dict[str, Any] = field(default_factory=dict)
    """Arguments for every ``from_pretrained`` of this source."""
    state: dict[str, Tensor] | None = None
    """Weights of a checkpoint, keyed as in `SentenceEncoder`."""
    payload: dict[str, Any] = field(default_factory=dict)
    """What a checkpoint says of itself."""
    lm_head: dict[str, Tensor] | None = None
    """Weights of the masked-LM head that a checkpoint's objectives were trained with, if they had one."""
    pooler: dict[str, Tensor] = field(default_factory=dict)
    """Weights of a trained pooler that the pooling does not read: they go into exports, which others load with it."""
    dense: dict[str, Tensor] = field(default_factory=dict)
    """Weights of the projection head that a checkpoint was trained with, or else of a trained pooler's layer."""

    @property
    def settings(self) -> Settings:
        """What a checkpoint says of the model."""
        return Settings.read(self.payload["settings"], self.name) if self.payload else Settings()

    def without_weights(self) -> Source:
        """The same architecture, for random weights."""
        return Source(self.name, None, self.config, self.hub)

    @property
    def trusted(self) -> bool:
        """Whether the user lets it run its own code."""
        return self.hub.get("trust_remote_code", False)


def parse_backbone(backbone: str | Mapping[str, Any]) -> tuple[str | dict[str, Any], dict[str, Any]]:
    """The name or configuration of a backbone as `SentenceEncoder` takes it, and what ``from_pretrained`` is told.

    Raises:
        InputError: for what is none.
    """
    checks.instance("encoder", (str, Mapping), backbone=backbone)
    rest = {} if isinstance(backbone, str) else dict(backbone)
    hub = {"revision": rest.pop("revision", None), "trust_remote_code": rest.pop("trust_remote_code", False)}
    checks.text("encoder.backbone", **checks.given(revision=hub["revision"]))
    checks.flag("encoder.backbone", trust_remote_code=hub["trust_remote_code"])
    name = backbone if isinstance(backbone, str) else rest.get("name")
    if name is not None:
        checks.text("encoder", backbone=name)
        if rest.keys() - {"name"}:
            other = min(rest.keys() - {"name"})
            raise InputError(
                f"encoder.backbone: {other!r} is of a configuration, and a name stands beside it; leave one out"
            )
        check_name(name, "the model")
    return rest if name is None else name, hub


def open_source(backbone: str | Mapping[str, Any]) -> Source:
    """Find out what ``backbone`` names and read its configuration. A local path never touches the network.

    Raises:
        InputError: when nothing is found, or what is found is no encoder.
    """
    source = _open(*parse_backbone(backbone))
    check_sizes(source.config, source.name)
    return source


def _open(name: str | dict[str, Any], hub: dict[str, Any]) -> Source:
    trust = {"trust_remote_code": hub["trust_remote_code"]}
    if not isinstance(name, str):
        return Source("configuration", None, config_from(name, "backbone", own=True, **trust), trust)
    path = expanded(name)
    if is_file(path):
        checkpoint = read_checkpoint(path)
        payload = checkpoint[PAYLOAD_KEY]
        prefix = "encoder."
        state = {k[len(prefix) :]: v for k, v in checkpoint["state_dict"].items() if k.startswith(prefix)}
        config = config_from(payload["architecture"], name, **trust)
        dense = _below("head.dense.", state) or _below("backbone.pooler.dense.", state)
        spare = payload.get("pooler", {})
        return Source(name, None, config, trust, state, payload, trained_head(checkpoint), spare, dense)
    place = name
    if local := path.is_dir():
        place = str(transformer_folder(path))
        check_files(Path(place))
        hub = {"local_files_only": True, **trust}
    else:
        fail_fast()
    with one_sentence(not_found(name, local), reason=local):
        return Source(place, place, read_config(place, hub), hub)


def is_file(path: Path) -> bool:
    """Whether this is a file, as a checkpoint is, and no folder.

    Raises:
        InputError: for a pipe, a device or a broken link.
    """
    if not os.path.lexists(path) or os.path.isdir(path):  # where Path.is_file fails for a name that is too long
        return False
    check_plain(path)
    return True


def load_backbone(source: Source, dropout: float | None, pooler: bool) -> PreTrainedModel:
    """The transformer itself, in float32, with the source's weights (or random ones).

    Raises:
        InputError: when weights cannot be read, are missing or not finite, or when ``pooler`` is wanted and the source
            has none to load.
    """
    config = source.config
    for name in _DROPOUT_NAMES if dropout is not None else ():
        if hasattr(config, name):
            setattr(config, name, dropout)
    # Some families take the switch for their pooler, the rest fail on it. Without this an unused pooler breaks DDP.
    model_class: Any = MODEL_MAPPING.get(type(config), None)
    arguments = {}
    if model_class is not None and "add_pooling_layer" in inspect.signature(model_class.__init__).parameters:
        arguments["add_pooling_layer"] = pooler
    missing: set[str] = set()
    if source.path is not None:
        model, missing = _from_files(source, source.path, arguments)
    else:
        with one_sentence(f"{source.name}: no model can be built so"):
            model = AutoModel.from_config(config, dtype=torch.float32, trust_remote_code=source.trusted, **arguments)
    if pooler and (getattr(model, "pooler", None) is None or any(key.startswith("pooler.") for key in missing)):
        raise InputError(f"{source.name} has no trained pooler; choose another pooling, or head.kind mlp for a new one")
    return model


def _from_files(source: Source, path: str, arguments: dict[str, Any]) -> tuple[PreTrainedModel, set[str]]:
    """The model and the names of weights that its files lack, without transformers' own report of them."""
    spare = arguments.get("add_pooling_layer") is False
    if spare:
        arguments = {**arguments, "add_pooling_layer": True}
    refusing = one_sentence(f"{source.name}: its weights cannot be loaded")
    # a masked-LM checkpoint has a head that an encoder does not load; a pooler that is not there draws its weights
    with refusing, quiet_transformers(), torch.random.fork_rng(devices=[]):
        model, info = AutoModel.from_pretrained(
            path, config=source.config, dtype=torch.float32, output_loading_info=True,
            ignore_mismatched_sizes=True,  # its own error points to a report that nobody sees
            **source.hub, **arguments,
        )  # fmt: skip
    for key, found, wanted in sorted(info["mismatched_keys"]):
        raise InputError(
            f"{source.name}: the weights of {key} have the shape {tuple(found)}, and the configuration asks for "
            f"{tuple(wanted)}; correct the sizes in its config.json"
        )
    missing = set(info["missing_keys"])
    absent = (key for key in missing if not key.startswith("pooler."))
    check_complete(model, absent, info["unexpected_keys"], source.name)
    if "add_pooling_layer" in arguments and not any(key.startswith("pooler.") for key in missing):
        pooler = model.pooler.state_dict()
        source.dense, source.pooler = _below("dense.", pooler), pooler if spare else {}
    if spare:
        model.pooler = None  # as without `add_pooling_layer`: an unused one breaks DDP
    check_finite(model.state_dict(), source.name)
    return model, missing


def _below(prefix: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): tensor for key, tensor in state.items() if key.startswith(prefix)}


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


def architecture(backbone: PreTrainedModel) -> dict[str, Any]:
    """The backbone's configuration as plain data, from which `open_source` builds it again."""
    return json.loads(backbone.config.to_json_string(use_diff=False))


def position_limit(config: PretrainedConfig) -> int | None:
    """The longest sequence that the position table holds (None for models without one)."""
    positions = getattr(config, "max_position_embeddings", None)
    if positions is None or positions < 1:  # how XLNet says that it has none
        return None
    return positions - 2 if config.model_type in OFFSET_POSITIONS else positions


def config_from(
    description: dict[str, Any], source: str, trust_remote_code: bool = False, own: bool = False
) -> PretrainedConfig:
    """A transformers configuration from plain data: the user's ``own``, or a checkpoint's.

    Raises:
        InputError: for one that transformers does not take.
    """
    if "model_type" not in description:
        raise InputError("a backbone given as a configuration needs `model_type`, for example bert")
    with one_sentence("backbone configuration"):
        if trust_remote_code or description["model_type"] not in CONFIG_MAPPING:  # which says what families there are
            return AutoConfig.for_model(**description)
        return build_config(description, source, own)
