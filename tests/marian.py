"""Tiny random translation models of the Marian family, with the files that OPUS-MT folders have."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
import torch
from transformers import MarianConfig, MarianMTModel, MarianTokenizer

from sentrep.data import toy


def save_tiny_marian(folder: Path, seed: int) -> str:
    """A model folder with source.spm, target.spm and vocab.json; its translations depend on the source and end."""
    sentencepiece = pytest.importorskip("sentencepiece", reason="Marian's tokenizer needs the package sentencepiece")
    folder.mkdir(parents=True)
    (folder / "text").write_text("\n".join(toy.sentences(500)))
    for side in ("source", "target"):
        sentencepiece.SentencePieceTrainer.train(
            input=str(folder / "text"), model_prefix=str(folder / side), vocab_size=200, minloglevel=2
        )
        (folder / f"{side}.model").rename(folder / f"{side}.spm")
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))
    pieces = [processor.id_to_piece(number) for number in range(processor.get_piece_size())]
    words = ["</s>", "<unk>", *(piece for piece in pieces if piece not in ("<s>", "</s>", "<unk>")), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({word: number for number, word in enumerate(words)}))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Recommended: pip install sacremoses")
        tokenizer = MarianTokenizer(*(str(folder / name) for name in ("source.spm", "target.spm", "vocab.json")))
    tokenizer.save_pretrained(folder)
    padding = len(words) - 1
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        sizes = {"d_model": 16, "max_position_embeddings": 64, "init_std": 0.6}
        for side in ("encoder", "decoder"):
            sizes |= {f"{side}_layers": 1, f"{side}_attention_heads": 2, f"{side}_ffn_dim": 16}
        special = {"pad_token_id": padding, "eos_token_id": 0, "decoder_start_token_id": padding}
        model = MarianMTModel(
            MarianConfig(vocab_size=len(words), forced_eos_token_id=0, **special, **sizes)  # type: ignore[arg-type]
        )
        model.final_logits_bias[0, 0] = 5.0
    model.generation_config.bad_words_ids = [[padding]]
    model.generation_config.max_length = 64
    model.save_pretrained(folder)
    return str(folder)
