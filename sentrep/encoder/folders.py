"""Model folders: one layout that sentrep, transformers and sentence-transformers all read.

The transformer and its tokenizer lie at the top as transformers wants them. ``sentrep.json`` holds what makes an
encoder of them. ``modules.json`` and its folders describe the same in sentence-transformers' own modules, in the older
layout that all its versions load; they are left out when those modules cannot express the pooling or the prompt.
"""

from __future__ import annotations

import json
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from huggingface_hub import HfApi
from safetensors.torch import load_file, save_file
from torch import Tensor

from sentrep.encoder import sources
from sentrep.encoder.heads import ProjectionHead
from sentrep.errors import InputError
from sentrep.version import __version__

if TYPE_CHECKING:
    from sentrep.encoder.encoder import SentenceEncoder

SETTINGS_FILE = "sentrep.json"
HEAD_FILE = "sentrep_head.safetensors"

# our name → key of sentence-transformers' Pooling
_ST_POOLINGS = {
    "cls": "pooling_mode_cls_token",
    "mean": "pooling_mode_mean_tokens",
    "max": "pooling_mode_max_tokens",
    "last": "pooling_mode_lasttoken",
}
_ST_ACTIVATIONS = {"linear": "torch.nn.modules.linear.Identity", "mlp": "torch.nn.modules.activation.Tanh"}
_ST_ORDER = ["Transformer", "Pooling", "Dense", "Normalize"]
_MODEL_CARD = """\
---
library_name: sentence-transformers
tags: [sentence-similarity, sentrep]
pipeline_tag: sentence-similarity
---
# Sentence encoder

Trained without labels by sentrep {version}. Pooling: `{pooling}`. Vectors have {width} dimensions.

```python
from sentrep import SentenceEncoder
vectors = SentenceEncoder.from_pretrained("path/to/this/folder").encode(["A sentence."])
```
"""


def settings(encoder: SentenceEncoder) -> dict[str, Any]:
    """What turns a transformer into this encoder, as plain data."""
    return {
        "pooling": encoder.pooling,
        "prompt": encoder.prompt,
        "subtract_template": encoder.subtract_template,
        "max_length": encoder.max_length,
        "max_seq_length": encoder.max_seq_length,
        "normalize": encoder.normalize,
        "head": None if encoder.head is None else encoder.head.init_args,
    }


def save(encoder: SentenceEncoder, folder: Path) -> None:
    """Write the folder. A head that is for training only stays behind."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: a file is in the way of the model folder; choose another name")
    folder.mkdir(parents=True, exist_ok=True)
    with sources.quiet_transformers():
        encoder.backbone.save_pretrained(folder)
    encoder.tokenize.tokenizer.save_pretrained(folder)
    head = encoder.head if encoder.head is not None and encoder.head.keep else None
    stored = {**settings(encoder), "head": None if head is None else head.init_args}
    if head is not None:
        save_file({k: v.contiguous() for k, v in head.state_dict().items()}, folder / HEAD_FILE)
    _write_json(folder / SETTINGS_FILE, {"version": __version__, **stored})
    if encoder.pooling in _ST_POOLINGS and encoder.prompt is None:
        _write_modules(encoder, head, folder)
    else:
        what = f"pooling '{encoder.pooling}'" if encoder.prompt is None else "a prompt"
        warnings.warn(
            f"{folder}: sentence-transformers has no module for {what}; only sentrep and transformers load the folder",
            stacklevel=3,
        )
    how = f"{encoder.pooling}`, prompt: `{encoder.prompt}" if encoder.prompt else encoder.pooling
    card = _MODEL_CARD.format(version=__version__, pooling=how, width=encoder.embedding_dim)
    (folder / "README.md").write_text(card, encoding="utf-8")


def _write_modules(encoder: SentenceEncoder, head: ProjectionHead | None, folder: Path) -> None:
    """The same encoder in sentence-transformers' words."""
    types = ["Transformer", "Pooling"] + ["Dense"] * (head is not None) + ["Normalize"] * encoder.normalize
    modules = []
    for number, kind in enumerate(types):
        path = "" if kind == "Transformer" else f"{number}_{kind}"
        modules.append(
            {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        )
        if path:
            (folder / path).mkdir(exist_ok=True)
    _write_json(folder / "modules.json", modules)
    limit = encoder.max_seq_length or encoder.tokenize.limit
    _write_json(folder / "sentence_bert_config.json", {"max_seq_length": limit, "do_lower_case": False})
    width = encoder.hidden_size
    modes = {key: name == encoder.pooling for name, key in _ST_POOLINGS.items()}
    _write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": width, **modes})
    if head is not None:
        dense = {"in_features": width, "out_features": head.dense.out_features, "bias": True}
        _write_json(folder / "2_Dense" / "config.json", {**dense, "activation_function": _ST_ACTIVATIONS[head.kind]})
        weights = {f"linear.{k}": v.contiguous() for k, v in head.dense.state_dict().items()}
        save_file(weights, folder / "2_Dense" / "model.safetensors")


def load(cls: type[SentenceEncoder], name: str, overrides: dict[str, Any]) -> SentenceEncoder:
    """The encoder that a checkpoint, a folder or a hub id describes, with ``overrides`` on top."""
    folder = Path(name).expanduser()
    if folder.is_file():
        stored = sources.read_checkpoint(folder)[sources.PAYLOAD_KEY]["settings"]
        stored.pop("head")  # the constructor reads a kept head from the checkpoint itself
        return cls(name, **{**stored, **overrides})
    if not folder.is_dir():
        folder = _download(name, overrides)
    if (folder / SETTINGS_FILE).is_file():
        stored = _read_json(folder / SETTINGS_FILE)
        stored.pop("version", None)
        head = stored.pop("head")
        weights = {} if head is None else load_file(folder / HEAD_FILE)
    elif (folder / "modules.json").is_file():
        stored, head, weights = _read_modules(folder)
    else:
        if "pooling" not in overrides:
            warnings.warn(f"{name}: a plain transformers model, which carries no pooling; taking 'cls'", stacklevel=3)
        stored, head, weights = {}, None, {}
    encoder = cls(str(folder), **{**stored, **overrides})
    if head is not None:
        encoder.attach_head(ProjectionHead(**head))
        assert encoder.head is not None
        encoder.head.load_state_dict(weights)
    return encoder


def restore(encoder: SentenceEncoder, source: sources.Source) -> None:
    """Put a checkpoint's weights into an encoder, with a head that is kept."""
    assert source.state is not None
    head = source.payload["settings"].get("head")
    if head is not None and head["keep"]:
        encoder.attach_head(ProjectionHead(**head))
    wanted = {k: v for k, v in source.state.items() if encoder.head is not None or not k.startswith("head.")}
    missing, unexpected = encoder.load_state_dict(wanted, strict=False)
    # a pooler may be in one of the two only: it belongs to the pooling, which the caller may choose anew
    if wrong := [key for key in (*missing, *unexpected) if not key.startswith("backbone.pooler.")]:
        raise InputError(f"{source.name}: the checkpoint's weights do not fit its architecture, e.g. {wrong[0]}")


def _read_modules(folder: Path) -> tuple[dict[str, Any], dict[str, Any] | None, dict[str, Tensor]]:
    """Settings, head and the head's weights out of a sentence-transformers folder, whichever layout it has."""
    stored: dict[str, Any] = {}
    head: dict[str, Any] | None = None
    weights: dict[str, Tensor] = {}
    modules = [(m["type"].rsplit(".", 1)[1], folder / m.get("path", "")) for m in _read_json(folder / "modules.json")]
    for kind, path in modules:
        if kind == "Transformer":
            config = _read_json(path / "sentence_bert_config.json", missing={})
            if config.get("do_lower_case"):
                raise InputError(f"{folder}: it lower-cases text outside its tokenizer, which is not supported")
            stored["max_seq_length"] = config.get("max_seq_length")
        elif kind == "Pooling":
            stored["pooling"] = _read_pooling(path / "config.json")
        elif kind == "Dense":
            head, weights = _read_dense(path)
        elif kind == "Normalize":
            stored["normalize"] = True
        else:
            raise InputError(f"{folder}: its module '{kind}' has no counterpart in sentrep; load it elsewhere")
    kinds = [kind for kind, _ in modules]
    if kinds != [kind for kind in _ST_ORDER if kind in kinds]:
        raise InputError(f"{folder}: sentrep knows its modules, but only once each and in the order {_ST_ORDER}")
    return stored, head, weights


def _read_pooling(file: Path) -> str:
    config = _read_json(file)
    if "pooling_mode" in config:  # the newer layout names the mode, alone or in a list
        modes = config["pooling_mode"]
        modes = [modes] if isinstance(modes, str) else list(modes)
        names = {"lasttoken": "last"}
        chosen = [names.get(mode, mode) for mode in modes]
    else:
        chosen = [name for name, key in _ST_POOLINGS.items() if config.get(key)]
        chosen += [key for key, on in config.items() if key.startswith("pooling_mode_") and on is True
                   and key not in _ST_POOLINGS.values()]  # fmt: skip
    if len(chosen) != 1 or chosen[0] not in _ST_POOLINGS:
        raise InputError(f"{file}: pooling {' + '.join(map(str, chosen)) or 'none'} has no counterpart in sentrep")
    return chosen[0]


def _read_dense(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """A Dense layer as a head that is kept: its settings and weights."""
    config = _read_json(path / "config.json")
    kinds = {activation.rsplit(".", 1)[1]: kind for kind, activation in _ST_ACTIVATIONS.items()}
    kind = kinds.get(str(config["activation_function"]).rsplit(".", 1)[1])
    target = {config.get(key) for key in ("module_input_name", "module_output_name")}
    if kind is None or config.get("use_residual") or not target <= {None, "sentence_embedding"}:
        raise InputError(f"{path}: this Dense layer has no counterpart in sentrep (sentence vector, linear or tanh)")
    file, older = path / "model.safetensors", path / "pytorch_model.bin"
    stored = load_file(file) if file.is_file() else torch.load(older, map_location="cpu", weights_only=True)
    bias = stored.get("linear.bias", torch.zeros(config["out_features"]))
    head = {"kind": kind, "keep": True, "out_features": config["out_features"]}
    return head, {"dense.weight": stored["linear.weight"], "dense.bias": bias}


def push(encoder: SentenceEncoder, repo_id: str, *, private: bool | None, token: str | None) -> str:
    """Upload the folder of `save` to the hub."""
    api = HfApi(token=token)
    address = api.create_repo(repo_id, private=private, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        save(encoder, Path(folder))
        api.upload_folder(repo_id=repo_id, folder_path=folder, commit_message="Upload a sentence encoder")
    return str(address)


def _download(name: str, overrides: dict[str, Any]) -> Path:
    """The hub's snapshot of a model, as a local folder."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, revision=overrides.pop("revision", None)))
    except (OSError, ValueError) as error:
        raise InputError(sources.not_found(name)) from error


def _write_json(file: Path, content: Any) -> None:
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _read_json(file: Path, missing: Any = None) -> Any:
    if missing is not None and not file.is_file():
        return missing
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: missing or not JSON; the model folder is incomplete") from error
