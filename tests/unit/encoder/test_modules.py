"""Modules behind the pooling: the same vectors wherever the model goes, and nobody else's code on the way."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from sentrep import InputError, SentenceEncoder, SentRepModule
from sentrep.cli import main
from sentrep.encoder import ConvolutionalPooling, Dense, Flow, Normalize, SentenceModule
from sentrep.encoder.fingerprint import fingerprint
from sentrep.objectives import Alignment, Contrastive
from sentrep.types import Need
from support import (
    checkpoint_of,
    loss_and_gradients,
    seeded_runs_here,
    text_batch,
    tiny_encoder,
    toy_sentences,
    write_workplace,
)

SENTENCES = toy_sentences(9)


class Gate(SentenceModule):
    """A user's own: the mean of the tokens' states, weighed by a learned scale per dimension, beside the vector."""

    reads_tokens = True

    def __init__(self, scale: float = 2.0) -> None:
        super().__init__()
        self.scale = scale

    def build(self, width: int, std: float) -> None:
        self.out_features = width
        self.weight = nn.Parameter(torch.randn(width))

    def forward(self, embedding: Tensor, token_states: Tensor, mask: Tensor) -> Tensor:
        states = token_states.masked_fill(mask[..., None] == 0, 0).sum(1) / mask.sum(1, keepdim=True)
        return embedding + self.scale * states * self.weight


class Passing(SentenceModule):
    """One that forgets to say that it reads tokens, and has an argument that is no plain data."""

    def __init__(self, function: Any) -> None:
        super().__init__()

    def forward(self, embedding: Tensor, token_states: Tensor, mask: Tensor) -> Tensor:
        return token_states.mean(1)


CASES: dict[str, Callable[[], list[SentenceModule]]] = {
    "dense": lambda: [Dense(out_features=6)],
    "tanh": lambda: [Dense("tanh")],
    "normalize": lambda: [Normalize()],
    "several": lambda: [Normalize(), Dense("tanh", 12), Dense(out_features=5), Normalize()],
    "convolutions": lambda: [ConvolutionalPooling(), Dense(out_features=7)],
    "flow": lambda: [Flow(steps=2, hidden=9)],
    "own": lambda: [Gate(0.5), Dense(out_features=7)],
}


@pytest.mark.parametrize("pooling", ["cls", "mean_first_last"])
@pytest.mark.parametrize("name", CASES)
def test_one_vector_in_training_scoring_checkpoint_folder_and_elsewhere(
    name: str, pooling: str, tmp_path: Path
) -> None:
    encoder = tiny_encoder(dropout=0.0, pooling=pooling, modules=CASES[name](), rows_at_once=4)
    module = SentRepModule(encoder, [Contrastive()])
    path = checkpoint_of(module, tmp_path)
    own = any(type(part).__module__ == __name__ for part in encoder.sentence_modules)
    batch = text_batch(encoder, SENTENCES)
    expected = encoder.encode(SENTENCES)
    assert expected.shape == (9, encoder.embedding_dim) == (9, encoder.spec(0).embedding_dim)

    trained = [module.views_of(batch).anchor, encoder(batch.anchor).embedding]
    for vectors in trained:
        np.testing.assert_allclose(vectors.detach(), expected, atol=1e-6)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        encoder.save_pretrained(tmp_path / "model")
    for model in (path, tmp_path / "model"):
        again = SentenceEncoder.from_pretrained(model, trust_remote_code=own)
        np.testing.assert_allclose(again.encode(SENTENCES), expected, atol=1e-6)
        assert fingerprint(again) == fingerprint(encoder)
        if own:
            with pytest.raises(InputError, match=r"Gate' is not one of sentrep's.*trust_remote_code: true"):
                SentenceEncoder.from_pretrained(model)
    rebuilt = SentRepModule.load_from_checkpoint(path, trust_plugins=own)
    np.testing.assert_allclose(rebuilt.encoder.encode(SENTENCES), expected, atol=1e-6)

    if all(type(part) in (Dense, Normalize) for part in encoder.sentence_modules) and pooling == "cls":
        np.testing.assert_allclose(
            SentenceTransformer(str(tmp_path / "model"), device="cpu").encode(SENTENCES), expected, atol=1e-6
        )
    else:
        with pytest.raises(ValueError, match=r"PromptedTransformer|OwnModule"):
            SentenceTransformer(str(tmp_path / "model"), device="cpu")


@pytest.mark.parametrize("how", [{"rows_at_once": 3}, {"layout": "padded"}])
@pytest.mark.parametrize("name", CASES)
def test_every_way_to_compute_gives_the_same_gradients(name: str, how: dict[str, Any]) -> None:
    results = []
    for compute in ({}, how):
        encoder = tiny_encoder(dropout=0.0, modules=CASES[name](), **compute)
        results.append(
            loss_and_gradients(SentRepModule(encoder, [Alignment()]), text_batch(encoder, SENTENCES[:8], SENTENCES[1:]))
        )
    (loss, gradients), (other, others) = results
    torch.testing.assert_close(other, loss)
    assert gradients.keys() == others.keys()
    for key in gradients:
        torch.testing.assert_close(others[key], gradients[key], msg=key)


def test_a_named_module_has_the_weights_of_its_checkpoint_and_a_removed_one_is_gone(tmp_path: Path) -> None:
    module = SentRepModule(tiny_encoder(modules=[Dense(), Normalize()]), [Alignment()])
    path = checkpoint_of(module, tmp_path)
    first: Any = module.encoder.sentence_modules[0]
    for named in (None, [Dense(), Dense()]):
        found: Any = SentenceEncoder(str(path), modules=named).sentence_modules
        assert torch.equal(found[0].dense.weight, first.dense.weight)
    assert not torch.equal(found[1].dense.weight, first.dense.weight)
    bare = SentenceEncoder.from_pretrained(path, modules=[])
    module.encoder.set_modules([])
    np.testing.assert_allclose(bare.encode(SENTENCES), module.encoder.encode(SENTENCES), atol=1e-6)


def test_what_is_forgotten_in_a_module_is_named(tmp_path: Path) -> None:
    encoder = tiny_encoder(modules=[Passing(max)])
    with pytest.raises(InputError, match="takes plain data"):
        encoder.save_pretrained(tmp_path / "model")
    with pytest.raises(InputError, match="module that reads them must say reads_tokens"):
        encoder(text_batch(encoder, SENTENCES).anchor, need=Need(tokens=False))


@pytest.mark.parametrize("name", ["os.system", "sentrep.encoder.SentenceEncoder"])
def test_a_folder_builds_nothing_but_modules(name: str, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="has no module for Flow"):
        tiny_encoder(modules=[Flow(steps=1)]).save_pretrained(tmp_path)
    file = tmp_path / "2_OwnModule" / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "class_path": name}))
    with pytest.raises(InputError, match=f"its module '{name}' is not one of sentrep's"):
        SentenceEncoder.from_pretrained(tmp_path)


GATE = """
from sentrep.encoder import SentenceModule

class Gate(SentenceModule):
    def forward(self, embedding, token_states, mask):
        return 2 * embedding
"""


@pytest.mark.slow
def test_every_command_takes_a_model_with_a_class_of_the_users_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    seeded_runs_here(monkeypatch)
    write_workplace(tmp_path)
    Path("gate_of_mine.py").write_text(GATE)
    Path("own.yaml").write_text(json.dumps({"model": {"encoder": {"modules": ["gate_of_mine.Gate", "Normalize"]}}}))
    words = ["fit", "-c", "run.yaml", "-c", "own.yaml"]
    assert main(words) == 0
    (last,) = Path("runs").rglob("last.ckpt")
    model = str(last.parents[1] / "model")
    assert main([*words, "--trainer.max_steps", "6", "--ckpt_path", str(last)]) == 0
    encoders = [SentenceEncoder.from_pretrained(path, trust_remote_code=True) for path in (last, model)]
    vectors = [encoder.encode(SENTENCES) for encoder in encoders]
    np.testing.assert_allclose(np.linalg.norm(vectors[0], axis=1), 1, atol=1e-6)
    Path("text.txt").write_text("\n".join(SENTENCES))
    encode, trust = ["encode", model, "--output", "out.npy", "--input", "text.txt"], ["--trust_remote_code", "true"]
    assert main(encode) == 1
    assert main([*encode, *trust]) == 0
    np.testing.assert_allclose(np.load("out.npy"), vectors[1], atol=1e-6)
    assert main(["export", str(last), "--output", "again", *trust]) == 0
    assert main(["evaluate", "again", "--sets", "[dev.csv]", *trust]) == 0
    assert main([*words, "--seeds", "1", "--data.test", "[dev.csv]"]) == 0
    assert "run" in Path("runs/run-own/report.md").read_text(encoding="utf-8")
