"""Kinds of folders and families, small and random, give the vectors of sentence-transformers, and when saved, too."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import peft
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from transformers import AutoConfig, AutoModel, AutoModelForTextEncoding

from sentrep import InputError, SentenceEncoder
from sentrep.data import toy
from support import FAMILIES, text_batch, toy_sentences

PROMPTS = {"query": "query: the dog ", "document": "passage: "}
T5: dict[str, Any] = {
    "model_type": "t5", "vocab_size": 4000, "d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 2, "num_heads": 2,
    "pad_token_id": 0,
}  # fmt: skip


def plain(folder: Path, configuration: dict[str, Any], whole: bool = False) -> Transformer:
    """A transformer with random weights and the toy tokenizer, also in ``folder/plain``; of a T5 the encoder or all."""
    torch.manual_seed(0)
    configuration = dict(configuration)
    config = AutoConfig.for_model(configuration.pop("model_type"), **configuration)
    family: Any = AutoModelForTextEncoding if config.model_type == "t5" and not whole else AutoModel
    place = folder / "plain"
    family.from_config(config).save_pretrained(place)
    toy.tokenizer().save_pretrained(place)
    return Transformer(str(place), max_seq_length=24)


def saved(
    folder: Path, family: dict[str, Any], modes: Any = "mean", behind: Any = (), include_prompt: bool = True, **how: Any
) -> Path:
    """A folder that sentence-transformers has saved."""
    transformer = plain(folder, family)
    width = transformer.get_embedding_dimension()
    pooling = Pooling(width, modes, include_prompt=include_prompt)
    model = SentenceTransformer(modules=[transformer, pooling, *behind], device="cpu", **how)
    model.save_pretrained(str(folder / "model"))
    return folder / "model"


def with_prompt_left_out(folder: Path) -> Path:
    return saved(folder, FAMILIES["bert"], include_prompt=False, prompts=PROMPTS)


def truncated_at_the_left(folder: Path) -> Path:
    place = saved(folder, FAMILIES["bert"])
    file = place / "tokenizer_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "truncation_side": "left"}))
    return place


def with_adapters(folder: Path) -> Path:
    place = saved(folder, FAMILIES["bert"])
    model = SentenceTransformer(str(place), device="cpu")
    model.add_adapter(peft.LoraConfig(r=2, target_modules=["query", "value"], init_lora_weights=False))
    model.save_pretrained(str(folder / "adapted"))
    return folder / "adapted"


KINDS: dict[str, Callable[[Path], Path]] = {
    "minilm": lambda folder: saved(folder, FAMILIES["bert"], behind=[Normalize()]),
    "mpnet": lambda folder: saved(folder, FAMILIES["mpnet"], behind=[Normalize()]),
    "e5": lambda folder: saved(folder, FAMILIES["bert"], prompts=PROMPTS, default_prompt_name="query"),
    "prompt left out": with_prompt_left_out,
    "dot": lambda folder: saved(folder, FAMILIES["distilbert"], "cls", similarity_fn_name="dot"),
    "matryoshka": lambda folder: saved(folder, FAMILIES["bert"], behind=[Normalize()], truncate_dim=8),
    "dense": lambda folder: saved(folder, FAMILIES["bert"], behind=[Dense(32, 12), Normalize()]),
    "two poolings": lambda folder: saved(folder, FAMILIES["bert"], ("cls", "mean")),
    "left": truncated_at_the_left,
    "modernbert": lambda folder: saved(folder, FAMILIES["modernbert"], "cls"),
    "t5": lambda folder: saved(folder, T5, behind=[Normalize()]),
    "lora": with_adapters,
}


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_and_similarities_are_those_of_sentence_transformers(kind: str, tmp_path: Path) -> None:
    folder = KINDS[kind](tmp_path)
    sentences = [*toy_sentences(6), " ".join(toy_sentences(8)), ""]
    truth = SentenceTransformer(str(folder), device="cpu")
    ours = SentenceEncoder.from_pretrained(folder)
    ours.save_pretrained(tmp_path / "again")
    after = SentenceTransformer(str(tmp_path / "again"), device="cpu")
    after.save_pretrained(str(tmp_path / "back"))
    models: list[Any] = [ours, after, SentenceEncoder.from_pretrained(tmp_path / "back")]
    for model in models:
        for name in ("encode", "encode_query", "encode_document"):
            expected = getattr(truth, name)(sentences)
            np.testing.assert_allclose(getattr(model, name)(sentences), expected, atol=1e-6)
        vectors = truth.encode(sentences)
        torch.testing.assert_close(model.similarity(vectors, vectors), truth.similarity(vectors, vectors))
    assert ours.truncate_dim == truth.truncate_dim
    assert ours.max_seq_length == truth.max_seq_length


OTHERS: dict[str, dict[str, Any]] = {
    "nomic-bert": {**FAMILIES["bert"], "model_type": "nomic_bert"},
    "layoutlm": {**FAMILIES["bert"], "model_type": "layoutlm"},
    "the encoder of a T5": T5,
    "a whole T5": T5,
}
"""Families that need something of their own."""


@pytest.mark.parametrize("name", OTHERS)
def test_a_family_loads_trains_and_encodes_as_elsewhere(name: str, tmp_path: Path) -> None:
    plain(tmp_path, OTHERS[name], whole=name == "a whole T5")
    encoder = SentenceEncoder(str(tmp_path / "plain"), pooling="mean")
    output = encoder(text_batch(encoder, toy_sentences(4)).anchor)
    output.embedding.square().sum().backward()
    assert all(parameter.grad is not None for parameter in encoder.parameters() if parameter.requires_grad)
    vectors = encoder.encode(toy_sentences(4))
    encoder.save_pretrained(tmp_path / "saved")
    theirs = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    for loaded in (SentenceEncoder.from_pretrained(tmp_path / "saved"), theirs):
        np.testing.assert_allclose(loaded.encode(toy_sentences(4)), vectors, atol=1e-6)


def test_the_pooler_of_a_nomic_bert_is_loaded(tmp_path: Path) -> None:
    encoder = SentenceEncoder(dict(OTHERS["nomic-bert"]), tokenizer="toy", pooling="pooler")
    with pytest.warns(UserWarning, match="refuses it otherwise"):
        encoder.save_pretrained(tmp_path)
    np.testing.assert_array_equal(SentenceEncoder.from_pretrained(tmp_path).encode("a dog"), encoder.encode("a dog"))


def test_an_encoder_decoder_without_an_encoder_of_its_own_is_refused() -> None:
    with pytest.raises(InputError, match="bart is an encoder-decoder model"):
        SentenceEncoder({"model_type": "bart"}, tokenizer="toy")
