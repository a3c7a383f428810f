"""Where an encoder comes from: a model hub id, a folder, a checkpoint, or a configuration with random weights."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor
from transformers import CONFIG_MAPPING, AutoConfig, PretrainedConfig

from sentrep import checks
from sentrep.encoder.loading import st_folders
from sentrep.encoder.loading.model_files import one_sentence
from sentrep.encoder.loading.settings import Settings
from sentrep.encoder.loading.soundness import check_encoder
from sentrep.encoder.loading.trained import Trained
from sentrep.errors import InputError
from sentrep.io.checkpoint_file import PAYLOAD_KEY, below, read_checkpoint, trained_head
from sentrep.io.hub import fail_fast
from sentrep.io.paths import check_name, check_plain, check_plain_files, expanded
from sentrep.io.strangers import build_config, read_config

_OLDER = "pytorch_model*.bin"
"""Weights that are fetched where there are no safetensors."""
_ELSEWHERE = ["*.h5", "*.msgpack", "*.ot", "*.tflite", "*.gguf", "*.onnx*", "onnx/*", "openvino/*", "coreml/*"]
"""Files of a hub's model with its weights for other programs."""

MODULES = "sentence_modules."
"""Prefix of the weights of the modules after the pooling, in `SentenceEncoder`."""


@dataclass
class Source:
    """An opened origin of an encoder. Without ``path`` and ``state`` weights are random."""

    name: str
    path: str | None
    """Folder that transformers loads from; None for a checkpoint or a configuration."""
    config: PretrainedConfig
    hub: dict[str, Any] = field(default_factory=dict)
    """Arguments for every ``from_pretrained`` of this source."""
    state: dict[str, Tensor] | None = None
    """Weights of a checkpoint, keyed as in `SentenceEncoder`, without the weights of the modules."""
    settings: Settings | None = None
    """What makes an encoder of the transformer: of a checkpoint, and of a folder that was read whole."""
    modules: dict[str, Tensor] = field(default_factory=dict)
    """Weights of the modules after the pooling, by their names in a list of modules."""
    payload: dict[str, Any] = field(default_factory=dict)
    """The payload of a checkpoint."""
    trained: Trained = field(default_factory=Trained)
    """How a checkpoint came about."""
    lm_head: dict[str, Tensor] | None = None
    """Weights of the masked-LM head that a checkpoint's objectives were trained with, if they had one."""
    pooler: dict[str, Tensor] = field(default_factory=dict)
    """Weights of a trained pooler that the pooling does not read: they go into exports, which others load with it."""
    dense: dict[str, Tensor] = field(default_factory=dict)
    """Weights of the projection head that a checkpoint was trained with, or else of a trained pooler's layer."""

    def without_weights(self) -> Source:
        """The same architecture, for random weights."""
        return Source(self.name, None, self.config, self.hub, settings=self.settings)

    def trained_pooler(self, width: int, required: bool) -> dict[str, Tensor] | None:
        """``weight`` (H, H) and ``bias`` (H,) of the layer before the pooler's tanh; None where all weights are random.

        A checkpoint of `sentrep fit` has the trained projection head's layer, or else its backbone's.

        Args:
            width: H.
            required: whether a model must have a trained pooler.

        Raises:
            InputError: for a model without a required one.
        """
        if self.path is None and not self.payload:
            return None
        weight = self.dense.get("weight")
        if weight is None or weight.shape != (width, width):
            if not required:
                return None
            raise InputError(f"{self.name} has no trained pooler that a head could start from; choose head.kind mlp")
        return self.dense

    @property
    def trusted(self) -> bool:
        """Whether the user lets it run its own code."""
        return self.hub.get("trust_remote_code", False)


def parse_backbone(backbone: str | Mapping[str, Any]) -> tuple[str | dict[str, Any], dict[str, Any]]:
    """The name or configuration of a backbone of `SentenceEncoder`, and the arguments of ``from_pretrained``.

    Raises:
        InputError: neither a name nor a configuration, or wrong arguments.
    """
    checks.instance("encoder", (str, Mapping), backbone=backbone)
    rest = {} if isinstance(backbone, str) else dict(backbone)
    hub = {"revision": rest.pop("revision", None), "trust_remote_code": rest.pop("trust_remote_code", False)}
    checks.text("encoder.backbone", **checks.given(revision=hub["revision"]))
    checks.flag("encoder.backbone", trust_remote_code=hub["trust_remote_code"])
    name = backbone if isinstance(backbone, str) else rest.get("name")
    if name is not None:
        checks.instance("encoder", str, backbone=name)
        check_name(name, "the model (encoder.backbone)")
        if rest.keys() - {"name"}:
            other = min(rest.keys() - {"name"})
            raise InputError(
                f"encoder.backbone: {other!r} belongs to a configuration, but there is a name, too; remove one of them"
            )
    return rest if name is None else name, hub


def find(name: str, revision: str | None = None, *, weights: bool = True, what: str = "model") -> Path:
    """Find the folder or checkpoint of a name on this machine; local files never touch the network.

    Args:
        name: a path, or else a hub id, of which the files are fetched. A short one stands for sentence-transformers'
            model where the hub has no other of the name.
        revision: of a hub's model.
        weights: whether weights are wanted, safetensors before others.
        what: is looked for, for the message.

    Raises:
        InputError: there is no such thing, or it is a pipe, a device or a broken link.
    """
    place = expanded(name)
    if os.path.isdir(place):
        check_plain_files(place)
        return place
    if os.path.lexists(place):  # where Path.is_file fails for a name that is too long
        check_plain(place)
        return place
    from huggingface_hub import snapshot_download

    def fetch(name: str) -> Path:
        ignored = _ELSEWHERE if weights else [*_ELSEWHERE, "*.safetensors", "*.bin"]
        folder = Path(snapshot_download(name, revision=revision, ignore_patterns=[*ignored, _OLDER]))
        if weights and not any(folder.glob("*.safetensors")):
            snapshot_download(name, revision=revision, allow_patterns=_OLDER)
        return folder

    fail_fast()
    absent = (
        f"{name}: no such folder or checkpoint, and the {what} hub did not answer or has no such {what}; "
        "check the spelling, or give the path of a local folder"
    )
    with one_sentence(absent, reason=False):
        try:
            return fetch(name)
        except OSError:
            if "/" in name:
                raise
            return fetch(f"sentence-transformers/{name}")


def open_source(backbone: str | Mapping[str, Any] | Source, *, whole: bool = False, weights: bool = True) -> Source:
    """Find out what ``backbone`` names and read its configuration, unless that is done.

    Args:
        backbone: see `SentenceEncoder`.
        whole: also read the settings in a model's folder; a checkpoint's settings are always read.
        weights: False: no weights of a hub's model are wanted.

    Raises:
        InputError: when nothing is found, or the model is no encoder.
    """
    if isinstance(backbone, Source):
        return backbone
    name, hub = parse_backbone(backbone)
    trust = {"trust_remote_code": hub["trust_remote_code"]}
    if not isinstance(name, str):
        source = Source("configuration", None, config_from(name, "backbone", own=True, **trust), trust)
    elif (place := find(name, hub["revision"], weights=weights)).is_dir():
        # files of a hub's model may name code of another one
        source = _folder(name, place, {"local_files_only": os.path.isdir(expanded(name)), **trust}, whole)
    else:
        source = _checkpoint(name, place, trust)
    check_encoder(source.config, source.name)
    return source


def _folder(name: str, place: Path, hub: dict[str, Any], whole: bool) -> Source:
    path = str(st_folders.transformer_folder(place))
    check_plain_files(path)
    with one_sentence(f"{name}: this folder holds no model that transformers can load"):
        config = read_config(path, hub)
    settings, modules = st_folders.read_folder(place, config) if whole else (None, {})
    return Source(name, path, config, hub, settings=settings, modules=modules)


def _checkpoint(name: str, place: Path, trust: dict[str, Any]) -> Source:
    checkpoint = read_checkpoint(place)
    payload = checkpoint[PAYLOAD_KEY]
    state = below("encoder.", checkpoint["state_dict"])
    return Source(
        name, None, config_from(payload["architecture"], name, **trust), trust,
        state={key: tensor for key, tensor in state.items() if not key.startswith(("head.", MODULES))},
        settings=Settings.read(payload["settings"], name),
        modules=below(MODULES, state),
        payload=payload,
        trained=Trained.of(checkpoint),
        lm_head=trained_head(checkpoint),
        pooler=payload.get("pooler", {}),
        dense=below("head.dense.", state) or below("backbone.pooler.dense.", state),
    )  # fmt: skip


def config_from(
    description: dict[str, Any], source: str, trust_remote_code: bool = False, own: bool = False
) -> PretrainedConfig:
    """A transformers configuration from plain data: the user's ``own``, or a checkpoint's.

    Raises:
        InputError: for one that transformers does not take.
    """
    if "model_type" not in description:
        raise InputError(f"{source}: the encoder's configuration needs `model_type`, for example bert")
    with one_sentence(f"{source}: the encoder's configuration"):
        if trust_remote_code or description["model_type"] not in CONFIG_MAPPING:  # which says what families there are
            return AutoConfig.for_model(**description)
        return build_config(description, source, own)
