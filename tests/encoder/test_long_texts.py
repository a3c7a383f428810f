"""A text that is far longer than the model reads: its beginning is tokenised, and has the ids of the whole."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from sentrep.data import toy
from sentrep.encoder.text.tokenizer import TextTokenizer

SENTENCES = toy.sentences(1000)
SPECIAL = ["<unk>", "<pad>"]


def byte_pairs(before: Any = None) -> Any:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    if before is None:  # merges across words are possible, as in some decoders' tokenizers
        tokenizer.normalizer = normalizers.Replace(" ", "▁")
    else:
        tokenizer.pre_tokenizer = before
    tokenizer.train_from_iterator(SENTENCES, trainers.BpeTrainer(vocab_size=600, special_tokens=SPECIAL))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<pad>")


def unigram() -> Any:
    tokenizer = Tokenizer(models.Unigram())
    trainer = trainers.UnigramTrainer(vocab_size=400, special_tokens=SPECIAL, unk_token="<unk>")
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<pad>")


KINDS: dict[str, Callable[[], Any]] = {
    "words": toy.tokenizer,
    "bytes": lambda: byte_pairs(pre_tokenizers.ByteLevel()),
    "pairs without words": byte_pairs,
    "unigram without words": unigram,
}
TEXTS: dict[str, Callable[[random.Random, int], str]] = {
    "sentences": lambda rng, size: " ".join(rng.choice(SENTENCES) for _ in range(size // 30 + 1))[:size],
    "no blanks": lambda rng, size: "".join(rng.choice(SENTENCES).replace(" ", "") for _ in range(size // 30))[:size],
    "any signs": lambda rng, size: "".join(rng.choice("ab x.é漢字👩\u0301") for _ in range(size)),
    "one sign": lambda rng, size: rng.choice("axé漢 ") * size,
}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_beginning_has_the_ids_of_the_whole(kind: str, text: str) -> None:
    tokenizer, rng = KINDS[kind](), random.Random(0)
    texts = [TEXTS[text](rng, size) for size in (10, 3_000, 9_000, 50_000)]
    tokenize = TextTokenizer(tokenizer)
    frame = len(tokenize.prefix) + len(tokenize.suffix)
    whole = tokenize(texts, None)[0]
    for room in (1, 30, 126):
        ids, cut = tokenize(texts, room + frame)
        room_of_text = len(tokenize.prefix) + room
        wanted = [row if len(row) <= room + frame else row[:room_of_text] + tokenize.suffix for row in whole]
        assert ids == wanted
        assert cut == sum(len(row) > room + frame for row in whole)


def test_ten_million_characters_cost_no_more_than_some() -> None:
    tokenize = TextTokenizer(toy.tokenizer())
    start = time.perf_counter()
    (ids,), cut = tokenize(["a dog runs " * 900_000], 32)
    assert (len(ids), cut) == (32, 1)
    assert time.perf_counter() - start < 4  # some ten seconds, were it all read
