"""Model folders: one layout that sentrep, transformers and sentence-transformers all read.

The transformer and its tokenizer lie at the top as transformers wants them. ``sentrep.json`` holds what makes an
encoder of them. ``modules.json`` and its folders describe the same in sentence-transformers' own modules, in the older
layout that all its versions load. Where those cannot express the pooling, the prompt or a module of ours,
``modules.json`` names the one of `sentrep.encoder.exported`, so that sentence-transformers gives our vectors or none.
"""

from __future__ import annotations

import os
import pydoc
import tempfile
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import torch
from huggingface_hub import HfApi
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from sentrep.encoder import adapters
from sentrep.encoder.adapters import Lora
from sentrep.encoder.compute.pooling import POOLINGS
from sentrep.encoder.loading import sources, st_folders
from sentrep.encoder.loading.model_card import CARD, model_card
from sentrep.encoder.loading.model_files import first_line, not_found, read_json, write_json
from sentrep.encoder.loading.soundness import check_files, check_finite
from sentrep.encoder.loading.sources import Hub
from sentrep.encoder.loading.trained import Trained
from sentrep.encoder.modules import SentenceModule, described
from sentrep.encoder.protocol import Encoder
from sentrep.encoder.text.tokenizer import Prompt
from sentrep.errors import InputError
from sentrep.io.checkpoint_file import PAYLOAD_KEY, read_checkpoint
from sentrep.io.files import atomic_folder, write_text
from sentrep.io.hub import fail_fast
from sentrep.io.paths import check_name, check_plain, expanded, writing
from sentrep.version import __version__

Model = TypeVar("Model", bound=Encoder)

SETTINGS_FILE = "sentrep.json"
MODULES_FILE = "sentrep_modules.safetensors"

_MODULES = "sentence_modules."

_SETTINGS: dict[str, tuple[type, ...]] = {
    "pooling": (str,),
    "prompt": (str, type(None)),
    "subtract_template": (bool,),
    "max_length": (int,),
    "max_seq_length": (int, type(None)),
    "adapter": (dict,),
    "prompts": (dict,),
    "modules": (list,),
}
"""What travels with a model, and the types of the values."""


def settings(encoder: Encoder) -> dict[str, Any]:
    """What turns a transformer into this encoder, as plain data. A projection head is no part of it."""
    adapter = {} if encoder.adapter is None else {"adapter": asdict(encoder.adapter)}
    prompts = {"prompts": encoder.prompts} if encoder.prompts else {}
    return {
        **adapter,
        **prompts,
        "pooling": encoder.pooling,
        "prompt": encoder.prompt,
        "subtract_template": encoder.subtract_template,
        "max_length": encoder.max_length,
        "max_seq_length": encoder.max_seq_length,
        "modules": described(encoder.sentence_modules),
    }


def checked_settings(stored: dict[str, Any], source: str | Path) -> dict[str, Any]:
    """Settings that came with a model, by the names of today. Nothing else may come with it: no permission to run code,
    no other model or tokenizer.

    Raises:
        InputError: for another key, or a value of another type.
    """
    for key, value in stored.items():
        if key not in _SETTINGS:
            raise InputError(f"{source}: unknown setting {str(key)[:80]!r}; it is damaged or of a newer sentrep")
        if type(value) not in _SETTINGS[key]:  # True is no number
            raise InputError(f"{source}: setting {key} is {str(value)[:80]!r}; the model is damaged")
    if stored.get("pooling", "cls") not in POOLINGS:
        raise InputError(f"{source}: unknown pooling {stored['pooling']!r}; it is damaged or of a newer sentrep")
    if not all(isinstance(word, str) for item in stored.get("prompts", {}).items() for word in item):
        raise InputError(f"{source}: its prompts are {str(stored['prompts'])[:80]}, not texts by name; it is damaged")
    _adapter(stored, source)
    return stored


def as_arguments(stored: dict[str, Any]) -> dict[str, Any]:
    """Settings as the constructor of an encoder has them, without the modules and what it does not take."""
    arguments = {key: value for key, value in stored.items() if key not in ("modules", "prompts")}
    subtracts = arguments.pop("subtract_template", False)
    if subtracts and isinstance(arguments.get("prompt"), str):
        arguments["prompt"] = Prompt(arguments["prompt"], subtract=True)
    if "adapter" in arguments:
        arguments["adapter"] = Lora(**arguments["adapter"])
    return arguments


def _adapter(stored: Mapping[str, Any], source: str | Path) -> Lora | None:
    """The adapter among stored settings."""
    try:
        return Lora(**stored["adapter"]) if "adapter" in stored else None
    except (TypeError, InputError) as error:
        raise InputError(f"{source}: its adapter cannot be built: {first_line(error)}") from error


def save(encoder: Encoder, folder: Path) -> None:
    """Write the folder, whole (`atomic_folder`). A projection head stays behind.

    Raises:
        InputError: the folder cannot be one.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: a file is in the way of the model folder; choose another name")
    missing = st_folders.missing_for(encoder)
    with writing(folder), atomic_folder(folder) as place, sources.quiet_transformers():
        _write(encoder, place, missing)
        if encoder.prompts or _stored_prompts(folder):  # sentence-transformers saves a file of its own before ours
            st_folders.write_prompts(encoder.prompts, place)
        st_folders.remove_graphs(folder)
    if missing is not None:
        warnings.warn(
            f"{folder}: sentence-transformers has no module for {missing}; it loads the folder only with "
            "trust_remote_code=True and where sentrep is installed, and refuses it otherwise",
            stacklevel=3,
        )


def _write(encoder: Encoder, folder: Path, missing: str | None) -> None:
    try:
        adapter = encoder.adapter
        weights = None if adapter is None else adapters.merged(encoder.backbone.state_dict(), adapter)
        if pooler := {f"pooler.{key}": tensor for key, tensor in encoder.spare_pooler.items()}:
            weights = {**(weights or encoder.backbone.state_dict()), **pooler}
        encoder.backbone.save_pretrained(folder, state_dict=weights)
    except SafetensorError as error:  # its own type for what the disk refuses
        raise OSError(f"its weights: {error}") from error
    encoder.tokenize.tokenizer.save_pretrained(folder)
    if weights := encoder.sentence_modules.state_dict():
        save_file({key: tensor.contiguous() for key, tensor in weights.items()}, folder / MODULES_FILE)
    stored = {key: value for key, value in settings(encoder).items() if key != "adapter"}  # which is merged
    write_json(folder / SETTINGS_FILE, {"version": __version__, **stored})
    if missing is None:
        st_folders.write_modules(encoder, folder)
    else:
        st_folders.write_own_module(folder)
    write_text(folder / CARD, model_card(encoder, missing))


def _stored_prompts(folder: Path) -> Any:
    """Of the model of ours that a folder holds so far."""
    with suppress(InputError):
        return read_json(folder / SETTINGS_FILE).get("prompts")
    return None


def load(make: Callable[..., Model], name: str, hub: Hub, overrides: dict[str, Any]) -> Model:
    """What ``make`` gives for a checkpoint, a folder or a hub id and its settings, with ``overrides`` on top."""
    check_name(name, "the model")
    overrides = {"hub": hub, **overrides}
    folder = expanded(name)
    if os.path.lexists(folder) and not os.path.isdir(folder):
        check_plain(folder)  # where Path.is_file fails for a name that is too long
        checkpoint = read_checkpoint(folder)
        stored = checkpoint[PAYLOAD_KEY]["settings"]  # its modules are the constructor's affair
        model = make(name, **{**as_arguments(checked_settings(stored, name)), **overrides})
        model.trained, model.prompts = Trained.of(checkpoint), stored.get("prompts", {})
        return model
    if not os.path.isdir(folder):
        folder = _download(name, hub.revision)
    check_files(folder)
    if (found := _stored(folder)) is not None:
        stored, weights = found
    else:
        if "pooling" not in overrides:
            warnings.warn(f"{name}: a plain transformers model, which carries no pooling; taking 'cls'", stacklevel=3)
        stored, weights = {}, {}
    modules = stored.get("modules", [])
    if "modules" not in overrides:
        overrides["modules"] = built(modules, name, hub.trust_remote_code)
    encoder = make(str(folder), **{**as_arguments(stored), **overrides})
    encoder.prompts = stored.get("prompts", {})
    _take_weights(encoder, modules, weights, name)
    return encoder


def _stored(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
    """The settings of a folder and the weights of its modules; None where it is plain transformers'."""
    if (folder / SETTINGS_FILE).is_file():
        stored = read_json(folder / SETTINGS_FILE)
        stored.pop("version", None)
        stored = checked_settings(stored, folder / SETTINGS_FILE)
        return stored, _weights(folder) if stored.get("modules") else {}
    if (folder / "modules.json").is_file():
        stored, weights = st_folders.read_modules(folder)
        return checked_settings(stored, folder), weights
    return None


def own_settings(name: str, revision: str | None) -> tuple[str, dict[str, Any]] | None:
    """Where a model lies that says itself how it pools, and its settings; of the hub's only small files are fetched.

    None for a plain transformers model, and where nothing can be read.
    """
    from huggingface_hub import snapshot_download

    try:
        if os.path.isfile(place := str(expanded(name))):
            return place, checked_settings(read_checkpoint(place)[PAYLOAD_KEY]["settings"], place)
        if not os.path.isdir(place):
            place = snapshot_download(name, revision=revision, allow_patterns=["*.json", "[0-9]_*/*", "sentrep*"])
        found = _stored(Path(place))
    except (OSError, ValueError):  # an InputError included: of modules that have no counterpart here
        return None
    return None if found is None or "pooling" not in found[0] else (place, found[0])


def modules_of(source: sources.Source, trusted: bool) -> list[SentenceModule]:
    """The modules, not built yet, of a checkpoint; none of anything else."""
    return built(source.payload["settings"].get("modules", []), source.name, trusted) if source.payload else []


def built(modules: Any, source: str, trusted: bool) -> list[SentenceModule]:
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
    for module in modules if isinstance(modules, list) else [modules]:
        name, arguments = (module.get("class_path"), module.get("init_args")) if isinstance(module, dict) else ("", 0)
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


def _weights(folder: Path) -> dict[str, Tensor]:
    """Of the modules, by the names that they have in a list of them."""
    file = folder / MODULES_FILE
    return st_folders.tensors(file) if file.is_file() else {}


def _take_weights(encoder: Encoder, modules: list[dict[str, Any]], weights: dict[str, Tensor], name: str) -> None:
    """Give each module that a model has just so, at the same place, that one's weights."""
    for place, (own, stored) in enumerate(zip(encoder.sentence_modules, modules, strict=False)):
        (mine,) = described([own])
        same = isinstance(stored, dict) and stored.get("class_path") == mine["class_path"]
        if not same or mine["init_args"] != {**mine["init_args"], **stored["init_args"]}:
            continue  # another one, which the caller has asked for
        found = {k.removeprefix(f"{place}."): v for k, v in weights.items() if k.startswith(f"{place}.")}
        try:
            own.load_state_dict(found)
        except (RuntimeError, AttributeError, TypeError) as error:
            raise InputError(
                f"{name}: the weights of its module {place} are missing or do not fit: {first_line(error)}"
            ) from error
        check_finite({f"module {place}, {key}": tensor for key, tensor in found.items()}, name)


def restore(encoder: Encoder, source: sources.Source) -> None:
    """Put a checkpoint's weights into an encoder."""
    assert source.state is not None
    others = ("head.", _MODULES)
    wanted = {key: tensor for key, tensor in source.state.items() if not key.startswith(others)}
    adapter = _adapter(source.payload["settings"], source.name)
    if adapter != encoder.adapter:
        wanted = adapters.carried_over(wanted, adapter, encoder.state_dict())
    try:
        missing, unexpected = encoder.load_state_dict(wanted, strict=False)
    except (RuntimeError, AttributeError, TypeError) as error:  # another shape, or no tensor at all
        reason = first_line(error)
        raise InputError(f"{source.name}: the checkpoint's weights do not fit its architecture: {reason}") from error
    # a pooler may be in one of the two only: it belongs to the pooling, which the caller may choose anew
    if wrong := [key for key in (*missing, *unexpected) if not key.startswith(("backbone.pooler.", _MODULES))]:
        raise InputError(f"{source.name}: the checkpoint's weights do not fit its architecture, e.g. {wrong[0]}")
    check_finite(wanted, source.name)
    weights = {key.removeprefix(_MODULES): tensor for key, tensor in source.state.items() if key.startswith(_MODULES)}
    _take_weights(encoder, source.payload["settings"].get("modules", []), weights, source.name)


def check_rebuilds(payload: dict[str, Any], state: dict[str, Any]) -> None:
    """See that a checkpoint's weights will find their places in a backbone made from its architecture, without memory.

    Args:
        payload: what the checkpoint says of its encoder.
        state: weights of the whole checkpoint.

    Raises:
        InputError: names a weight that has no place, or a place that has no weight.
    """
    pooler = payload["settings"]["pooling"] == "pooler"
    with torch.device("meta"), sources.quiet_transformers():
        source = sources.Source(
            "checkpoint", None, sources.config_from(payload["architecture"], "checkpoint", trust_remote_code=False), {}
        )
        backbone = sources.load_backbone(source, pretrained=False, dropout=None, pooler=pooler)
        if (adapter := _adapter(payload["settings"], "checkpoint")) is not None:
            adapters.inject(backbone, adapter)
        fresh = backbone.state_dict()
    prefix = "encoder.backbone."
    found = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
    wrong = [key for key in fresh.keys() ^ found.keys() if not key.startswith("pooler.")]
    wrong += [key for key in fresh.keys() & found.keys() if fresh[key].shape != found[key].shape]
    if wrong:
        raise InputError(
            f"the encoder's backbone has other weights than its configuration gives, e.g. {min(wrong)!r}, so no "
            "checkpoint of it could be read back; train a backbone whose modules are those of its model type"
        )


def push(encoder: Encoder, repo_id: str, *, private: bool | None, token: str | None) -> str:
    """Upload the folder of `save` to the hub, where the repository is made if there is none."""
    api = HfApi(token=token)
    with tempfile.TemporaryDirectory() as folder:
        save(encoder, Path(folder))
        address = api.create_repo(repo_id, private=private, exist_ok=True)
        api.upload_folder(repo_id=repo_id, folder_path=folder, commit_message="Upload a sentence encoder")
    return str(address)


def _download(name: str, revision: str | None) -> Path:
    """The hub's snapshot of a model, as a local folder."""
    from huggingface_hub import snapshot_download

    fail_fast()
    try:
        return Path(snapshot_download(name, revision=revision))
    except (OSError, ValueError) as error:
        raise InputError(not_found(name)) from error
