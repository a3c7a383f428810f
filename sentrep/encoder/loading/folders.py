"""Model folders: one layout that sentrep, transformers and sentence-transformers all read.

The transformer and its tokenizer lie at the top as transformers wants them. ``sentrep.json`` holds what makes an
encoder of them. ``modules.json`` and its folders describe the same in sentence-transformers' own modules, in the older
layout that all its versions load; where the two differ, ``modules.json`` decides. Where those cannot express the
pooling, the prompt or a module of ours, ``modules.json`` names the one of `sentrep.encoder.exported`, so that
sentence-transformers gives our vectors or none.
"""

from __future__ import annotations

import tempfile
import warnings
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi
from safetensors import SafetensorError
from safetensors.torch import save_file

from sentrep.encoder import adapters
from sentrep.encoder.loading import st_folders
from sentrep.encoder.loading.backbones import architecture
from sentrep.encoder.loading.model_card import CARD, model_card
from sentrep.encoder.loading.model_files import write_json
from sentrep.encoder.loading.settings import MODULES_FILE, SETTINGS_FILE
from sentrep.encoder.loading.weights import check_places
from sentrep.errors import InputError
from sentrep.io.files import atomic_folder, write_text
from sentrep.io.paths import writing
from sentrep.io.strangers import quiet_transformers
from sentrep.version import __version__


def write(encoder: Any, folder: Path) -> None:
    """Write the folder, whole (`atomic_folder`), with adapters merged and without a projection head.

    Args:
        encoder: a `SentenceEncoder`.
        folder: where it goes.

    Raises:
        InputError: the folder cannot be one.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: a file is in the way of the model folder; choose another name")
    settings, modules = encoder.settings, encoder.sentence_modules
    missing = st_folders.missing_for(settings)
    weights = encoder.backbone.state_dict()
    if settings.adapter is not None:
        weights = adapters.merged(weights, settings.adapter)
    if not encoder.runs_own_code:
        check_places(architecture(encoder.backbone), settings.pooling == "pooler", None, weights)
    with writing(folder), atomic_folder(folder) as place, quiet_transformers():
        weights |= {f"pooler.{key}": tensor for key, tensor in encoder.spare_pooler.items()}
        try:
            encoder.backbone.save_pretrained(place, state_dict=weights)
        except SafetensorError as error:  # safetensors' own type for errors of the disk
            raise OSError(f"its weights: {error}") from error
        encoder.tokenize.tokenizer.save_pretrained(place)
        if behind := modules.state_dict():
            save_file({key: tensor.contiguous() for key, tensor in behind.items()}, place / MODULES_FILE)
        write_json(place / SETTINGS_FILE, {"version": __version__, **asdict(replace(settings, adapter=None))})
        if missing is None:
            st_folders.write_modules(settings, modules, encoder.hidden_size, encoder.tokenize.limit, place)
        else:
            st_folders.write_own_module(place)
        st_folders.write_prompts(settings, folder, place)
        write_text(place / CARD, model_card(settings, encoder.embedding_dim, encoder.trained, missing))
        st_folders.remove_graph(folder)
    if missing is not None:
        warnings.warn(
            f"sentence-transformers has no module for {missing}; it loads this model only with "
            "trust_remote_code=True and where sentrep is installed, and refuses it otherwise",
            stacklevel=3,
        )


def push(encoder: Any, repo_id: str, *, private: bool | None, token: str | None) -> str:
    """Upload the folder of `write` to the hub, where the repository is made if there is none."""
    api = HfApi(token=token)
    with tempfile.TemporaryDirectory() as folder:
        write(encoder, Path(folder))
        address = api.create_repo(repo_id, private=private, exist_ok=True)
        api.upload_folder(repo_id=repo_id, folder_path=folder, commit_message="Upload a sentence encoder")
    return str(address)
