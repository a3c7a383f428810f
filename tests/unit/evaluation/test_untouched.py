"""The start model as its folder has it, beside which a result is judged."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sentrep import SentenceEncoder
from sentrep.encoder import Normalize
from sentrep.evaluation.untouched import untouched
from support import tiny_encoder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("model") / "mean"
    tiny_encoder(pooling="mean", modules=[Normalize()]).save_pretrained(place)
    return str(place)


def test_a_replaced_pooling_is_named_and_the_start_model_has_its_own(folder: str) -> None:
    encoder = SentenceEncoder(folder, pooling="cls")
    state = torch.get_rng_state()
    found = untouched(encoder)
    assert torch.equal(torch.get_rng_state(), state)
    assert found is not None
    assert (found[0].pooling, found[0].training) == ("mean", False)
    assert found[1] == "its own pooling (mean) by cls"


def test_the_folder_s_settings_in_sentence_transformers_words(folder: str, tmp_path: Path) -> None:
    model = tmp_path / "st"
    SentenceEncoder.from_pretrained(folder).save_pretrained(model)
    found = untouched(SentenceEncoder(str(model), pooling="mask", prompt="[X] means [MASK]."))
    assert found is not None
    assert found[1] == "its own pooling (mean) by mask, prompt (none) by '[X] means [MASK].'"


def test_nothing_is_said_where_nothing_was_replaced(folder: str, tmp_path: Path) -> None:
    assert untouched(SentenceEncoder(folder, pooling="mean")) is None  # lengths 1 change no cosine
    assert untouched(tiny_encoder(pooling="cls")) is None  # random weights
    plain = tmp_path / "plain"
    encoder = SentenceEncoder.from_pretrained(folder)
    encoder.backbone.save_pretrained(plain)
    encoder.tokenize.tokenizer.save_pretrained(plain)
    assert untouched(SentenceEncoder(str(plain), pooling="cls")) is None
