"""The tokenizer that belongs to an encoder's source: a folder's, the hub's, or the one inside a checkpoint."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from sentrep.encoder.loading.model_files import one_sentence
from sentrep.encoder.loading.sources import Source, find
from sentrep.errors import InputError
from sentrep.io.strangers import read_tokenizer


def load_tokenizer(source: Source, tokenizer: str | None) -> PreTrainedTokenizerBase:
    """The source's tokenizer, or the one that ``tokenizer`` names (a folder, a hub id, or ``toy``)."""
    if tokenizer == "toy" and not Path(tokenizer).is_dir():
        from sentrep.data import toy

        return toy.tokenizer()
    if tokenizer is None and source.payload:
        return stored_tokenizer(source.name, source.payload["tokenizer"])
    if tokenizer is None and source.path is None:
        raise InputError("a backbone given as a configuration has no tokenizer; name one with `tokenizer:`")
    name, hub = source.path or "", source.hub
    if tokenizer is not None:
        name, hub = str(find(tokenizer, weights=False, what="tokenizer")), {**hub, "local_files_only": True}
    with one_sentence(f"{name}: this folder holds no tokenizer that transformers can load"):
        loaded = read_tokenizer(name, hub, source.config if tokenizer is None else None)
    if not _has_vocabulary(loaded, Path(name)):
        raise InputError(f"{name}: no tokenizer in this folder; copy tokenizer.json into it, or name one (`tokenizer`)")
    return loaded


def _has_vocabulary(tokenizer: PreTrainedTokenizerBase, folder: Path) -> bool:
    """Whether a file is there that such a tokenizer is read from: without, transformers makes an empty one."""
    files = {"tokenizer.json", "tokenizer.model", *tokenizer.vocab_files_names.values()} - {"tokenizer_config.json"}
    return any((folder / file).is_file() for file in files)


def stored_tokenizer(source: str, files: dict[str, str]) -> PreTrainedTokenizerBase:
    """The tokenizer whose files a checkpoint holds; none of them gets out of the folder that they are put into."""
    for name, text in files.items():
        if not isinstance(text, str) or name in ("", ".", "..") or re.search(r"[/\\\0]", str(name)):
            raise InputError(f"{source}: the tokenizer's file {str(name)[:80]!r} is no plain file; do not use it")
    with tempfile.TemporaryDirectory() as folder, one_sentence(f"{source}: its tokenizer cannot be loaded"):
        for name, text in files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        try:
            return read_tokenizer(folder, {"local_files_only": True, "trust_remote_code": False})
        except InputError as error:
            raise InputError(str(error).replace(folder, source)) from error


def tokenizer_files(tokenizer: PreTrainedTokenizerBase) -> dict[str, str]:
    """The text files that a tokenizer saves, by name: enough to load it anywhere."""
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        return {path.name: path.read_text(encoding="utf-8") for path in sorted(Path(folder).iterdir())}
