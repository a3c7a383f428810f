"""Decoders: SimCSE on the last token with LoRA, GradCache and a prompt, on tiny random models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from lightning import Trainer
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from transformers import AutoConfig, AutoModel

from sentrep import InputError, SentenceEncoder, SentRepDataModule, SentRepModule
from sentrep.data import toy
from sentrep.encoder import Compute, Lora
from sentrep.objectives import Contrastive
from sentrep.testing import loss_and_gradients
from support import text_batch, toy_sentences

RECIPE = Path(__file__).resolve().parents[3] / "configs" / "simcse" / "decoder-lora.yaml"
_SIZES = {
    "vocab_size": 4000, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 48, "max_position_embeddings": 128, "pad_token_id": 0,
}  # fmt: skip
DECODERS: dict[str, dict[str, Any]] = {
    "qwen3": {"model_type": "qwen3", **_SIZES, "head_dim": 8},
    "llama": {"model_type": "llama", **_SIZES},
}


def recipe_encoder(family: str, **changes: Any) -> SentenceEncoder:
    """The recipe's encoder on a tiny backbone."""
    settings = yaml.safe_load(RECIPE.read_text(encoding="utf-8"))["model"]["encoder"]
    settings |= {"backbone": DECODERS[family], "tokenizer": "toy", **changes}
    settings["trainable"] = Lora(**settings["trainable"])
    settings["compute"] = Compute(**settings["compute"])
    torch.manual_seed(0)
    return SentenceEncoder(**settings)


@pytest.mark.parametrize("family", DECODERS)
def test_the_recipe_trains_and_its_folder_loads_in_sentence_transformers(family: str, tmp_path: Path) -> None:
    encoder = recipe_encoder(family, compute={"rows_at_once": 3})
    before = encoder.eval().encode(toy_sentences(5))
    module = SentRepModule(encoder, {"simcse": Contrastive(temperature=0.05)}, seed=1)
    module.optimizer = lambda parameters: torch.optim.AdamW(parameters, lr=0.01)
    (tmp_path / "text.txt").write_text("\n".join(toy_sentences(32)), encoding="utf-8")
    trainer = Trainer(
        max_steps=2, precision="bf16-mixed", accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(module, SentRepDataModule(train=str(tmp_path / "text.txt"), batch_size=8))
    trained = {name for name, x in encoder.named_parameters() if x.requires_grad}
    assert trained
    assert all("lora" in name for name in trained)
    after = encoder.eval().encode(toy_sentences(5))
    assert np.abs(after - before).max() > 1e-3
    with pytest.warns(UserWarning, match="no module for a prompt"):
        encoder.save_pretrained(tmp_path / "model")
    plain = SentenceTransformer(str(tmp_path / "model"), device="cpu", trust_remote_code=True)
    for model in (plain, SentenceEncoder.from_pretrained(tmp_path / "model")):
        np.testing.assert_allclose(model.encode(toy_sentences(5)), after, atol=1e-5)


@pytest.mark.parametrize("family", DECODERS)
def test_the_recipe_has_the_gradient_of_the_whole_batch(family: str) -> None:
    found = []
    for rows in (None, 3):
        encoder = recipe_encoder(family, compute={"rows_at_once": rows}, dropout=0.0, trainable={"rank": 4})
        for name, parameter in encoder.named_parameters():
            if "lora_B" in name:  # starts at 0, where the other matrix has no gradient
                torch.nn.init.normal_(parameter, std=0.1)
        module = SentRepModule(encoder, {"simcse": Contrastive(temperature=0.05)}, seed=1)
        batch = text_batch(encoder, toy_sentences(8), toy_sentences(16)[8:])
        found.append(loss_and_gradients(module, batch))
    torch.testing.assert_close(found[0], found[1], atol=1e-10, rtol=1e-7)


@pytest.mark.parametrize("family", DECODERS)
def test_left_and_right_padding_give_the_same_vectors(family: str, tmp_path: Path) -> None:
    settings = dict(DECODERS[family])
    torch.manual_seed(0)
    config = AutoConfig.for_model(settings.pop("model_type"), **settings)
    AutoModel.from_config(config).save_pretrained(tmp_path / "plain")
    texts = [*toy_sentences(6), " ".join(toy_sentences(4))]
    vectors = []
    for side in ("left", "right"):
        tokenizer = toy.tokenizer()
        tokenizer.padding_side = side
        tokenizer.save_pretrained(tmp_path / "plain")
        transformer = Transformer(str(tmp_path / "plain"))
        model = SentenceTransformer(modules=[transformer, Pooling(32, "lasttoken")], device="cpu")
        model.save_pretrained(str(tmp_path / side))
        encoder = SentenceEncoder.from_pretrained(tmp_path / side, max_length=64)
        assert encoder.pooling == "last"
        vectors += [model.encode(texts), encoder.encode(texts)]
        tokens = text_batch(encoder, texts).anchor
        vectors.append(encoder(tokens).embedding.detach().numpy())
    for found in vectors:
        np.testing.assert_allclose(found, vectors[0], atol=1e-5)


def test_a_prompt_without_a_mask_is_for_other_poolings() -> None:
    encoder = recipe_encoder("llama")
    assert encoder.tokenize.mask_index is None
    ids, _ = encoder.tokenize(["a dog barks"], 8)
    assert encoder.tokenize.tokenizer.decode(ids[0]).count("word") == 1
    with pytest.raises(InputError, match="MASK"):
        recipe_encoder("llama", pooling="mask")
