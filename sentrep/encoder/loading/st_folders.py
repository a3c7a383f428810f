"""The modules of a sentence-transformers folder: transformer, pooling, then dense layers and normalisation.

Both layouts are read, and the older one, which all versions load, is written.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import PretrainedConfig

from sentrep.encoder.compute.rows import position_limit
from sentrep.encoder.loading.model_files import one_sentence, read_json, write_json
from sentrep.encoder.loading.settings import LONGEST, MODULES_FILE, SETTINGS_FILE, Settings, read_settings
from sentrep.encoder.modules import Dense, Normalize, described
from sentrep.errors import InputError
from sentrep.io.paths import check_inside, not_there

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
GRAPH_FILE = "onnx/model.onnx"
"""Where in a model folder its graph lies."""


def missing_for(settings: Settings) -> str | None:
    """The part of a model that sentence-transformers' own modules cannot express; None for equal vectors."""
    if settings.prompt is not None:
        return "a prompt"
    if settings.pooling not in POOLINGS:
        return f"pooling '{settings.pooling}'"
    native = {module["class_path"] for module in described([Dense(), Normalize()])}
    others = [module["class_path"] for module in settings.modules if module["class_path"] not in native]
    return others[0].rpartition(".")[2] if others else None


def remove_graph(folder: Path) -> None:
    """Remove the graph of a model whose weights are being replaced: it gives the old weights' vectors."""
    for file in folder.glob(str(Path(GRAPH_FILE).with_suffix(".*"))):
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
        sentence_modules: the built modules after its pooling.
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
    length = _longest(settings, limit)
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": length, "do_lower_case": False})
    modes = {key: name == settings.pooling for name, key in POOLINGS.items()}
    pooled = {"word_embedding_dimension": width, **modes, "include_prompt": settings.include_prompt}
    write_json(folder / "1_Pooling" / "config.json", pooled)
    for number, module in enumerate(behind, 2):
        if isinstance(module, Dense):
            place = folder / f"{number}_Dense"
            sizes = {"in_features": module.dense.in_features, "out_features": module.out_features, "bias": True}
            write_json(place / "config.json", {**sizes, "activation_function": _ST_ACTIVATIONS[module.activation]})
            weights = {f"linear.{key}": tensor.contiguous() for key, tensor in module.dense.state_dict().items()}
            save_file(weights, place / "model.safetensors")


def write_prompts(settings: Settings, former: Path, folder: Path) -> None:
    """Prompts by name, and which of them `encode` takes.

    What else ``former``, the folder that will be replaced, says in this file stays: when sentence-transformers saves a
    module of ours, it has written the file before.
    """
    stored = read_json(former / PROMPTS_FILE) if (former / PROMPTS_FILE).is_file() else {}
    prompts = _both_names(settings.prompts)
    names = ("default_prompt_name", "similarity_fn_name", "truncate_dim")
    write_json(
        folder / PROMPTS_FILE, {**stored, "prompts": prompts, **{name: getattr(settings, name) for name in names}}
    )


def _both_names(prompts: dict[str, str]) -> dict[str, str]:
    """The prompt of documents under both of its names: an empty ``document`` hides a ``passage``."""
    document = next((prompts[name] for name in ("document", "passage", "corpus") if prompts.get(name)), "")
    return {**prompts, "document": document}


def read_prompts(folder: Path) -> tuple[dict[str, str], str | None]:
    """Prompts by name, without the empty ones, and the name of the one that `encode` takes."""
    stored = read_json(folder / PROMPTS_FILE) if (folder / PROMPTS_FILE).is_file() else {}
    prompts, default = stored.get("prompts") or {}, stored.get("default_prompt_name")
    if not isinstance(prompts, dict):
        return prompts, default  # which `Settings` refuses
    return {name: text for name, text in prompts.items() if text}, None if prompts.get(default) == "" else default


def _read_vectors(folder: Path) -> dict[str, Any]:
    """What else sentence-transformers' settings say of the vectors: their similarity and their width."""
    stored = read_json(folder / PROMPTS_FILE) if (folder / PROMPTS_FILE).is_file() else {}
    return {
        "similarity_fn_name": stored.get("similarity_fn_name") or "cosine",
        "truncate_dim": stored.get("truncate_dim"),
    }


def read_folder(folder: Path, config: PretrainedConfig) -> tuple[Settings | None, dict[str, Tensor]]:
    """What makes an encoder of the transformer in a folder, and the weights of its modules.

    ``modules.json`` and its folders decide, in either layout. Where ``sentrep.json`` differs, a warning says so.

    Args:
        folder: of a model.
        config: of its transformer.

    Returns:
        None for the settings of a folder that is transformers' alone.

    Raises:
        InputError: for modules, or a pooling, that sentrep does not have.
    """
    own = read_settings(folder) if (folder / SETTINGS_FILE).is_file() else None
    if not (folder / "modules.json").is_file():
        return own, _own_weights(folder)
    modules = listed_modules(folder)
    kinds = [kind for kind, _ in modules]
    exported = kinds[0] == OWN_MODULE.rpartition(".")[2]
    before = 1 if exported else 2
    behind = modules[before:]
    if not (exported or kinds[:2] == ["Transformer", "Pooling"]) or {*kinds[before:]} - {"Dense", "Normalize"}:
        raise InputError(
            f"{folder / 'modules.json'}: its modules are {', '.join(kinds)[:200]}, and sentrep knows them only as "
            "Transformer, Pooling, then Dense, Normalize; save the model so, or load it elsewhere"
        )
    stored: dict[str, Any]
    if exported:
        own, weights = read_settings(folder), _own_weights(folder)
        stored = asdict(own)
    else:
        (_, transformer), (_, pooling) = modules[:2]
        stored, weights = {"pooling": read_pooling(pooling / "config.json"), "modules": []}, {}
        stored["max_seq_length"] = _read_length(transformer)
        stored["include_prompt"] = read_json(pooling / "config.json").get("include_prompt", True)
    added = [_read_dense(path) if kind == "Dense" else (Normalize(), {}) for kind, path in behind]
    for place, (_, found) in enumerate(added, len(stored["modules"])):
        weights |= {f"{place}.{key}": tensor for key, tensor in found.items()}
    stored["modules"] = [*stored["modules"], *described(module for module, _ in added)]
    stored["prompts"], stored["default_prompt_name"] = read_prompts(folder)
    stored |= _read_vectors(folder)
    theirs = Settings.read(stored, folder)
    if own is None:
        return theirs, weights
    return _agreed(replace(own, modules=theirs.modules) if exported else own, theirs, folder, config), weights


def _own_weights(folder: Path) -> dict[str, Tensor]:
    file = folder / MODULES_FILE
    return tensors(file) if file.is_file() else {}


def _agreed(own: Settings, theirs: Settings, folder: Path, config: PretrainedConfig) -> Settings:
    """Our settings, but sentence-transformers' wherever its files say something else."""
    mine, found = _common(own, config), _common(theirs, config)
    if changed := [name for name in found if mine[name] != found[name]]:
        says, decides = (", ".join(f"{name} {values[name]!r}" for name in changed) for values in (mine, found))
        warnings.warn(
            f"{folder}: {SETTINGS_FILE} says {says}; the files of sentence-transformers say {decides}, and decide",
            stacklevel=2,
        )
    return replace(own, **{name: getattr(theirs, name) for name in changed})


def _common(settings: Settings, config: PretrainedConfig) -> dict[str, Any]:
    """The settings that sentence-transformers' files can hold; equal settings mean the same model."""
    width, modules = config.hidden_size, []
    for module in settings.modules:
        width = module["init_args"].get("out_features") or width
        modules.append(f"{module['class_path']}({module['init_args'] | {'out_features': width}})")
    return {
        "pooling": settings.pooling,
        "prompt": settings.prompt,
        "modules": modules,
        "max_seq_length": _longest(settings, position_limit(config)),
        "prompts": {name: text for name, text in _both_names(settings.prompts).items() if text},
        "default_prompt_name": settings.default_prompt_name,
        "similarity_fn_name": settings.similarity_fn_name,
        "truncate_dim": settings.truncate_dim,
        "include_prompt": settings.include_prompt,
    }


def _longest(settings: Settings, limit: int | None) -> int:
    """Tokens of the longest sequence; without a number sentence-transformers takes the tokenizer's, not ours."""
    return min(length for length in (settings.max_seq_length, limit, _UNLIMITED) if length is not None)


def _read_length(transformer: Path) -> int | None:
    """Tokens of the longest sequence as sentence-transformers finds it; None: as many as the model reads."""
    file = min(transformer.glob("sentence_*_config.json"), default=None)
    config = {} if file is None else read_json(file)
    if config.get("do_lower_case"):
        raise InputError(f"{file}: it lower-cases text outside its tokenizer, which is not supported")
    length, tokenizer = config.get("max_seq_length"), transformer / "tokenizer_config.json"
    if length is None and tokenizer.is_file():  # where newer versions write it
        length = read_json(tokenizer).get("model_max_length")
    return None if isinstance(length, (int, float)) and length > LONGEST else length


def read_pooling(file: Path) -> str:
    """The pooling that the file of a ``Pooling`` module names.

    Raises:
        InputError: for a mode, or several modes, that sentrep does not have.
    """
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
    """Where in a sentence-transformers folder (of either layout) the transformer lies.

    Raises:
        InputError: see `listed_modules`; or there is no such folder.
    """
    place = folder if not (folder / "modules.json").is_file() else listed_modules(folder)[0][1]
    if not place.is_dir():
        raise not_there(place, "folder, which modules.json names")
    return place


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
        check_inside(inner, file)
        found.append((kind.rsplit(".", 1)[-1], folder / inner))
    if not found:
        raise InputError(f"{file}: no module in it; the model folder is damaged")
    return found


def tensors(file: Path) -> dict[str, Tensor]:
    """Weights of a safetensors file, or of an older one of PyTorch, which runs no code."""
    with one_sentence(f"{file}: the weights are missing or damaged", reason=False):
        return dict(load_file(file) if file.suffix == ".safetensors" else torch.load(file, "cpu", weights_only=True))
