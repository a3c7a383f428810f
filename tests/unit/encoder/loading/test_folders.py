"""Every way in and out of an encoder: checkpoint, our folder, sentence-transformers old and new, hub."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import peft
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base import modules as layers
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from sentrep import InputError, SentenceEncoder, SentRepModule
from sentrep.encoder import POOLINGS, Dense, Normalize, SentenceModule
from sentrep.encoder.fingerprint import fingerprint
from sentrep.objectives import Contrastive
from support import FAMILIES, checkpoint_of, tiny_encoder, toy_sentences

SENTENCES = toy_sentences(7)


def st_model(folder: Path, **how: Any) -> Any:
    """The model as sentence-transformers has it."""
    return SentenceTransformer(str(folder), device="cpu", **how)


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


def test_an_encoder_has_no_subclass() -> None:
    with pytest.raises(InputError, match="OwnEncoder is a subclass"):
        type("OwnEncoder", (SentenceEncoder,), {})


def add_adapters(backbone: Any) -> None:
    """As peft does it in place."""
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
    ("content", "message"),
    [
        ("{", "this list of modules is damaged"),
        ("[]", "no module in it"),
        ('[{"idx": 0, "name": "0", "path": "", "type": "os.system"}]', "the module class 'os.system'"),
    ],
)
def test_a_foreign_or_damaged_list_of_modules_is_named(content: str, message: str, tmp_path: Path) -> None:
    tiny_encoder().save_pretrained(tmp_path)
    (tmp_path / "modules.json").write_text(content)
    with pytest.raises(InputError, match=message):
        SentenceEncoder.from_pretrained(tmp_path)


def test_modules_in_any_number_and_order_behind_the_pooling(tmp_path: Path) -> None:
    tiny_encoder(pooling="mean").save_pretrained(tmp_path / "plain")
    plain = st_model(tmp_path / "plain")
    for name, extra in {
        "two": [layers.Dense(32, 8), layers.Dense(8, 4, bias=False, activation_function=torch.nn.Identity())],
        "early": [layers.Normalize(), layers.Dense(32, 8), layers.Normalize()],
    }.items():
        theirs = SentenceTransformer(modules=[*plain, *extra], device="cpu")
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


@pytest.mark.filterwarnings("ignore:.*sentence-transformers has no module")
def test_what_sentence_transformers_adds_to_a_folder_of_ours_is_read_as_there(tmp_path: Path) -> None:
    """The folder has modules of sentrep; test_kinds has each setting in folders without them."""
    tiny_encoder(pooling="mask", prompt=PROMPT, modules=[Dense("tanh"), Normalize()]).save_pretrained(tmp_path)
    theirs = st_model(tmp_path, trust_remote_code=True)
    before = theirs.encode(LONG)
    theirs.append(layers.Dense(theirs.get_embedding_dimension(), 8, bias=False))
    theirs.append(layers.Normalize())
    theirs.prompts["ask"], theirs.default_prompt_name, theirs.max_seq_length = "who asks: ", "ask", 7
    theirs.save_pretrained(str(tmp_path))
    expected = theirs.encode(LONG)
    assert expected.shape != before.shape
    for loaded in (SentenceEncoder.from_pretrained(tmp_path), st_model(tmp_path, trust_remote_code=True)):
        np.testing.assert_allclose(loaded.encode(LONG), expected, atol=1e-5)


def test_a_default_prompt_travels(tmp_path: Path) -> None:
    encoder = tiny_encoder(pooling="mean").eval()
    encoder.prompts, encoder.default_prompt_name = {"ask": "who asks: "}, "ask"
    encoder.save_pretrained(tmp_path / "model")
    for place in (tmp_path / "model", checkpoint_of(SentRepModule(encoder, [Contrastive()]), tmp_path)):
        again = SentenceEncoder.from_pretrained(place)
        assert (again.prompts["ask"], again.default_prompt_name) == ("who asks: ", "ask")
    trained = encoder.eval().encode([f"who asks: {sentence}" for sentence in SENTENCES], prompt="")
    np.testing.assert_array_equal(again.encode(SENTENCES), trained)
    before = fingerprint(again)
    again.default_prompt_name = None
    assert fingerprint(again) != before
