"""From an encoder to a folder of sentence-transformers, whole or its small files alone."""

from __future__ import annotations

import copy
import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from sentrep.encoder import adapters
from sentrep.encoder.adapters import Lora
from sentrep.encoder.st_modules import OwnModule, PromptedTransformer
from sentrep.io.checkpoint_file import PAYLOAD_KEY, below
from sentrep.io.configurations import quiet_transformers
from sentrep.io.files import atomic_folder
from sentrep.io.paths import check_inside, writing

GRAPH_FILE = "onnx/model.onnx"
"""Where in a model folder its graph lies."""
_WEIGHTS = (".safetensors", ".bin", ".index.json")


def write(model: SentenceTransformer, folder: Path) -> None:
    """Write the folder, whole (`atomic_folder`), with adapters merged.

    Raises:
        InputError: the folder cannot be one.
    """
    with writing(folder), atomic_folder(folder) as place, quiet_transformers():
        merged(model).save_pretrained(str(place))
        remove_graph(folder)
    if (missing := missing_for(model)) is not None:
        warnings.warn(
            f"sentence-transformers has no module for {missing}; it loads this model only with "
            "trust_remote_code=True and where sentrep is installed, and refuses it otherwise",
            stacklevel=3,
        )


def missing_for(model: SentenceTransformer) -> str | None:
    """The part of a model that sentence-transformers' own modules cannot express."""
    for module in model.children():
        if isinstance(module, PromptedTransformer):
            return f"pooling '{module.pooling}'" if module.prompt is None else "a prompt"
        if isinstance(module, OwnModule):
            return type(module.module).__name__
    return None


def merged(model: SentenceTransformer) -> SentenceTransformer:
    """The model with its low-rank adapters in the weights; the model itself where it has none."""
    if not any(_is_adapted(module) for module in model.modules()):
        return model
    model = copy.deepcopy(model)
    merge(model)
    return model


def merge(model: nn.Module) -> None:
    """Put low-rank adapters into the weights beside them, in place."""
    places: list[tuple[nn.Module, str, Any]] = [
        (parent, name, module)
        for parent in model.modules()
        for name, module in parent.named_children()
        if _is_adapted(module)
    ]
    for _, _, layer in places:
        layer.merge()
    for parent, name, layer in places:
        setattr(parent, name, layer.get_base_layer())


def _is_adapted(module: nn.Module) -> bool:
    """Whether it is a layer of peft around another one."""
    return hasattr(module, "get_base_layer")


def write_checkpoint(checkpoint: dict[str, Any], folder: Path, name: str) -> None:
    """Write the model folder of a checkpoint of this name: its small files, and its weights, with adapters merged.

    Raises:
        InputError: a file leads out of the folder.
    """
    payload, state = checkpoint[PAYLOAD_KEY], below("encoder.", checkpoint["state_dict"])
    for file, text in payload["files"].items():
        check_inside(file, name)
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text, encoding="utf-8")
    backbone = below("backbone.", state)
    if payload["training"].get("adapter") is not None:
        backbone = adapters.merged(backbone, Lora(**payload["training"]["adapter"]))
    save_weights(backbone, folder)
    listed = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    behind = [module for module in listed if not is_before(module["type"])]
    for number, module in enumerate(behind):
        weights = below(f"sentence_modules.{number}.", state)
        before, after = ("dense.", "linear.") if module["type"].endswith(".Dense") else ("", "module.")
        save_weights({after + name.removeprefix(before): x for name, x in weights.items()}, folder / module["path"])


def is_before(kind: str) -> bool:
    """Whether a class of ``modules.json`` is a transformer or a pooling."""
    return kind.endswith(("Transformer", ".Pooling"))


def save_weights(weights: dict[str, Tensor], folder: Path) -> None:
    """Write the file of weights of a folder."""
    if weights:
        distinct = {name: tensor.clone().contiguous() for name, tensor in weights.items()}
        save_file(distinct, folder / "model.safetensors", {"format": "pt"})


def small_files(model: SentenceTransformer) -> dict[str, str]:
    """The text of every file of the folder but weights and model card, by its path in the folder."""
    one = {id(tensor): nn.Parameter(torch.zeros(1)) for tensor in model.parameters()}
    with tempfile.TemporaryDirectory() as folder, quiet_transformers():
        hollow = copy.deepcopy(model, one)  # of weights with one number
        merge(hollow)
        hollow.save_pretrained(folder, create_model_card=False)
        config: Any = hollow.config
        config.save_pretrained(folder)  # which the line before writes in the first process alone
        files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
        return {
            path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
            for path in files
            if not path.name.endswith(_WEIGHTS)
        }


def remove_graph(folder: Path) -> None:
    """Remove the graph of a model whose weights are being replaced: it gives the old weights' vectors."""
    for file in folder.glob(str(Path(GRAPH_FILE).with_suffix(".*"))):
        file.unlink()
