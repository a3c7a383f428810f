"""Odd text is read as it is; damage that the table of bad inputs has no row for; and fuzzing of every reader."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sentrep import InputError, SentenceEncoder, SentRepDataModule, SentRepModule
from sentrep.cli import main
from sentrep.data.batches.collate import Collate
from sentrep.data.sets.beir import load_reranking, load_retrieval
from sentrep.data.sets.labelled import load_labelled_file
from sentrep.data.sets.sts import load_sts
from sentrep.data.text.corpus import open_corpus
from sentrep.data.text.tokenized import TokenRows
from sentrep.objectives import Contrastive
from support import tiny_encoder, toy_sentences


def assert_one_sentence(error: BaseException, *parts: str) -> None:
    """A message for people: short, no traceback in it, and naming what it should."""
    message = str(error)
    assert 10 < len(message) < 600, message
    assert "Traceback" not in message
    for part in parts:
        assert part in message


READ = {
    "bom": ("a.txt", b"\xef\xbb\xbfone\ntwo\n", ["one", "two"]),
    "mixed line ends": ("a.txt", b"one\r\ntwo\rthree\nfour", ["one", "two", "three", "four"]),
    "no other line ends": ("a.txt", "a\x0bb\x0cc\x85d\u2028e\n".encode(), ["a\x0bb\x0cc\x85d\u2028e"]),
    "control characters": ("a.txt", b"a\x01\x1b[2Jb\x7f\n", ["a\x01\x1b[2Jb\x7f"]),
    "zero width": ("a.txt", "a\u200bb\ufeffc\n".encode(), ["a\u200bb\ufeffc"]),
    "emoji": ("a.txt", "👩‍👩‍👧 ok 🏳️‍🌈\n".encode(), ["👩‍👩‍👧 ok 🏳️‍🌈"]),
    "right to left": ("a.txt", "\u202eשלום \u2067عالم\n".encode(), ["\u202eשלום \u2067عالم"]),
    "blank lines": ("a.txt", b"\n \nx\n\n", ["", " ", "x", ""]),
    "nothing": ("a.txt", b"", []),
    "line break in a cell": ("a.csv", b'text\n"a\nb"\n', ["a\nb"]),
    "csv with a bom": ("a.csv", b"\xef\xbb\xbftext\nx\n", ["x"]),
    "doubled quotes": ("a.csv", b'text\n"a ""b"""\n', ['a "b"']),
    "quotes in a tsv": ("a.tsv", b'text\t2\n"a\t1\n', ['"a']),
    "escapes": ("a.jsonl", rb'{"text": "\u00e9\ud83d\ude00"}' + b"\n", ["é😀"]),
    "null": ("a.jsonl", b'{"text": null}\n', [""]),
    "only a header": ("a.csv", b"text\n", []),
    "a long line": ("a.txt", b"x" * 10**6, ["x" * 10**6]),
}


@pytest.mark.parametrize("case", READ)
def test_odd_text_is_read_as_it_is(case: str, tmp_path: Path) -> None:
    name, content, expected = READ[case]
    (tmp_path / name).write_bytes(content)
    assert [row.sentences[0] for row in open_corpus(tmp_path / name).rows()] == expected


UNREADABLE = {
    "cut in a character": ("a.txt", b"ok\nk\xc3", "not valid UTF-8"),
    "half a surrogate pair": ("a.jsonl", rb'{"text": "\ud800"}', "surrogate"),
    "empty parquet": ("a.parquet", b"", "damaged"),
    "no zip": ("a.txt.zip", b"plain", "damaged"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_unreadable_text_is_named(case: str, tmp_path: Path) -> None:
    name, content, message = UNREADABLE[case]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as caught:
        list(open_corpus(tmp_path / name).rows())
    assert_one_sentence(caught.value, name, message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("sentence1,sentence2,score\na,b,nan\n", "row 1"),
        ("sentence1,sentence2,score\na,b,1e999\n", "row 1"),
        ("sentence1,sentence2,score\na,b,good\n", "'good'"),
        ("sentence1,sentence2,score\na,b,\n", "row 1"),
        ("sentence1,sentence2,score\n,,1\n", "no scored pairs"),
        ("sentence1,sentence2\na,b\n", "score"),
    ],
)
def test_bad_scores_are_named(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "dev.csv").write_text(content)
    with pytest.raises(InputError) as caught:
        load_sts(str(tmp_path / "dev.csv"))
    assert_one_sentence(caught.value, "dev.csv", message)


def test_a_score_beyond_all_numbers(tmp_path: Path) -> None:
    (tmp_path / "dev.jsonl").write_text(f'{{"sentence1": "a", "sentence2": "b", "score": 1{"0" * 400}}}\n')
    with pytest.raises(InputError, match=r"row 1: the score .* is not a finite number"):
        load_sts(str(tmp_path / "dev.jsonl"))


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    return tiny_encoder().eval()


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "\n", "\0", "a\0b", "\x1b[2J", "\u200b\u200d\ufeff", "👩‍👩‍👧", "\u202eשלום", "a\r\nb\rc", "\ufffd",
        "x" * 10**6, "word " * 200_000, "\U0010ffff", "[CLS] [MASK] [PAD]", "é" * 1000,
    ],
    ids=lambda text: repr(text[:12]),
)  # fmt: skip
def test_any_text_has_a_vector(text: str, encoder: SentenceEncoder) -> None:
    vectors = encoder.encode([text, "a dog"], show_progress_bar=False)
    assert vectors.shape == (2, 32)
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(vectors[1], encoder.encode("a dog", show_progress_bar=False), atol=1e-6)


@pytest.mark.parametrize("nothing", [[], (), iter([]), np.array([], dtype=str)], ids=lambda kind: type(kind).__name__)
def test_no_sentences_have_no_vectors(nothing: Any, encoder: SentenceEncoder) -> None:
    assert encoder.encode(nothing, show_progress_bar=False).shape == (0, 32)


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        (None, "NoneType"),
        (5, "int"),
        (b"bytes", "bytes"),
        ({"a": 1}, "dict"),
        (["a", None], "sentence 1 is NoneType"),
        (["a", float("nan")], "sentence 1 is float"),
        ([b"a"], "sentence 0 is bytes"),
        ([["a"]], "sentence 0 is list"),
        (["a", "b\ud800"], "sentence 1 has half a surrogate pair at character 1"),
        ("\udfff", "surrogate"),
    ],
)
def test_what_is_no_sentence_is_named(sentences: Any, message: str, encoder: SentenceEncoder) -> None:
    with pytest.raises(InputError) as caught:
        encoder.encode(sentences, show_progress_bar=False)
    assert_one_sentence(caught.value, message)


@pytest.mark.parametrize("size", [0, -1])
def test_a_batch_needs_a_size(size: int, encoder: SentenceEncoder) -> None:
    with pytest.raises(InputError, match="batch_size must be at least 1"):
        encoder.encode(["a"], size)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["encode", "no-such.ckpt", "--output", "v.npy", "--input", "no.txt"], "no.txt"),
        (["encode", "x" * 300, "--output", "v.txt", "--input", "in.txt"], "must end in"),
        (["encode", "x" * 300, "--output", "v.npy", "--input", "in.txt"], "no such folder or checkpoint"),
        (["encode", "../x", "--output", "v.npy", "--input", "in.txt"], "../x"),
        (["encode", "in.txt", "--output", "v.npy", "--input", "in.txt"], "in.txt: is no checkpoint"),
        (["encode", ".", "--output", "v.npy", "--input", "in.txt"], "holds no model"),
        (["export", "in.txt", "folder"], "in.txt"),
        (["evaluate", ".", "--sets", "nothing"], "unknown evaluation set"),
        (["evaluate", ".", "--output", "x.docx"], "no format for the ending"),
        (["fit", "-c", "."], "is a folder"),
        (["fit", "--"], "needs a value"),
        (["fit", "--model.objectives.x"], "--model.objectives.x needs a value"),
        (["test", "--ckpt_path", "in.txt"], "in.txt"),
        (["test", "--ckpt_path", "."], "a folder, where a plain file is needed"),
        (["fitt"], "did you mean 'fit'"),
        (["\x1b[31mfit"], "\\x1b[31mfit"),
    ],
)
def test_the_command_line_says_it_in_a_line(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.txt").write_text("a dog\n")
    assert main(words) in (1, 2)
    error = capsys.readouterr().err
    assert error.startswith("sentrep: error: ")
    assert error.count("\n") == 1
    assert message in error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A checkpoint of one step."""
    folder = tmp_path_factory.mktemp("saved")
    (folder / "corpus.txt").write_text("\n".join(toy_sentences(8)))
    trainer = lightning.Trainer(
        max_steps=1, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
        enable_checkpointing=False, default_root_dir=folder,
    )  # fmt: skip
    data = SentRepDataModule(str(folder / "corpus.txt"), batch_size=4)
    trainer.fit(SentRepModule(tiny_encoder(), [Contrastive()]), data)
    trainer.save_checkpoint(folder / "saved.ckpt")
    return torch.load(folder / "saved.ckpt", weights_only=True)


def _payload(**parts: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda checkpoint: checkpoint["sentrep"].update(parts)


def _setting(**parts: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda checkpoint: checkpoint["sentrep"]["settings"].update(parts)


def _weights(change: Callable[[Any], Any]) -> Callable[[dict[str, Any]], Any]:
    def changed(checkpoint: dict[str, Any]) -> None:
        name = next(name for name in checkpoint["state_dict"] if name.endswith("word_embeddings.weight"))
        checkpoint["state_dict"][name] = change(checkpoint["state_dict"][name])

    return changed


BROKEN: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no payload": lambda checkpoint: checkpoint.pop("sentrep"),
    "payload is text": lambda checkpoint: checkpoint.update(sentrep="x"),
    "no settings": lambda checkpoint: checkpoint["sentrep"].pop("settings"),
    "no architecture": lambda checkpoint: checkpoint["sentrep"].pop("architecture"),
    "no tokenizer": lambda checkpoint: checkpoint["sentrep"].pop("tokenizer"),
    "empty architecture": _payload(architecture={}),
    "unknown architecture": _payload(architecture={"model_type": "nothing"}),
    "architecture of wrong types": _payload(architecture={"model_type": "bert", "hidden_size": "x"}),
    "empty tokenizer": _payload(tokenizer={}),
    "damaged tokenizer": _payload(tokenizer={"tokenizer.json": "{", "tokenizer_config.json": "{"}),
    "tokenizer of numbers": _payload(tokenizer={"tokenizer.json": 5}),
    "unknown pooling": _setting(pooling="nothing"),
    "pooling is a number": _setting(pooling=5),
    "length is text": _setting(max_length="x"),
    "prompt is a list": _setting(prompt=[1]),
    "unknown setting": _setting(colour="red"),
    "head of another kind": _setting(head={"kind": "nothing", "keep": True}),
    "head with other arguments": _setting(head={"colour": "red", "keep": True}),
    "no weights": lambda checkpoint: checkpoint.pop("state_dict"),
    "empty weights": lambda checkpoint: checkpoint.update(state_dict={}),
    "weights of another shape": _weights(lambda tensor: tensor[:, :3].clone()),
    "weights are text": _weights(lambda tensor: "x"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_checkpoint_is_named(case: str, saved: dict[str, Any], tmp_path: Path) -> None:
    checkpoint = copy.deepcopy(saved)
    BROKEN[case](checkpoint)
    torch.save(checkpoint, tmp_path / "x.ckpt")
    with pytest.raises(InputError) as caught:
        SentenceEncoder.from_pretrained(tmp_path / "x.ckpt")
    assert_one_sentence(caught.value)


@pytest.mark.parametrize(
    "recorded", [None, 5, {}, {"encoder": 5}, {"encoder": None, "objectives": {}}, {"encoder": {"init_args": 5}}]
)
def test_a_checkpoint_that_does_not_say_how_it_was_built(recorded: Any, saved: dict[str, Any], tmp_path: Path) -> None:
    torch.save({**saved, "hyper_parameters": recorded}, tmp_path / "x.ckpt")
    with pytest.raises(InputError, match=r"x\.ckpt: the checkpoint does not say how its model was built"):
        SentRepModule.load_from_checkpoint(tmp_path / "x.ckpt")


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("sentrep.json", "[]"),
        ("sentrep.json", "{"),
        ("sentrep.json", '{"pooling": null}'),
        ("sentrep.json", '{"normalize": 1}'),
        ("sentrep.json", '{"head": 5}'),
        ("sentrep.json", '{"head": {"kind": "mlp", "keep": true}}'),
        ("sentrep.json", "[" * 100_000),
        ("config.json", "{"),
        ("config.json", "[]"),
        ("model.safetensors", "x"),
        ("modules.json", "[]"),
        ("modules.json", "{}"),
        ("modules.json", "[5]"),
        ("modules.json", '[{"path": ""}]'),
        ("modules.json", '[{"type": "Transformer", "path": 5}]'),
        ("modules.json", "\ufeff["),
    ],
)
def test_a_broken_folder_is_named(file: str, content: str, tmp_path: Path) -> None:
    tiny_encoder(pooling="mean").save_pretrained(tmp_path)
    (tmp_path / file).write_text(content)
    with pytest.raises(InputError) as caught:
        SentenceEncoder.from_pretrained(tmp_path)
    assert_one_sentence(caught.value, tmp_path.name)


# --- fuzzing ----------------------------------------------------------------------------------------------------------

fuzz = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)
CELLS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.lists(st.text(max_size=2))
)
PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            [b"\n", b"\r", b",", b"\t", b'"', b"text", b"label", b"score", b"{", b"}", b"\xff", b"\x00", b"1"]
        ),
        st.binary(max_size=6),
    ),
    max_size=30,
).map(b"".join)


def read_or_refuse(read: Callable[[], Any]) -> None:
    """Nothing but an `InputError` may come of any bytes."""
    with contextlib.suppress(InputError):
        read()


@pytest.mark.parametrize("ending", [".txt", ".csv", ".tsv", ".jsonl", ".parquet", ".txt.gz", ".csv.zip"])
@fuzz
@given(content=PIECES, header=st.sampled_from([b"", b"text\n", b"sent0,sent1\n", b'{"text": "a"}\n']))
def test_no_bytes_break_the_corpus(ending: str, content: bytes, header: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"a{ending}"
    path.write_bytes(header + content)
    read_or_refuse(lambda: list(open_corpus(path).rows()))
    if ending in (".csv", ".tsv"):
        read_or_refuse(lambda: list(open_corpus(path, [0]).rows()))


@fuzz
@given(content=PIECES, rows=st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=4))
def test_no_bytes_break_a_set_of_pairs(content: bytes, rows: list[Any], tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"sentence1,sentence2,score\n" + content)
    read_or_refuse(lambda: load_sts(str(tmp_path / "a.csv")))
    records = [dict(zip(("sentence1", "sentence2", "score"), row, strict=True)) for row in rows]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    read_or_refuse(lambda: load_sts(str(tmp_path / "a.jsonl")))


@fuzz
@given(content=PIECES, rows=st.lists(st.tuples(CELLS, CELLS), max_size=4))
def test_no_bytes_break_a_labelled_table(content: bytes, rows: list[Any], tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"text,label\n" + content)
    read_or_refuse(lambda: load_labelled_file(tmp_path / "a.csv"))
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": t, "label": label}) + "\n" for t, label in rows))
    read_or_refuse(lambda: load_labelled_file(tmp_path / "a.jsonl"))


@fuzz
@given(
    documents=st.lists(st.tuples(CELLS, CELLS), max_size=3),
    queries=st.lists(st.tuples(CELLS, CELLS), max_size=3),
    grades=PIECES,
    ranked=st.lists(st.tuples(CELLS, CELLS), max_size=3),
)
def test_nothing_breaks_a_folder_of_beir(
    documents: list[Any], queries: list[Any], grades: bytes, ranked: list[Any], tmp_path: Path
) -> None:
    def write(name: str, keys: tuple[str, str], rows: list[Any], first: dict[str, Any]) -> None:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        records = [first, *(dict(zip(keys, row, strict=True)) for row in rows)]
        (tmp_path / name).write_text("".join(json.dumps(record) + "\n" for record in records))

    write("corpus.jsonl", ("_id", "text"), documents, {"_id": "d1", "text": "a"})
    write("queries.jsonl", ("_id", "text"), queries, {"_id": "q1", "text": "a"})
    write("top_ranked/test.jsonl", ("query-id", "corpus-ids"), ranked, {"query-id": "q1", "corpus-ids": ["d1"]})
    (tmp_path / "qrels").mkdir(exist_ok=True)
    (tmp_path / "qrels" / "test.tsv").write_bytes(b"query-id\tcorpus-id\tscore\nq1\td1\t1\n" + grades)
    read_or_refuse(lambda: list(load_retrieval(tmp_path).documents()))
    read_or_refuse(lambda: load_reranking(tmp_path))


@fuzz
@given(
    rows=st.integers(1, 3).flatmap(
        lambda width: st.lists(
            st.tuples(*[st.lists(st.integers(1, 2**31 - 1), max_size=9)] * width), min_size=1, max_size=6
        )
    ),
    padding=st.integers(0, 100),
)
def test_any_rows_of_tokens_make_a_batch(rows: list[tuple[list[int], ...]], padding: int) -> None:
    batch = Collate(padding)(
        TokenRows(
            np.arange(len(rows)), [[np.array(ids, np.int32) for ids in column] for column in zip(*rows, strict=True)]
        )
    )
    for column, tokens in zip(zip(*rows, strict=True), (batch.anchor, batch.positive, batch.negative), strict=False):
        assert tokens is not None
        for ids, found, mask in zip(column, tokens.input_ids.tolist(), tokens.attention_mask.tolist(), strict=True):
            assert found == ids + [padding] * (len(found) - len(ids))
            assert mask == [1] * len(ids) + [0] * (len(found) - len(ids))
