"""From a name to a `SentenceTransformer`: a hub id, a folder, a checkpoint, or a configuration with random weights.

There is one way in, a folder that sentence-transformers reads. A configuration and a checkpoint are written into a
temporary folder first.
"""

from __future__ import annotations

import inspect
import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from sentence_transformers.util import import_module_class
from torch import Tensor
from transformers import MODEL_MAPPING, AutoConfig, AutoModel, AutoModelForTextEncoding, AutoTokenizer, PretrainedConfig

from sentrep.encoder.loading.checks import (
    ENCODER_ALONE,
    check_encoder,
    check_folder,
    check_settings,
    check_weights_of,
    listed_modules,
    one_sentence,
)
from sentrep.encoder.loading.folders import is_before, merge, save_weights, write_checkpoint
from sentrep.encoder.st_modules import OWN, SETTINGS
from sentrep.errors import InputError
from sentrep.io.checkpoint_file import PAYLOAD_KEY, below, read_checkpoint, trained_head
from sentrep.io.configurations import quiet_transformers
from sentrep.io.hub import fail_fast
from sentrep.io.paths import check_name, check_plain, expanded

_OLDER = "pytorch_model*.bin"
"""Weights that are fetched where there are no safetensors."""
_ELSEWHERE = ["*.h5", "*.msgpack", "*.ot", "*.tflite", "*.gguf", "*.onnx*", "onnx/*", "openvino/*", "coreml/*"]
"""Files of a hub's model with its weights for other programs."""


@dataclass
class Opened:
    """A model that was read, and what training may need of its origin."""

    name: str
    model: SentenceTransformer
    path: str | None = None
    """The folder of the transformer, where a masked-LM head may be; None for a checkpoint or random weights."""
    trusted: bool = False
    """Whether the user lets the model run its own code."""
    is_random: bool = False
    pooled: bool = True
    """Whether the folder has a pooling."""
    training: dict[str, Any] = field(default_factory=dict)
    """The settings of training in a checkpoint: ``max_length``, ``adapter``."""
    state: dict[str, Tensor] = field(default_factory=dict)
    """The weights of a checkpoint, as in `SentenceEncoder`."""
    head: dict[str, Tensor] = field(default_factory=dict)
    """The first layer of a checkpoint's projection head."""
    lm_head: dict[str, Tensor] | None = None
    """The masked-LM head that a checkpoint's objectives were trained with, if they had one."""


def parse_backbone(backbone: str | Mapping[str, Any]) -> tuple[str | dict[str, Any], dict[str, Any]]:
    """The name or configuration of a backbone of `SentenceEncoder`, and the arguments of ``from_pretrained``.

    Raises:
        InputError: a name and a configuration.
    """
    rest = {} if isinstance(backbone, str) else dict(backbone)
    trusts = rest.pop("trust_remote_code", False) is True  # the text "false" is no consent
    hub = {"revision": rest.pop("revision", None), "trust_remote_code": trusts}
    name = backbone if isinstance(backbone, str) else rest.get("name")
    if name is not None:
        check_name(name, "the model (encoder.backbone)")
        if other := sorted(rest.keys() - {"name"}):
            raise InputError(
                f"encoder.backbone: {other[0]!r} belongs to a configuration, and there is a name, too; remove one"
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


def open_model(
    backbone: str | Mapping[str, Any],
    *,
    tokenizer: str | None = None,
    pretrained: bool = True,
    dropout: float | None = None,
    pooler: bool = False,
    behind: bool = True,
) -> Opened:
    """Read the model that ``backbone`` names, without a pooler that is not trained; see `SentenceEncoder`.

    Args:
        backbone: hub id, folder, checkpoint or configuration.
        tokenizer: another tokenizer than the model's.
        pretrained: False takes the architecture with random weights.
        dropout: replaces every dropout rate.
        pooler: whether the pooling reads the transformer's pooler.
        behind: whether the modules of ours after the pooling are wanted, whose classes may need trust.

    Raises:
        InputError: nothing is found, or the model is damaged or no encoder.
    """
    name, hub = parse_backbone(backbone)
    trusted: bool = hub["trust_remote_code"]
    if not isinstance(name, str):
        config = _config(name, trusted)
        if tokenizer is None:
            raise InputError("a backbone given as a configuration has no tokenizer; name one with `tokenizer:`")
        return _random(config, _tokenizer(tokenizer, trusted), dropout, pooler, trusted, "configuration")
    place = find(name, hub["revision"])
    with ExitStack() as stack:
        opened: dict[str, Any] = {"trusted": trusted}
        folder = place
        if not place.is_dir():
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            checkpoint = read_checkpoint(place)
            with one_sentence(f"{name}: the checkpoint is damaged"):
                write_checkpoint(checkpoint, folder, name)
            state = below("encoder.", checkpoint["state_dict"])
            opened |= {"training": checkpoint[PAYLOAD_KEY]["training"], "state": state}
            opened |= {"head": below("head.dense.", state), "lm_head": trained_head(checkpoint)}
        local = os.path.lexists(expanded(name))
        transformer = check_folder(folder)
        beside = transformer / "adapter_config.json"  # of low-rank adapters, which name the folder of their model
        if beside.is_file():
            with one_sentence(f"{beside}: this description of adapters is damaged"):
                transformer = find(json.loads(beside.read_text(encoding="utf-8"))["base_model_name_or_path"])
        with one_sentence(f"{name}: this folder holds no model that transformers can load"):
            config = AutoConfig.from_pretrained(transformer, trust_remote_code=trusted, local_files_only=local)
        check_encoder(config, name)
        if not pretrained:
            words = _tokenizer(tokenizer or str(transformer), trusted)
            return _random(config, words, dropout, pooler, trusted, name)
        model = _read(folder, config, dropout, trusted, local, name, behind)
        if beside.is_file():
            _merge_adapters(model)
        if not check_weights_of(_backbone(model), transformer, name):
            _backbone(model).pooler = None
        if tokenizer is not None:
            _set_tokenizer(model, _tokenizer(tokenizer, trusted))
        path = str(transformer) if place.is_dir() else None
        pooled = (folder / "modules.json").is_file()
        return Opened(name, model, path, pooled=pooled, **opened)


def _read(
    folder: Path, config: Any, dropout: float | None, trusted: bool, local: bool, name: str, behind: bool = True
) -> SentenceTransformer:
    """The model of a folder, in float32, on the CPU."""
    options: dict[str, Any] = {
        "local_files_only": local, "trust_remote_code": trusted, "model_kwargs": _model_options(config),
        "config_kwargs": {} if dropout is None else dict.fromkeys(_dropouts(config), dropout),
    }  # fmt: skip
    damaged = one_sentence(f"{name}: this folder holds no model that sentence-transformers can load")
    # layers draw their initial weights before the stored ones arrive
    with damaged, quiet_transformers(), torch.random.fork_rng(devices=[]):
        if not (folder / "modules.json").is_file():
            transformer = Transformer.load(str(folder), **options)
            pooling = Pooling(transformer.get_embedding_dimension(), "cls")
            return SentenceTransformer(modules=[transformer, pooling], device="cpu", similarity_fn_name="cosine")
        listed = listed_modules(folder)
        if not any(kind in OWN for kind, _ in listed) or (trusted and behind):
            return SentenceTransformer(str(folder), device="cpu", **options)
        modules: list[Any] = []
        # sentence-transformers asks for trust in classes of other packages, ours too
        for kind, inner in listed if behind else [item for item in listed if is_before(item[0])]:
            found: Any = OWN.get(kind) or import_module_class(kind, str(folder), trust_remote_code=trusted)
            modules.append(found.load(str(folder), subfolder=inner, backend="torch", **options))
        stored = json.loads((folder / "config_sentence_transformers.json").read_text(encoding="utf-8"))
        return SentenceTransformer(modules=modules, device="cpu", **{key: stored.get(key) for key in SETTINGS})


def _random(
    config: PretrainedConfig, tokenizer: Any, dropout: float | None, pooler: bool, trusted: bool, name: str
) -> Opened:
    """A model with random weights, of torch's generator; with a pooler only where one is wanted."""
    check_encoder(config, name)
    family: Any = AutoModelForTextEncoding if config.model_type in ENCODER_ALONE else AutoModel
    switch = {"add_pooling_layer": pooler} if _has_switch(config) else {}  # other families do not take the argument
    with one_sentence(f"{name}: no model can be built so"), tempfile.TemporaryDirectory() as folder:
        with quiet_transformers():
            model = family.from_config(config, dtype=torch.float32, trust_remote_code=trusted, **switch)
        model.config.save_pretrained(folder)
        save_weights(model.state_dict(), Path(folder))  # its own `save_pretrained` writes in the first process alone
        tokenizer.save_pretrained(folder)
        read = _read(Path(folder), config, dropout, trusted, True, name)
    if not pooler:
        _backbone(read).pooler = None
    return Opened(name, read, trusted=trusted, is_random=True)


def _config(description: dict[str, Any], trusted: bool) -> PretrainedConfig:
    """A transformers configuration from plain data that the user wrote."""
    with one_sentence("backbone: the encoder's configuration"):
        config = AutoConfig.for_model(**description)
    if not trusted:
        check_settings(description, config)
    return config


def _tokenizer(name: str, trusted: bool) -> Any:
    """The tokenizer that ``name`` says: a folder, a hub id, or ``toy``."""
    if name == "toy" and not Path(name).is_dir():
        from sentrep.data import toy

        return toy.tokenizer()
    place = str(find(name, weights=False, what="tokenizer"))
    with one_sentence(f"{place}: this folder holds no tokenizer that transformers can load"):
        return AutoTokenizer.from_pretrained(place, local_files_only=True, trust_remote_code=trusted)


def _set_tokenizer(model: Any, tokenizer: Any) -> None:
    first = getattr(model[0], "transformer", model[0])
    tokenizer.model_max_length = first.tokenizer.model_max_length
    first.processor = tokenizer


def _merge_adapters(model: SentenceTransformer) -> None:
    """Replace the transformer and its adapters by a plain one, as transformers would save only the adapters."""
    backbone = _backbone(model)
    merge(backbone)
    with torch.random.fork_rng(devices=[]):
        plain = type(backbone)(backbone.config)
    plain.load_state_dict(backbone.state_dict())
    first: Any = model[0]
    first.model = plain.eval()


def _backbone(model: Any) -> Any:
    return getattr(model[0], "transformer", model[0]).auto_model


def _model_options(config: PretrainedConfig) -> dict[str, Any]:
    # NomicBERT's default is False
    return {"dtype": torch.float32, **({"add_pooling_layer": True} if _has_switch(config) else {})}


def _has_switch(config: PretrainedConfig) -> bool:
    kind: Any = MODEL_MAPPING.get(type(config), None)
    return kind is not None and "add_pooling_layer" in inspect.signature(kind.__init__).parameters


def _dropouts(config: PretrainedConfig) -> list[str]:
    """Names of the rates of dropout, which differ by family; not the shares of layers or paths that are left out."""
    return [
        name
        for name, value in vars(config).items()
        if ("dropout" in name or name.endswith("_pdrop")) and type(value) in (int, float)
    ]
