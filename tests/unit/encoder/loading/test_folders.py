"""Every way in and out of an encoder: checkpoint, our folder, sentence-transformers old and new, hub."""

from __future__ import annotations

import functools
import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from sentrep import InputError, ProjectionHead, SentenceEncoder, SentRepModule
from sentrep.encoder import POOLINGS, Dense, Normalize, SentenceModule
from sentrep.encoder.fingerprint import fingerprint
from sentrep.objectives import Contrastive
from support import FAMILIES, checkpoint_of, tiny_encoder, toy_sentences

SENTENCES = toy_sentences(7)


def st_model(folder: Path | None, **how: Any) -> Any:
    """The model as sentence-transformers has it."""
    kind = pytest.importorskip("sentence_transformers").SentenceTransformer
    return kind(folder and str(folder), device="cpu", **how)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_survives_the_round_trip(family: str, tmp_path: Path) -> None:
    encoder = tiny_encoder(family, pooling="mean")
    encoder.save_pretrained(tmp_path / "model")
    again = SentenceEncoder.from_pretrained(tmp_path / "model")
    assert not again.training
    assert again.pooling == "mean"
    np.testing.assert_allclose(again.encode(SENTENCES), encoder.encode(SENTENCES), atol=1e-6)


PROMPT = 'The sentence: "[X]" means [MASK].'
LONG = [*SENTENCES, "  a dog \n", "", "a dog and a cat " * 40, "naïve Café 北京"]
"""Sentences that are cut, empty, or begin and end with white space."""


def byte_level() -> PreTrainedTokenizerFast:
    """A byte-level BPE with RoBERTa's special tokens, trained here."""
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trained.train_from_iterator(toy_sentences(200), trainers.BpeTrainer(vocab_size=600, special_tokens=special))
    trained.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return PreTrainedTokenizerFast(
        tokenizer_object=trained, bos_token="<s>", cls_token="<s>", eos_token="</s>", sep_token="</s>",
        pad_token="<pad>", unk_token="<unk>", mask_token="<mask>",
    )  # fmt: skip


def variant(kind: str, folder: Path, **arguments: Any) -> SentenceEncoder:
    """An encoder with BERT's words or RoBERTa's byte pairs, and weights that make special tokens matter."""
    if kind == "bert":
        return tiny_encoder(**arguments)
    byte_level().save_pretrained(folder / "tokenizer")
    torch.manual_seed(0)
    return SentenceEncoder({**FAMILIES["roberta"], "pad_token_id": 1}, tokenizer=str(folder / "tokenizer"), **arguments)


BEHIND: list[tuple[Callable[[], list[SentenceModule]], int | None]] = [
    (list, None),
    (list, 12),
    (list, 500),
    (lambda: [Dense(out_features=16), Normalize()], 12),
    (lambda: [Normalize(), Dense("tanh"), Dense(out_features=8)], None),
]


@pytest.mark.parametrize(
    ("pooling", "prompt", "modules", "limit", "kind"),
    [
        *((pooling, None, *BEHIND[3], "bert") for pooling in POOLINGS if pooling not in ("mask", "pooler")),
        *((pooling, PROMPT, *BEHIND[0], "bert") for pooling in POOLINGS if pooling != "pooler"),
        *(("mean", None, *behind, "byte pairs") for behind in BEHIND),
        *(("mask", PROMPT, *behind, "byte pairs") for behind in BEHIND),
    ],
)
def test_sentence_transformers_gives_our_vectors_or_none(
    pooling: str,
    prompt: str | None,
    modules: Callable[[], list[SentenceModule]],
    limit: int | None,
    kind: str,
    tmp_path: Path,
) -> None:
    encoder = variant(kind, tmp_path, pooling=pooling, prompt=prompt, modules=modules(), max_seq_length=limit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        encoder.save_pretrained(tmp_path / "ours")
    expected = encoder.encode(LONG)
    np.testing.assert_allclose(SentenceEncoder.from_pretrained(tmp_path / "ours").encode(LONG), expected, atol=1e-6)
    native = prompt is None and pooling in ("cls", "mean", "max", "last")
    if native:
        loaded = st_model(tmp_path / "ours")
    else:
        with pytest.raises(ValueError, match="PromptedTransformer"):
            st_model(tmp_path / "ours")
        loaded = st_model(tmp_path / "ours", trust_remote_code=True)
        assert loaded.get_sentence_embedding_dimension() == expected.shape[1]
    np.testing.assert_allclose(loaded.encode(LONG), expected, atol=1e-5)


def test_a_model_without_a_limit_has_none_elsewhere(tmp_path: Path) -> None:
    description = {
        "model_type": "xlnet", "vocab_size": 4000, "d_model": 32, "n_layer": 1, "n_head": 2, "d_inner": 48,
        "pad_token_id": 0,
    }  # fmt: skip
    encoder = SentenceEncoder(description, pooling="last", tokenizer="toy")
    assert encoder.tokenize.limit is None
    encoder.tokenize.tokenizer.model_max_length = 16
    encoder.save_pretrained(tmp_path)
    np.testing.assert_allclose(st_model(tmp_path).encode(LONG), encoder.encode(LONG), atol=1e-5)


class Doubled(ProjectionHead):
    """A head with a forward of its own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(x)


def test_an_encoder_has_no_subclass() -> None:
    with pytest.raises(InputError, match="OwnEncoder is a subclass"):
        type("OwnEncoder", (SentenceEncoder,), {})


def test_a_head_may_be_of_another_class(tmp_path: Path) -> None:
    module = SentRepModule(tiny_encoder(), {"simcse": Contrastive()}, head=Doubled())
    again = SentenceEncoder.from_pretrained(checkpoint_of(module, tmp_path))
    assert again.head is None
    np.testing.assert_array_equal(again.encode(SENTENCES), module.encoder.encode(SENTENCES))


def add_adapters(backbone: Any) -> None:
    """As peft does it in place."""
    peft = pytest.importorskip("peft")
    peft.get_peft_model(backbone, peft.LoraConfig(target_modules=["query"]))


def normalise_weights(backbone: Any) -> None:
    torch.nn.utils.parametrizations.weight_norm(backbone.encoder.layer[0].attention.self.query)


def cut_layers_off(backbone: Any) -> None:
    backbone.encoder.layer = backbone.encoder.layer[:1]


@pytest.mark.parametrize("change", [add_adapters, normalise_weights, cut_layers_off])
def test_a_folder_that_could_not_be_loaded_is_not_written(change: Any, tmp_path: Path) -> None:
    encoder = tiny_encoder()
    change(encoder.backbone)
    with pytest.raises(InputError, match=r"layer\.[01]\..* does not fit backbone.config"):
        encoder.save_pretrained(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_transformers_loads_the_folder(tmp_path: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    encoder = tiny_encoder().eval()
    encoder.save_pretrained(tmp_path)
    inputs = AutoTokenizer.from_pretrained(tmp_path)(SENTENCES[0], return_tensors="pt")
    cls = AutoModel.from_pretrained(tmp_path)(**inputs).last_hidden_state[0, 0].detach().numpy()
    np.testing.assert_allclose(cls, encoder.encode(SENTENCES[0]), atol=1e-6)


def test_a_backbone_is_a_name_alone_or_with_what_goes_with_it(tmp_path: Path) -> None:
    tiny_encoder(pooling="mean").save_pretrained(tmp_path)
    named = {"name": str(tmp_path), "revision": "main", "trust_remote_code": True}
    for encoder in (SentenceEncoder(named), SentenceEncoder.from_pretrained(tmp_path, trust_remote_code=True)):
        np.testing.assert_array_equal(
            encoder.encode(SENTENCES), SentenceEncoder(str(tmp_path), pooling=encoder.pooling).encode(SENTENCES)
        )
    random = SentenceEncoder(named, pretrained=False, pooling="mean")
    assert random.pooling == "mean"
    assert not np.array_equal(random.encode(SENTENCES), encoder.encode(SENTENCES))


def test_a_folder_with_another_tokenizer(tmp_path: Path) -> None:
    """The toy tokenizer with two words swapped reads each of them as the other."""
    encoder = tiny_encoder(max_seq_length=12)
    encoder.save_pretrained(tmp_path / "model")
    shutil.copytree(tmp_path / "model", tmp_path / "words")
    file = tmp_path / "words" / "tokenizer.json"
    content = json.loads(file.read_text())
    vocabulary = content["model"]["vocab"]
    vocabulary["engine"], vocabulary["motor"] = vocabulary["motor"], vocabulary["engine"]
    file.write_text(json.dumps(content))
    other = SentenceEncoder(str(tmp_path / "model"), tokenizer=str(tmp_path / "words"), pooling=encoder.pooling)
    assert other.max_seq_length == 12
    np.testing.assert_allclose(other.encode(["the engine"]), encoder.encode(["the motor"]), atol=1e-6)
    other.save_pretrained(tmp_path / "saved")
    again = SentenceEncoder.from_pretrained(tmp_path / "saved")
    np.testing.assert_allclose(again.encode(["the engine"]), encoder.encode(["the motor"]), atol=1e-6)


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
    (tmp_path / "0_Transformer" / "modules.json").unlink()
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
        ("1_Pooling/config.json", "{", "no model that sentence-transformers can load"),
        ("modules.json", "[]", "no module in it"),
        ("modules.json", '[{"idx": 0, "name": "0", "path": "", "type": "os.system"}]', "the module class 'os.system'"),
    ],
)
def test_a_foreign_module_is_named(file: str, content: str, message: str, tmp_path: Path) -> None:
    tiny_encoder().save_pretrained(tmp_path)
    (tmp_path / file).write_text(content)
    with pytest.raises(InputError, match=message):
        SentenceEncoder.from_pretrained(tmp_path)


@pytest.mark.parametrize("safe", [True, False])
@pytest.mark.parametrize(("bias", "activation"), [(True, "Tanh"), (False, "Identity")])
def test_a_foreign_dense_layer_of_another_width(bias: bool, activation: str, safe: bool, tmp_path: Path) -> None:
    st_models = pytest.importorskip("sentence_transformers.models")
    tiny_encoder(pooling="mean").save_pretrained(tmp_path / "plain")
    plain = st_model(tmp_path / "plain")
    dense = st_models.Dense(32, 8, bias=bias, activation_function=getattr(torch.nn, activation)())
    theirs = st_model(None, modules=[*plain, dense])
    theirs.save_pretrained(str(tmp_path / "dense"), safe_serialization=safe)
    ours = SentenceEncoder.from_pretrained(tmp_path / "dense")
    np.testing.assert_allclose(ours.encode(SENTENCES), theirs.encode(SENTENCES), atol=1e-6)


def test_modules_in_any_number_and_order_behind_the_pooling(tmp_path: Path) -> None:
    st_models = pytest.importorskip("sentence_transformers.models")
    tiny_encoder(pooling="mean").save_pretrained(tmp_path / "plain")
    plain = st_model(tmp_path / "plain")
    for name, extra in {
        "two": [st_models.Dense(32, 8), st_models.Dense(8, 4, bias=False, activation_function=torch.nn.Identity())],
        "early": [st_models.Normalize(), st_models.Dense(32, 8), st_models.Normalize()],
    }.items():
        theirs = st_model(None, modules=[*plain, *extra])
        theirs.save_pretrained(str(tmp_path / name))
        ours = SentenceEncoder.from_pretrained(tmp_path / name)
        np.testing.assert_allclose(ours.encode(SENTENCES), theirs.encode(SENTENCES), atol=1e-6)
    listed = json.loads((tmp_path / "two" / "modules.json").read_text())
    (tmp_path / "two" / "modules.json").write_text(json.dumps([listed[0], listed[2], listed[1]]))
    with pytest.raises(InputError, match="sentrep needs a Transformer and a Pooling first"):
        SentenceEncoder.from_pretrained(tmp_path / "two")


def test_a_save_that_fails_leaves_the_older_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older, newer = tiny_encoder(pooling="mean"), tiny_encoder(pooling="cls")
    older.save_pretrained(tmp_path / "model")
    kind = type(newer.model[1])
    monkeypatch.setattr(kind, "save", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "No space")))
    with pytest.raises(InputError, match=r"model: cannot be written \(No space\)"):
        newer.save_pretrained(tmp_path / "model")
    with pytest.raises(InputError, match="No space"):
        newer.save_pretrained(tmp_path / "other")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    again = SentenceEncoder.from_pretrained(tmp_path / "model")
    np.testing.assert_array_equal(again.encode("a dog"), older.encode("a dog"))


def change_pooling(model: Any, layers: Any) -> None:
    model[1] = layers.Pooling(32, "cls")


def add_dense(model: Any, layers: Any) -> None:
    model.append(layers.Dense(model.get_embedding_dimension(), 16))


def add_scaling(model: Any, layers: Any) -> None:
    model.append(layers.Dense(model.get_embedding_dimension(), 8, bias=False))
    model.append(layers.Normalize())


def set_default_prompt(model: Any, layers: Any) -> None:
    model.prompts["ask"] = "who asks: "
    model.default_prompt_name = "ask"


def set_length(model: Any, layers: Any) -> None:
    model.max_seq_length = 7


@pytest.mark.parametrize(
    ("change", "prompt"),
    [
        (change_pooling, None),
        (add_dense, None),
        (add_scaling, None),
        (set_default_prompt, None),
        (set_length, None),
        (add_dense, PROMPT),
        (add_scaling, PROMPT),
        (set_default_prompt, PROMPT),
    ],
)
@pytest.mark.filterwarnings("ignore:.*sentence-transformers has no module")
def test_what_sentence_transformers_changes_in_a_folder_of_ours_is_read_as_there(
    change: Callable[[Any, Any], None], prompt: str | None, tmp_path: Path
) -> None:
    layers = pytest.importorskip("sentence_transformers.models")
    pooling = "mean" if prompt is None else "mask"
    tiny_encoder(pooling=pooling, prompt=prompt, modules=[Dense("tanh"), Normalize()]).save_pretrained(tmp_path)

    load = functools.partial(st_model, tmp_path, trust_remote_code=prompt is not None)
    theirs = load()
    before = theirs.encode(LONG)
    change(theirs, layers)
    theirs.save_pretrained(str(tmp_path))
    ours = SentenceEncoder.from_pretrained(tmp_path)
    for name in ("encode", "encode_query", "encode_document"):
        for expected in (theirs, load()):
            np.testing.assert_allclose(getattr(ours, name)(LONG), getattr(expected, name)(LONG), atol=1e-5)
    assert not np.array_equal(ours.encode(LONG), before)


@pytest.mark.parametrize("length", [None, 12, 500])
@pytest.mark.parametrize("modules", [list, lambda: [Dense(), Dense("tanh", 32), Normalize()]])
def test_what_sentence_transformers_saves_unchanged_agrees(
    modules: Callable[[], list[SentenceModule]], length: int | None, tmp_path: Path
) -> None:
    encoder = tiny_encoder(pooling="mean", modules=modules(), max_seq_length=length, max_length=9)
    encoder.prompts, encoder.default_prompt_name = {"passage": "it says: "}, "passage"
    encoder.save_pretrained(tmp_path)
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            again = SentenceEncoder.from_pretrained(tmp_path)
        assert again.prompts["passage"] == "it says: "
        for name in ("pooling", "prompt", "default_prompt_name", "max_seq_length"):
            assert getattr(again, name) == getattr(encoder, name)
        assert list(map(type, again.sentence_modules)) == list(map(type, encoder.sentence_modules))
        st_model(tmp_path).save_pretrained(str(tmp_path))


def test_a_default_prompt_travels(tmp_path: Path) -> None:
    encoder = tiny_encoder(pooling="mean").eval()
    plain = encoder.encode(SENTENCES)
    encoder.prompts, encoder.default_prompt_name = {"ask": "who asks: "}, "ask"
    expected = encoder.encode([f"who asks: {sentence}" for sentence in SENTENCES], prompt="")
    np.testing.assert_array_equal(encoder.encode(SENTENCES), expected)
    np.testing.assert_array_equal(encoder.encode(SENTENCES, prompt=""), plain)
    cosine = encoder.similarity_pairwise(expected[:1], expected[1:2])
    torch.testing.assert_close(encoder.pairwise_cosine(SENTENCES[:1], SENTENCES[1:2]), cosine)
    module = SentRepModule(encoder, {"simcse": Contrastive()})
    encoder.save_pretrained(tmp_path / "model")
    for place in (tmp_path / "model", checkpoint_of(module, tmp_path)):
        again = SentenceEncoder.from_pretrained(place)
        assert (again.prompts["ask"], again.default_prompt_name) == ("who asks: ", "ask")
    before = fingerprint(again)
    again.default_prompt_name = None
    assert fingerprint(again) != before


@pytest.mark.parametrize("table", [pd.DataFrame({"text": ["a dog"]}), {"text": ["a dog"]}, {"a dog"}], ids=type)
def test_what_iterates_over_something_else_than_sentences_is_refused(table: Any) -> None:
    with pytest.raises(InputError, match="of a table give one column"):
        tiny_encoder().encode(table)
