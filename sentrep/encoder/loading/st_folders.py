"""The modules of a sentence-transformers folder: transformer, pooling, then dense layers and normalisation.

Both layouts are read, and the older one, which all versions load, is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from sentrep.encoder.loading.model_files import one_sentence, read_json, write_json
from sentrep.encoder.loading.settings import Settings
from sentrep.encoder.modules import Dense, Normalize, described
from sentrep.errors import InputError

# our name → key of sentence-transformers' Pooling
POOLINGS = {
    "cls": "pooling_mode_cls_token",
    "mean": "pooling_mode_mean_tokens",
    "max": "pooling_mode_max_tokens",
    "last": "pooling_mode_lasttoken",
}
_ST_ACTIVATIONS = {"identity": "torch.nn.modules.linear.Identity", "tanh": "torch.nn.modules.activation.Tanh"}
_UNLIMITED = 1 << 30


OWN_MODULE = "sentrep.encoder.exported.SentenceEncoderModule"
PROMPTS_FILE = "config_sentence_transformers.json"
GRAPH_FILES: dict[str, str] = {"onnx": "onnx/model.onnx", "openvino": "openvino/openvino_model.xml"}
"""Where in a model folder the graph of a backend lies."""


def missing_for(settings: Settings) -> str | None:
    """What of a model sentence-transformers' own modules cannot express; None where they give the same vectors."""
    if settings.prompt is not None:
        return "a prompt"
    if settings.pooling not in POOLINGS:
        return f"pooling '{settings.pooling}'"
    native = {module["class_path"] for module in described([Dense(), Normalize()])}
    others = [module["class_path"] for module in settings.modules if module["class_path"] not in native]
    return others[0].rpartition(".")[2] if others else None


def remove_graphs(folder: Path) -> None:
    """Remove the graphs of a model whose weights are being replaced: they would go on giving its vectors."""
    for name in GRAPH_FILES.values():
        for file in (folder / name).parent.glob(f"{Path(name).stem}.*"):
            file.unlink()


def write_own_module(folder: Path) -> None:
    """Name the module that holds the whole encoder, which runs with sentrep alone."""
    write_json(folder / "modules.json", [{"idx": 0, "name": "0", "path": "", "type": OWN_MODULE}])


def write_modules(
    settings: Settings, sentence_modules: Iterable[nn.Module], width: int, limit: int | None, folder: Path
) -> None:
    """Write the same model in sentence-transformers' words.

    Args:
        settings: of the model.
        sentence_modules: what follows its pooling, built.
        width: H, of its token states.
        limit: longest sequence that it reads, None for any.
        folder: where the files go.
    """
    behind = list(sentence_modules)
    kinds = ["Transformer", "Pooling", *(type(module).__name__ for module in behind)]
    paths = ["", *(f"{number}_{kind}" for number, kind in enumerate(kinds[1:], 1))]
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (kind, path) in enumerate(zip(kinds, paths, strict=True))
    ]
    for path in paths:
        (folder / path).mkdir(exist_ok=True)
    write_json(folder / "modules.json", modules)
    # without a limit they would take the tokenizer's, which is not ours
    longest = min((n for n in (settings.max_seq_length, limit) if n is not None), default=_UNLIMITED)
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": longest, "do_lower_case": False})
    modes = {key: name == settings.pooling for name, key in POOLINGS.items()}
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": width, **modes})
    for number, module in enumerate(behind, 2):
        if isinstance(module, Dense):
            place = folder / f"{number}_Dense"
            sizes = {"in_features": module.dense.in_features, "out_features": module.out_features, "bias": True}
            write_json(place / "config.json", {**sizes, "activation_function": _ST_ACTIVATIONS[module.activation]})
            weights = {f"linear.{key}": tensor.contiguous() for key, tensor in module.dense.state_dict().items()}
            save_file(weights, place / "model.safetensors")


def write_prompts(prompts: dict[str, str], former: Path, folder: Path) -> None:
    """Prompts by name; what stands before documents by both names: an empty ``document`` there hides a ``passage``.

    What else ``former``, the folder that will be replaced, says in this file stays: when sentence-transformers saves a
    module of ours, it has written the file before.
    """
    stored = read_json(former / PROMPTS_FILE) if (former / PROMPTS_FILE).is_file() else {}
    document = next((prompts[name] for name in ("document", "passage", "corpus") if prompts.get(name)), "")
    stored |= {"prompts": {**prompts, "document": document}, "default_prompt_name": None}
    write_json(folder / PROMPTS_FILE, stored)


def read_modules(folder: Path) -> tuple[Settings, dict[str, Tensor]]:
    """Settings, and the weights of the modules, out of a sentence-transformers folder, whichever layout it has."""
    (first, transformer), *behind = listed_modules(folder)
    stored: dict[str, Any] = {}
    if behind and behind[0][0] == "Pooling":
        stored["pooling"] = _read_pooling(behind.pop(0)[1] / "config.json")
    others = [first] if first != "Transformer" else [kind for kind, _ in behind if kind not in ("Dense", "Normalize")]
    if others:
        raise InputError(
            f"{folder}: its module '{others[0]}' has no counterpart in sentrep, which knows modules only as "
            "Transformer, Pooling, then Dense, Normalize; load it elsewhere"
        )
    file = transformer / "sentence_bert_config.json"
    config = read_json(file) if file.is_file() else {}
    if config.get("do_lower_case"):
        raise InputError(f"{folder}: it lower-cases text outside its tokenizer, which is not supported")
    stored["max_seq_length"] = config.get("max_seq_length")
    read = [_read_dense(path) if kind == "Dense" else (Normalize(), {}) for kind, path in behind]
    weights = {f"{place}.{key}": tensor for place, (_, found) in enumerate(read) for key, tensor in found.items()}
    file = folder / PROMPTS_FILE
    prompts = (read_json(file).get("prompts") if file.is_file() else None) or {}
    if isinstance(prompts, dict):
        prompts = {name: text for name, text in prompts.items() if text}  # empty ones say nothing
    modules = described(module for module, _ in read)
    return Settings.read({**stored, "prompts": prompts, "modules": modules}, folder), weights


def _read_pooling(file: Path) -> str:
    config = read_json(file)
    if "pooling_mode" in config:  # the newer layout names the mode, alone or in a list
        modes = config["pooling_mode"]
        modes = modes if isinstance(modes, list) else [modes]
    else:
        modes = [
            key.removeprefix("pooling_mode_") for key, on in config.items() if key.startswith("pooling_mode_") and on
        ]
    chosen = [name for name, key in POOLINGS.items() if modes in ([name], [key.removeprefix("pooling_mode_")])]
    if not chosen:
        raise InputError(f"{file}: pooling {' + '.join(map(str, modes)) or 'none'} has no counterpart in sentrep")
    return chosen[0]


def _read_dense(path: Path) -> tuple[Dense, dict[str, Tensor]]:
    """A Dense layer as a module of ours, not built yet, and its weights."""
    config = read_json(path / "config.json")
    kind: Any = str(config.get("activation_function")).rpartition(".")[2].lower()
    target = {str(config.get(key, "sentence_embedding")) for key in ("module_input_name", "module_output_name")}
    width = config.get("out_features")
    foreign = kind not in _ST_ACTIVATIONS or config.get("use_residual") or target != {"sentence_embedding"}
    if foreign or not isinstance(width, int):
        raise InputError(f"{path}: this Dense layer has no counterpart in sentrep (sentence vector, linear or tanh)")
    file, older = path / "model.safetensors", path / "pytorch_model.bin"
    stored = tensors(file if file.is_file() or not older.is_file() else older)
    stored.setdefault("linear.bias", torch.zeros(width))
    return Dense(kind, width), {key.replace("linear.", "dense."): tensor for key, tensor in stored.items()}


def transformer_folder(folder: Path) -> Path:
    """Where in a sentence-transformers folder (of either layout) the transformer lies."""
    return folder if not (folder / "modules.json").is_file() else listed_modules(folder)[0][1]


def listed_modules(folder: Path) -> list[tuple[str, Path]]:
    """Kind and place of each module of a sentence-transformers folder.

    Raises:
        InputError: for a list of modules that is damaged, or leads out of the folder.
    """
    file = folder / "modules.json"
    found = []
    for module in read_json(file, list):
        kind, inner = (module.get("type"), module.get("path", "")) if isinstance(module, dict) else (None, None)
        if not isinstance(kind, str) or not isinstance(inner, str):
            raise InputError(f"{file}: expected a type and a path for every module; the model folder is damaged")
        if Path(inner).is_absolute() or ".." in Path(inner).parts or "\0" in inner:
            raise InputError(f"{file}: the path {inner!r} leads out of the model folder; do not use this model")
        found.append((kind.rsplit(".", 1)[-1], folder / inner))
    if not found:
        raise InputError(f"{file}: no module in it; the model folder is damaged")
    return found


def tensors(file: Path) -> dict[str, Tensor]:
    """Weights of a safetensors file, or of an older one of PyTorch, which runs no code."""
    with one_sentence(f"{file}: the weights are missing or damaged", reason=False):
        return dict(load_file(file) if file.suffix == ".safetensors" else torch.load(file, "cpu", weights_only=True))
