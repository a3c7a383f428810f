"""The translator against transformers itself, sentence by sentence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from marian import save_tiny_marian
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, T5Config, T5ForConditionalGeneration

from sentrep.data import toy
from sentrep.data.augmentation.translation import TOO_LONG, UNFINISHED, Translator

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")


@pytest.fixture(scope="module")
def marian(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny_marian(tmp_path_factory.mktemp("models") / "marian", seed=0)


@pytest.fixture(scope="module")
def sentences() -> list[str]:
    return toy.sentences(12)


@pytest.mark.parametrize("beams", [1, 3])
def test_a_batch_is_translated_like_its_sentences_alone(marian: str, sentences: list[str], beams: int) -> None:
    translations = Translator(marian, beams)(sentences)
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(marian), AutoTokenizer.from_pretrained(marian)
    longest = max(len(tokenizer(sentence)["input_ids"]) for sentence in sentences)
    room = min(2 * longest + 16, 63)
    model.generation_config.max_length = None
    seen = set()
    for sentence, translated in zip(sentences, translations, strict=True):
        inputs = tokenizer(sentence, return_tensors="pt")
        ids = model.generate(**inputs, num_beams=beams, do_sample=False, max_new_tokens=room)[0]
        assert translated.text == tokenizer.decode(ids, skip_special_tokens=True).strip()
        assert (translated.problem == UNFINISHED) == (len(ids) - 1 == room)
        seen.add(translated)
    assert len(seen) > 3
    assert {translated.problem for translated in seen} == {None, UNFINISHED}


def test_long_sources_are_left_out_not_cut(marian: str, sentences: list[str]) -> None:
    long = " ".join(sentences * 5)  # above the 64 positions of the model
    results = Translator(marian)([sentences[0], long, sentences[1]])
    assert [result.problem == TOO_LONG for result in results] == [False, True, False]
    assert results[1].text == ""
    assert results[0] == Translator(marian)(sentences[:2])[0]
    assert {result.problem for result in Translator(marian, max_tokens=3)(sentences)} == {TOO_LONG}


def test_prefix_comes_before_every_sentence(marian: str, sentences: list[str]) -> None:
    prefixed = Translator(marian, prefix="at noon")(sentences)
    assert prefixed == Translator(marian)([f"at noon {sentence}" for sentence in sentences])
    assert prefixed != Translator(marian)(sentences)


def test_other_sequence_to_sequence_models_work(tmp_path: Path, sentences: list[str]) -> None:
    """T5, with the toy's tokenizer, no sentencepiece in sight."""
    tokenizer = toy.tokenizer()
    tokenizer.save_pretrained(tmp_path)
    special = {"pad_token_id": 0, "eos_token_id": 3, "decoder_start_token_id": 0}
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2, "vocab_size": 4000}
    T5ForConditionalGeneration(T5Config(**sizes, **special)).save_pretrained(tmp_path)
    assert len(Translator(str(tmp_path), beams=2)(sentences)) == len(sentences)


def test_the_fingerprint_is_that_of_the_weights_and_of_the_settings(marian: str, tmp_path: Path) -> None:
    shutil.copytree(marian, tmp_path / "moved")
    other = save_tiny_marian(tmp_path / "other", seed=1)
    assert Translator(marian).fingerprint == Translator(str(tmp_path / "moved")).fingerprint
    assert Translator(marian).fingerprint != Translator(other).fingerprint
    for file, change in (("config.json", {"decoder_attention_heads": 1}), ("generation_config.json", {"top_k": 3})):
        changed = Path(shutil.copytree(marian, tmp_path / file)) / file
        changed.write_text(json.dumps({**json.loads(changed.read_text()), **change}))
        assert Translator(marian).fingerprint != Translator(str(changed.parent)).fingerprint
