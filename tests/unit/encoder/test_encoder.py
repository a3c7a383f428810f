"""The encoder over every family of backbones, and what `encode` promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from sentrep import InputError, ProjectionHead, SentenceEncoder
from sentrep.encoder import POOLINGS, Prompt
from sentrep.encoder.encode import pad
from support import FAMILIES, text_batch, tiny_encoder, toy_sentences

PROMPT = '"[X]" means [MASK].'


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_trains_and_encodes(family: str) -> None:
    encoder = tiny_encoder(family, dropout=0.1)
    assert encoder.training
    tokens = text_batch(encoder, toy_sentences(6)).anchor
    output = encoder(tokens)
    spec = encoder.spec(seed=0)
    length = tokens.input_ids.shape[1]
    assert output.embedding.shape == (6, spec.embedding_dim)
    assert output.token_states.shape == (6, length, spec.hidden_size)
    assert output.input_embeddings.shape == (6, length, spec.hidden_size)
    output.embedding[:, 0].sum().backward()
    assert encoder.backbone.get_input_embeddings().weight.grad.abs().sum() > 0
    assert not torch.equal(encoder(tokens).embedding, output.embedding), "two passes share their dropout"
    vectors = encoder.encode(toy_sentences(3))
    assert vectors.shape == (3, 32)
    assert encoder.training, "encode must leave the mode as it was"


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("pooling", sorted(set(POOLINGS) - {"mask", "pooler"}))
def test_padding_changes_no_pooling(family: str, pooling: str) -> None:
    encoder = tiny_encoder(family, pooling=pooling).eval()
    sentences = sorted(toy_sentences(12), key=len)
    together = encoder.encode(sentences, batch_size=12)
    alone = np.stack([encoder.encode(sentence) for sentence in sentences])
    np.testing.assert_allclose(together, alone, atol=2e-6)


def test_poolings_follow_their_definitions() -> None:
    encoder = tiny_encoder("bert", dropout=0.0).eval()
    tokens = text_batch(encoder, ["the dog", "a much longer sentence about the old dog"]).anchor
    states = encoder.backbone(
        input_ids=tokens.input_ids, attention_mask=tokens.attention_mask, output_hidden_states=True
    ).hidden_states
    count = int(tokens.attention_mask[0].sum())
    embedding, first, before, last = (states[k][0, :count] for k in (0, 1, -2, -1))
    expected = {
        "cls": last[0],
        "mean": last.mean(0),
        "max": last.max(0).values,
        "last": last[-1],
        "mean_first_last": (first.mean(0) + last.mean(0)) / 2,
        "mean_embedding_last": (embedding.mean(0) + last.mean(0)) / 2,
        "mean_last_two": (before.mean(0) + last.mean(0)) / 2,
    }
    for pooling, vector in expected.items():
        encoder = tiny_encoder("bert", dropout=0.0, pooling=pooling).eval()
        torch.testing.assert_close(encoder(tokens).embedding[0], vector, msg=pooling)


def test_pooler_pooling_takes_the_models_own_pooler() -> None:
    encoder = tiny_encoder("bert", pooling="pooler", dropout=0.0).eval()
    tokens = text_batch(encoder, ["the dog"]).anchor
    states = encoder.backbone(input_ids=tokens.input_ids, attention_mask=tokens.attention_mask).last_hidden_state
    torch.testing.assert_close(encoder(tokens).embedding, encoder.backbone.pooler(states))


def test_the_pooling_pooler_is_refused_where_there_is_none(tmp_path: Path) -> None:
    tiny_encoder().save_pretrained(tmp_path)
    for make in (tiny_encoder, lambda family, pooling: SentenceEncoder(str(tmp_path), pooling=pooling)):
        with pytest.raises(InputError, match="no trained pooler"):
            make("electra", pooling="pooler")


def test_encode_hands_its_options_on_to_sentence_transformers() -> None:
    encoder, sentences = tiny_encoder().eval(), toy_sentences(3)
    for options in ({"normalize_embeddings": True, "truncate_dim": 5}, {"prompt": "the dog ", "batch_size": 2}):
        np.testing.assert_array_equal(encoder.encode(sentences, **options), encoder.model.encode(sentences, **options))
    assert encoder.encode(sentences[0], convert_to_tensor=True).shape == (32,)


@pytest.mark.slow  # a process that imports transformers
def test_encoding_imports_nothing_of_training_and_of_plots() -> None:
    program = "import sys, sentrep.encoder; print({'lightning', 'matplotlib'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_encode_is_in_evaluation_mode_and_leaves_the_modes_of_all_parts() -> None:
    encoder = tiny_encoder(dropout=0.5).eval()
    assert encoder.evaluating() is encoder
    sentences = toy_sentences(5)
    vectors = encoder.encode(sentences)
    encoder.backbone.train()
    modes = [module.training for module in encoder.modules()]
    np.testing.assert_array_equal(encoder.encode(sentences), vectors)
    assert [module.training for module in encoder.modules()] == modes


def test_search_has_the_order_of_the_model_s_similarities() -> None:
    encoder, queries, documents = tiny_encoder(), toy_sentences(3), toy_sentences(9)[::-1]
    encoder.similarity_fn_name = "dot"
    encoder.prompts = {"query": "the dog ", "document": "a man "}
    expected = encoder.similarity(encoder.encode_query(queries), encoder.encode_document(documents)).numpy()
    found = encoder.search(queries, documents, k=4)
    np.testing.assert_allclose(found.scores, -np.sort(-expected, axis=1)[:, :4], atol=1e-6)
    np.testing.assert_allclose(found.scores, np.take_along_axis(expected, found.indices, 1), atol=1e-6)
    assert encoder.search(queries[0], documents, k=99).indices.shape == (1, 9)


FRAME = pd.DataFrame({"title": ["bread", "cats"], "text": toy_sentences(2)})


@pytest.mark.parametrize("texts", [FRAME, {"text": ["a dog"]}, {"a dog"}, b"a dog", 3], ids=type)
def test_anything_but_sentences_is_refused(texts: Any) -> None:
    encoder = tiny_encoder()
    for use in (encoder.encode, lambda texts: encoder.search("pets", texts)):
        with pytest.raises(InputError, match="of a table give one column"):
            use(texts)
    assert encoder.search("pets", FRAME["text"]).indices.shape == (1, 2)


def test_training_and_encoding_lengths_are_apart() -> None:
    encoder = tiny_encoder(max_length=8)
    text = " ".join(toy_sentences(3))
    assert len(encoder.tokenize([text], encoder.max_length)[0][0]) == 8
    assert len(encoder.tokenize([text], encoder.max_seq_length)[0][0]) > 8


def test_the_prompt_survives_truncation_and_a_mask_in_the_text() -> None:
    encoder = tiny_encoder(pooling="mask", prompt=PROMPT, max_length=4).eval()
    tokenizer = encoder.tokenize.tokenizer
    (short, long), cut = encoder.tokenize(["the", "[MASK] the the the the the"], encoder.max_length)
    assert cut == 1
    assert len(long) - len(short) == 3
    tokens = pad([short, long], encoder.tokenize.pad_token_id)
    states = encoder.backbone(input_ids=tokens.input_ids, attention_mask=tokens.attention_mask).last_hidden_state
    for row, ids in enumerate((short, long)):
        at = max(k for k, token in enumerate(ids) if token == tokenizer.mask_token_id)
        torch.testing.assert_close(encoder(tokens).embedding[row], states[row, at])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pooling": "avg"}, "pooling must be one of"),
        ({"pooling": "mask"}, "needs a prompt"),
        ({"prompt": "no slots"}, r"needs \[X\] once"),
        ({"max_length": 2}, "no room"),
        ({"tokenizer": None}, "no tokenizer"),
    ],
)
def test_settings_that_do_not_fit_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        tiny_encoder(**arguments).tokenize(["a"], arguments.get("max_length"))


def test_a_description_without_a_family_is_one_sentence() -> None:
    with pytest.raises(InputError, match="model_type"):
        SentenceEncoder({"hidden_size": 3})


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_a_head_acts_in_training_alone_and_may_be_of_another_width(kind: Any) -> None:
    encoder, plain, x = tiny_encoder(), tiny_encoder(), torch.randn(3, 32)
    encoder.attach_head(ProjectionHead(kind, out_features=8))
    assert encoder.head is not None
    expected = x @ encoder.head.dense.weight.T + encoder.head.dense.bias
    torch.testing.assert_close(encoder.project(x), expected.tanh() if kind == "mlp" else expected)
    spec = encoder.spec(seed=0)
    assert (spec.embedding_dim, spec.hidden_size, spec.vector_dim) == (8, 32, 32)
    np.testing.assert_array_equal(encoder.encode("a dog"), plain.encode("a dog"))
    assert plain.project(x) is x


@pytest.mark.parametrize("family", FAMILIES)
def test_given_word_embeddings_take_the_place_of_the_tokens(family: str) -> None:
    encoder = tiny_encoder(family, dropout=0.0)
    tokens = text_batch(encoder, toy_sentences(9)).anchor
    words, vectors = encoder.look_up(tokens), encoder(tokens).embedding
    torch.testing.assert_close(encoder(tokens, words).embedding, vectors)
    assert not torch.allclose(encoder(tokens, words.flip(1)).embedding, vectors, atol=1e-3)


def test_the_template_that_is_subtracted_stands_at_the_sentence_s_own_positions() -> None:
    encoder = tiny_encoder(pooling="mask", prompt=Prompt(PROMPT, subtract=True)).eval()
    plain = tiny_encoder(pooling="mask", prompt=PROMPT).eval()
    plain.load_state_dict(encoder.state_dict())
    prefix, suffix = encoder.tokenize.prefix, encoder.tokenize.suffix
    sentences = toy_sentences(6)
    for sentence, vector, whole in zip(
        sentences, encoder.encode(sentences), plain.encode(sentences, convert_to_tensor=True), strict=True
    ):
        (ids,), _ = encoder.tokenize([sentence], None)
        positions = [*range(len(prefix)), *range(len(ids) - len(suffix), len(ids))]
        template, at = torch.tensor([prefix + suffix]), torch.tensor([positions])
        states = encoder.backbone(input_ids=template, position_ids=at).last_hidden_state
        own = states[0, len(prefix) + encoder.tokenize.mask_index % len(suffix)]
        torch.testing.assert_close(torch.as_tensor(vector), (whole - own).detach(), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_template_is_subtracted_in_training_as_in_evaluation(family: str) -> None:
    encoder = tiny_encoder(family, pooling="mask", prompt=Prompt(PROMPT, subtract=True), dropout=0.0)
    tokens = text_batch(encoder, toy_sentences(6)).anchor
    encoder.train()
    trained = encoder(tokens).embedding
    encoder.eval()
    torch.testing.assert_close(trained, encoder(tokens).embedding, atol=1e-6, rtol=1e-5)
    trained[:, 0].sum().backward()
    assert encoder.backbone.get_input_embeddings().weight.grad[encoder.tokenize.suffix].abs().sum() > 0


def test_subtracting_a_template_travels_with_the_model(tmp_path: Path) -> None:
    encoder = tiny_encoder(pooling="mask", prompt=Prompt(PROMPT, subtract=True))
    (tmp_path / "1_Pooling").mkdir()  # of an older export
    with pytest.warns(UserWarning, match="sentence-transformers has no module"):
        encoder.save_pretrained(tmp_path)
    again = SentenceEncoder.from_pretrained(tmp_path)
    assert again.subtract_template
    sentences = toy_sentences(3)
    assert (encoder.encode(sentences) == again.encode(sentences)).all()


@pytest.mark.parametrize("split_special_tokens", [False, True])
def test_ids_are_those_of_the_tokenizer_itself(split_special_tokens: bool) -> None:
    tokenize = tiny_encoder().tokenize
    tokenize.tokenizer.split_special_tokens = split_special_tokens
    sentences = [*toy_sentences(5), "the [MASK] café, twice: [MASK]", ""]
    wanted = tokenize.tokenizer(sentences, verbose=False)["input_ids"]
    assert (tokenize.tokenizer.mask_token_id in wanted[5]) is not split_special_tokens
    tokenize.tokenizer("another caller leaves its settings", truncation=True, max_length=4, padding="max_length")
    assert tokenize(sentences, None) == (wanted, 0)
