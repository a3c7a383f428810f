"""Model folders: one layout that sentrep, transformers and sentence-transformers all read.

The transformer and its tokenizer lie at the top as transformers wants them. ``sentrep.json`` holds what makes an
encoder of them. ``modules.json`` and its folders describe the same in sentence-transformers' own modules, in the older
layout that all its versions load. Where those cannot express the pooling, the prompt or a module of ours,
``modules.json`` names the one of `sentrep.encoder.exported`, so that sentence-transformers gives our vectors or none.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from huggingface_hub import HfApi
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import PreTrainedModel

from sentrep.encoder import adapters
from sentrep.encoder.loading import st_folders
from sentrep.encoder.loading.model_card import CARD, model_card
from sentrep.encoder.loading.model_files import not_found, one_sentence, read_json, write_json
from sentrep.encoder.loading.settings import Settings
from sentrep.encoder.loading.soundness import check_files
from sentrep.encoder.loading.sources import is_file, quiet_transformers
from sentrep.encoder.loading.trained import Trained
from sentrep.encoder.loading.weights import MODULES
from sentrep.encoder.text.tokenizer import TextTokenizer
from sentrep.errors import InputError
from sentrep.io.checkpoint_file import PAYLOAD_KEY, read_checkpoint
from sentrep.io.files import atomic_folder, write_text
from sentrep.io.hub import fail_fast
from sentrep.io.paths import check_name, expanded, writing
from sentrep.version import __version__

SETTINGS_FILE = "sentrep.json"
MODULES_FILE = "sentrep_modules.safetensors"


@dataclass(frozen=True)
class Model:
    """A model as it is written into a folder; a projection head is no part of it."""

    backbone: PreTrainedModel
    tokenize: TextTokenizer
    modules: nn.ModuleList
    """What follows the pooling."""
    settings: Settings
    embedding_dim: int
    pooler: dict[str, Tensor]
    """Weights of a trained pooler that the pooling does not read."""
    trained: Trained


@dataclass(frozen=True)
class Stored:
    """What a checkpoint, a folder or a hub id says of a model, beside the transformer itself."""

    place: str
    """File or folder that `open_source` reads the transformer from."""
    settings: Settings | None
    """None for a plain transformers model, which has none."""
    weights: dict[str, Tensor] = field(default_factory=dict)
    """Weights of the modules behind the pooling, by their names in a list of them."""
    trained: Trained = field(default_factory=Trained)


def read(name: str, revision: str | None = None, small: bool = False) -> Stored:
    """Read what a model says of itself.

    Args:
        name: a checkpoint, a folder or a hub id.
        revision: of a hub's model.
        small: fetch no more than that of a hub's model, so without the transformer's weights.

    Raises:
        InputError: there is no such model, or it is damaged.
    """
    check_name(name, "the model")
    place = expanded(name)
    if is_file(place):
        checkpoint = read_checkpoint(place)
        prefix = f"encoder.{MODULES}"
        weights = {k.removeprefix(prefix): v for k, v in checkpoint["state_dict"].items() if k.startswith(prefix)}
        settings = Settings.read(checkpoint[PAYLOAD_KEY]["settings"], name)
        return Stored(str(place), settings, weights, Trained.of(checkpoint))
    if not os.path.isdir(place):
        place = _download(name, revision, small)
    check_files(place)
    if (place / SETTINGS_FILE).is_file():
        file = place / MODULES_FILE
        return Stored(str(place), read_settings(place), st_folders.tensors(file) if file.is_file() else {})
    if (place / "modules.json").is_file():
        return Stored(str(place), *st_folders.read_modules(place))
    return Stored(str(place), None)


def read_settings(folder: Path) -> Settings:
    """The settings of a folder of ours."""
    stored = read_json(folder / SETTINGS_FILE)
    stored.pop("version", None)
    return Settings.read(stored, folder / SETTINGS_FILE)


def _download(name: str, revision: str | None, small: bool) -> Path:
    """The hub's snapshot of a model, as a local folder."""
    from huggingface_hub import snapshot_download

    fail_fast()
    patterns = ["*.json", "[0-9]_*/*", "sentrep*"] if small else None
    with one_sentence(not_found(name, local=False), reason=False):
        return Path(snapshot_download(name, revision=revision, allow_patterns=patterns))


def write(model: Model, folder: Path) -> None:
    """Write the folder, whole (`atomic_folder`).

    Raises:
        InputError: the folder cannot be one.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: a file is in the way of the model folder; choose another name")
    missing = st_folders.missing_for(model.settings)
    with writing(folder), atomic_folder(folder) as place, quiet_transformers():
        _write(model, place, missing)
        # sentence-transformers saves a file of its own before ours
        if model.settings.prompts or _stored_prompts(folder):
            st_folders.write_prompts(model.settings.prompts, place)
        st_folders.remove_graphs(folder)
    if missing is not None:
        warnings.warn(
            f"{folder}: sentence-transformers has no module for {missing}; it loads the folder only with "
            "trust_remote_code=True and where sentrep is installed, and refuses it otherwise",
            stacklevel=3,
        )


def _write(model: Model, folder: Path, missing: str | None) -> None:
    settings, weights = model.settings, model.backbone.state_dict()
    if settings.adapter is not None:
        weights = adapters.merged(weights, settings.adapter)
    weights |= {f"pooler.{key}": tensor for key, tensor in model.pooler.items()}
    try:
        model.backbone.save_pretrained(folder, state_dict=weights)
    except SafetensorError as error:  # its own type for what the disk refuses
        raise OSError(f"its weights: {error}") from error
    model.tokenize.tokenizer.save_pretrained(folder)
    if behind := model.modules.state_dict():
        save_file({key: tensor.contiguous() for key, tensor in behind.items()}, folder / MODULES_FILE)
    stored = {key: value for key, value in settings.plain().items() if key != "adapter"}  # which is merged
    write_json(folder / SETTINGS_FILE, {"version": __version__, **stored})
    if missing is None:
        width, limit = model.backbone.config.hidden_size, model.tokenize.limit
        st_folders.write_modules(settings, model.modules, width, limit, folder)
    else:
        st_folders.write_own_module(folder)
    write_text(folder / CARD, model_card(settings, model.embedding_dim, model.trained, missing))


def _stored_prompts(folder: Path) -> bool:
    """Whether the folder holds a model of ours with prompts so far."""
    with suppress(InputError):
        return bool(read_settings(folder).prompts)
    return False


def push(model: Model, repo_id: str, *, private: bool | None, token: str | None) -> str:
    """Upload the folder of `write` to the hub, where the repository is made if there is none."""
    api = HfApi(token=token)
    with tempfile.TemporaryDirectory() as folder:
        write(model, Path(folder))
        address = api.create_repo(repo_id, private=private, exist_ok=True)
        api.upload_folder(repo_id=repo_id, folder_path=folder, commit_message="Upload a sentence encoder")
    return str(address)
