"""Every way in and out of an encoder: checkpoint, our folder, sentence-transformers old and new, hub."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from sentrep import InputError, ProjectionHead, SentenceEncoder
from sentrep.encoder import folders
from support import FAMILIES, tiny_encoder, toy_sentences

SENTENCES = toy_sentences(7)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_survives_the_round_trip(family: str, tmp_path: Path) -> None:
    encoder = tiny_encoder(family, pooling="mean")
    encoder.save_pretrained(tmp_path / "model")
    again = SentenceEncoder.from_pretrained(tmp_path / "model")
    assert not again.training
    assert again.pooling == "mean"
    np.testing.assert_allclose(again.encode(SENTENCES), encoder.encode(SENTENCES), atol=1e-6)


@pytest.mark.parametrize("head", [None, "linear", "mlp"])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("pooling", ["cls", "mean", "max", "last"])
def test_the_folder_loads_in_sentence_transformers(
    pooling: str, normalize: bool, head: str | None, tmp_path: Path
) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    encoder = tiny_encoder(pooling=pooling, normalize=normalize)
    if head is not None:
        encoder.attach_head(ProjectionHead(head, keep=True))  # type: ignore[arg-type]
    encoder.save_pretrained(tmp_path / "ours")
    expected = encoder.encode(SENTENCES)
    theirs = sentence_transformers.SentenceTransformer(str(tmp_path / "ours"), device="cpu")
    np.testing.assert_allclose(theirs.encode(SENTENCES), expected, atol=1e-6)
    np.testing.assert_allclose(
        SentenceEncoder.from_pretrained(tmp_path / "ours").encode(SENTENCES), expected, atol=1e-6
    )
    theirs.save_pretrained(str(tmp_path / "new_layout"))
    back = SentenceEncoder.from_pretrained(tmp_path / "new_layout")
    assert back.pooling == pooling
    np.testing.assert_allclose(back.encode(SENTENCES), expected, atol=1e-6)


def test_a_train_only_head_stays_behind(tmp_path: Path) -> None:
    encoder = tiny_encoder()
    plain = encoder.encode(SENTENCES)
    encoder.attach_head(ProjectionHead("mlp"))
    encoder.save_pretrained(tmp_path)
    assert not list(tmp_path.rglob("*head*"))
    again = SentenceEncoder.from_pretrained(tmp_path)
    assert again.head is None
    np.testing.assert_allclose(again.encode(SENTENCES), plain, atol=1e-6)


def test_what_sentence_transformers_cannot_express_is_said_and_still_ours(tmp_path: Path) -> None:
    encoder = tiny_encoder(pooling="mask", prompt='"[X]" means [MASK].')
    with pytest.warns(UserWarning, match="only sentrep and transformers"):
        encoder.save_pretrained(tmp_path)
    assert not (tmp_path / "modules.json").exists()
    again = SentenceEncoder.from_pretrained(tmp_path)
    assert (again.pooling, again.prompt) == (encoder.pooling, encoder.prompt)
    np.testing.assert_allclose(again.encode(SENTENCES), encoder.encode(SENTENCES), atol=1e-6)


def test_transformers_loads_the_folder(tmp_path: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    encoder = tiny_encoder().eval()
    encoder.save_pretrained(tmp_path)
    inputs = AutoTokenizer.from_pretrained(tmp_path)(SENTENCES[0], return_tensors="pt")
    cls = AutoModel.from_pretrained(tmp_path)(**inputs).last_hidden_state[0, 0].detach().numpy()
    np.testing.assert_allclose(cls, encoder.encode(SENTENCES[0]), atol=1e-6)


def test_a_plain_transformers_folder_has_no_pooling_and_says_so(tmp_path: Path) -> None:
    encoder = tiny_encoder()
    encoder.backbone.save_pretrained(tmp_path)
    encoder.tokenize.tokenizer.save_pretrained(tmp_path)
    with pytest.warns(UserWarning, match="carries no pooling"):
        assert SentenceEncoder.from_pretrained(tmp_path).pooling == "cls"
    assert SentenceEncoder.from_pretrained(tmp_path, pooling="mean").pooling == "mean"


def test_an_older_folder_with_the_transformer_in_a_sub_folder(tmp_path: Path) -> None:
    encoder = tiny_encoder(pooling="mean")
    encoder.save_pretrained(tmp_path / "0_Transformer")
    for name in ("modules.json", "sentrep.json"):
        (tmp_path / "0_Transformer" / name).unlink()
    (tmp_path / "0_Transformer" / "1_Pooling").rename(tmp_path / "1_Pooling")
    modules = [
        {"idx": 0, "name": "0", "path": "0_Transformer", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    again = SentenceEncoder.from_pretrained(tmp_path)
    np.testing.assert_allclose(again.encode(SENTENCES), encoder.encode(SENTENCES), atol=1e-6)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("modules.json", '[{"type": "x.CNN", "path": "2_CNN"}]', "CNN"),
        ("1_Pooling/config.json", '{"pooling_mode_weightedmean_tokens": true}', "no counterpart"),
        ("1_Pooling/config.json", "{", "not JSON"),
        ("sentence_bert_config.json", '{"do_lower_case": true}', "lower-cases"),
    ],
)
def test_a_foreign_module_is_named(file: str, content: str, message: str, tmp_path: Path) -> None:
    tiny_encoder().save_pretrained(tmp_path)
    (tmp_path / "sentrep.json").unlink()
    (tmp_path / file).write_text(content)
    with pytest.raises(InputError, match=message):
        SentenceEncoder.from_pretrained(tmp_path)


def test_a_damaged_weight_file_is_named(tmp_path: Path) -> None:
    tiny_encoder().save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(InputError, match="weights cannot be loaded"):
        SentenceEncoder.from_pretrained(tmp_path)


@pytest.mark.parametrize("safe", [True, False])
@pytest.mark.parametrize(("bias", "activation"), [(True, "Tanh"), (False, "Identity")])
def test_a_foreign_dense_layer_of_another_width(bias: bool, activation: str, safe: bool, tmp_path: Path) -> None:
    models = pytest.importorskip("sentence_transformers.models")
    from sentence_transformers import SentenceTransformer

    tiny_encoder(pooling="mean").save_pretrained(tmp_path / "plain")
    plain = SentenceTransformer(str(tmp_path / "plain"), device="cpu")
    dense = models.Dense(32, 8, bias=bias, activation_function=getattr(torch.nn, activation)())
    theirs = SentenceTransformer(modules=[*plain, dense], device="cpu")
    theirs.save_pretrained(str(tmp_path / "dense"), safe_serialization=safe)
    ours = SentenceEncoder.from_pretrained(tmp_path / "dense")
    np.testing.assert_allclose(ours.encode(SENTENCES), theirs.encode(SENTENCES), atol=1e-6)


def test_modules_in_a_foreign_order_are_refused(tmp_path: Path) -> None:
    models = pytest.importorskip("sentence_transformers.models")
    from sentence_transformers import SentenceTransformer

    tiny_encoder(pooling="mean").save_pretrained(tmp_path / "plain")
    plain = SentenceTransformer(str(tmp_path / "plain"), device="cpu")
    for name, extra in {
        "two": [models.Dense(32, 8), models.Dense(8, 4)],
        "early": [models.Normalize(), models.Dense(32, 8)],
    }.items():
        SentenceTransformer(modules=[*plain, *extra], device="cpu").save_pretrained(str(tmp_path / name))
        with pytest.raises(InputError, match="only once each and in the order"):
            SentenceEncoder.from_pretrained(tmp_path / name)


def test_push_uploads_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = {}

    class Api:
        def __init__(self, token: str | None) -> None:
            calls["token"] = token

        def create_repo(self, repo_id: str, private: bool | None, exist_ok: bool) -> str:
            return f"hub/{repo_id}"

        def upload_folder(self, repo_id: str, folder_path: str, commit_message: str) -> None:
            calls["files"] = sorted(path.name for path in Path(folder_path).iterdir())

    monkeypatch.setattr(folders, "HfApi", Api)
    assert tiny_encoder().push_to_hub("me/model", token="secret") == "hub/me/model"
    assert calls["token"] == "secret"
    assert {"config.json", "model.safetensors", "modules.json", "sentrep.json", "tokenizer.json"} <= set(calls["files"])
