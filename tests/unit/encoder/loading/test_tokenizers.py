"""A tokenizer that does not fit its model is found when the model is loaded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers.processors import TemplateProcessing
from transformers import AutoModel, AutoTokenizer

from sentrep import InputError, SentenceEncoder
from sentrep.data import toy
from support import FAMILIES, tiny_encoder


def test_added_tokens_need_embeddings(tmp_path: Path) -> None:
    small = {**FAMILIES["bert"], "vocab_size": len(toy.tokenizer())}
    SentenceEncoder(small, tokenizer="toy").save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    tokenizer.add_tokens(["kubernetes"])
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(InputError, match=r"gives 'kubernetes' the id 2110, .* 2,110 word embeddings; .*resize_token"):
        SentenceEncoder.from_pretrained(tmp_path)
    model = AutoModel.from_pretrained(tmp_path)
    model.resize_token_embeddings(len(tokenizer))
    model.save_pretrained(tmp_path)
    encoder = SentenceEncoder.from_pretrained(tmp_path)
    assert encoder.tokenize(["kubernetes"], None)[0][0][1] == 2110


def test_types_of_tokens_are_refused_where_the_model_reads_them(tmp_path: Path) -> None:
    tiny_encoder().backbone.save_pretrained(tmp_path)
    tokenizer = toy.tokenizer()
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="[CLS]:2 $A:0 [SEP]:0", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save_pretrained(tmp_path)
    file = tmp_path / "tokenizer_config.json"
    names = ["input_ids", "token_type_ids", "attention_mask"]
    file.write_text(json.dumps({**json.loads(file.read_text()), "model_input_names": names}))
    with pytest.raises(InputError, match="another type than 0"):
        SentenceEncoder(str(tmp_path))
    SentenceEncoder(dict(FAMILIES["distilbert"]), tokenizer=str(tmp_path))  # it reads no types
