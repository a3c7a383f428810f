"""A head that starts from the model's own pooler: taken from it, trained, stored, resumed and exported."""

from __future__ import annotations

import functools
import shutil
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import AutoModel

from sentrep import InputError, ProjectionHead, SentenceEncoder, SentRepModule
from sentrep.encoder.fingerprint import fingerprint
from sentrep.objectives import Contrastive
from support import assert_resumes, assert_same, quiet_trainer, shared_path, tiny_encoder, toy_data, toy_sentences

SENTENCES = toy_sentences(16)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model with a trained pooler, as transformers has it."""
    tiny_encoder(pooling="pooler", seed=4).save_pretrained(tmp_path / "simcse")
    (tmp_path / "simcse" / "modules.json").unlink()
    return tmp_path / "simcse"


def pooler(folder: Path) -> Any:
    return SentenceEncoder(str(folder), pooling="pooler").backbone.pooler.dense


def with_head(model: str | Path, kind: Literal["mlp", "pooler", "pooler_mlp"] = "pooler") -> SentenceEncoder:
    encoder = SentenceEncoder(str(model), pooling="cls")
    encoder.attach_head(ProjectionHead(kind))
    return encoder


def module(model: str | Path) -> SentRepModule:
    optimizer = functools.partial(torch.optim.AdamW, lr=0.01)
    encoder = SentenceEncoder(str(model), pooling="cls")
    return SentRepModule(
        encoder, [Contrastive()], head=ProjectionHead("pooler"), optimizer=optimizer, scheduler="constant", seed=2
    )


def fit(module: SentRepModule, steps: int, folder: Path, ckpt_path: Path | None = None, **options: Any) -> Path:
    trainer = quiet_trainer(max_steps=steps, gradient_clip_val=1.0, **options)
    trainer.fit(module, toy_data(), ckpt_path=ckpt_path)
    trainer.save_checkpoint(folder / f"{steps}.ckpt")
    return folder / f"{steps}.ckpt"


def dense(module: SentRepModule | SentenceEncoder) -> Tensor:
    head = module.head if isinstance(module, SentenceEncoder) else module.encoder.head
    assert head is not None
    return head.dense.weight.detach().clone()


def test_it_is_the_pooler_s_own_layer_with_a_tanh(folder: Path) -> None:
    encoder, x = with_head(folder), torch.randn(3, 32)
    layer = pooler(folder)
    torch.testing.assert_close(encoder.project(x), (x @ layer.weight.T + layer.bias).tanh(), rtol=0, atol=0)
    assert not torch.equal(dense(encoder), dense(with_head(folder, kind="mlp"))), "not a fresh one"
    names = [name for name, parameter in encoder.named_parameters() if parameter.requires_grad]
    assert not any(name.startswith("backbone.pooler") for name in names), "it is not trained twice"


def test_a_stack_is_the_pooler_and_a_new_mlp_on_it(folder: Path, tmp_path: Path) -> None:
    encoder, x, layer = with_head(folder, kind="pooler_mlp"), torch.randn(3, 32), pooler(folder)
    assert encoder.head is not None
    top = encoder.head.second
    first = (x @ layer.weight.T + layer.bias).tanh()
    torch.testing.assert_close(encoder.project(x), (first @ top.weight.T + top.bias).tanh(), rtol=0, atol=1e-6)
    assert top.weight.std().item() == pytest.approx(0.02, rel=0.1)
    assert encoder.spec(0).embedding_dim == 32
    objectives = [Contrastive()]
    trained = SentRepModule(SentenceEncoder(str(folder)), objectives, head=ProjectionHead("pooler_mlp"))  # type: ignore[arg-type]
    again = SentRepModule.load_from_checkpoint(fit(trained, 1, tmp_path))
    assert_same(again.state_dict(), trained.state_dict())


def test_the_stack_s_pooler_is_new_where_the_model_has_none(tmp_path: Path) -> None:
    tiny_encoder().save_pretrained(tmp_path / "model")
    assert dense(with_head(tmp_path / "model", kind="pooler_mlp")).std().item() == pytest.approx(0.02, rel=0.1)


def test_the_published_pooler_is_found() -> None:
    layer = pooler(shared_path("models/all-MiniLM-L6-v2"))
    assert torch.equal(dense(with_head(shared_path("models/all-MiniLM-L6-v2"))), layer.weight)


@pytest.mark.parametrize("family", ["bert", "albert", "distilbert"])
def test_a_model_without_one_is_refused_with_the_remedy(family: str, tmp_path: Path) -> None:
    tiny_encoder(family).save_pretrained(tmp_path / "model")
    with pytest.raises(InputError, match=r"no trained pooler.*head\.kind mlp"):
        with_head(tmp_path / "model")


@pytest.mark.parametrize("kind", ["pooler", "pooler_mlp"])
def test_random_weights_have_a_random_one(kind: Literal["pooler", "pooler_mlp"]) -> None:
    encoder = tiny_encoder()
    encoder.attach_head(ProjectionHead(kind))
    assert dense(encoder).std().item() == pytest.approx(0.02, rel=0.1)


def test_training_it_resumes_exactly(folder: Path, tmp_path: Path) -> None:
    whole = assert_resumes(lambda: module(folder), tmp_path, gradient_clip_val=1.0)
    assert not torch.equal(dense(whole), pooler(folder).weight), "it is trained"


def test_its_checkpoint_and_export_need_no_original(folder: Path, tmp_path: Path) -> None:
    trained = module(folder)
    path = fit(trained, 2, tmp_path)
    shutil.rmtree(folder)
    again = SentRepModule.load_from_checkpoint(path)
    assert again.encoder.head is not None
    assert again.encoder.head.init_args == {"kind": "pooler", "out_features": None}
    assert torch.equal(dense(again), dense(trained))
    expected = trained.encoder.encode(SENTENCES)
    trained.encoder.save_pretrained(tmp_path / "export")
    for model in (path, tmp_path / "export"):
        encoder = SentenceEncoder.from_pretrained(model)
        assert encoder.head is None
        assert fingerprint(encoder) == fingerprint(trained.encoder)
        np.testing.assert_allclose(encoder.encode(SENTENCES), expected, atol=1e-6)


def test_a_new_run_goes_on_with_the_head_of_a_checkpoint(folder: Path, tmp_path: Path) -> None:
    former = module(folder)
    path = fit(former, 2, tmp_path)
    assert torch.equal(dense(module(path)), dense(former))


def test_a_pooler_that_nothing_reads_stays_with_the_model(folder: Path, tmp_path: Path) -> None:
    checkpoint = fit(module(folder), 1, tmp_path)
    for number, source in enumerate((folder, checkpoint)):
        encoder = SentenceEncoder(str(source), pooling="cls")
        assert not any(x.requires_grad for name, x in encoder.named_parameters() if "pooler" in name)
        encoder.save_pretrained(tmp_path / str(number))
        model, info = AutoModel.from_pretrained(tmp_path / str(number), output_loading_info=True)
        assert not info["missing_keys"], "transformers would advise to train it"
        assert torch.equal(model.pooler.dense.weight, pooler(folder).weight)


def test_a_pooler_that_is_not_there_draws_no_weights(tmp_path: Path) -> None:
    tiny_encoder().save_pretrained(tmp_path / "model")
    state = torch.get_rng_state()
    assert not any("pooler" in key for key in SentenceEncoder(str(tmp_path / "model")).state_dict())
    assert torch.equal(torch.get_rng_state(), state)
