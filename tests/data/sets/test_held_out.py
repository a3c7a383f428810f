"""Held-out sentences: which ones, and that no row that is trained on has one of them."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from words import WordTokenize

from sentrep.data import Reading, SentRepDataModule, TokenizedCorpus, TokenizedRows, open_corpus, tokenize_corpus
from sentrep.data.sets.held_out import HeldOut, hold_out
from sentrep.data.text import tokenized as module
from sentrep.errors import InputError


def tokens_of(path: Path, lines: list[str], head: str | None = None) -> TokenizedCorpus:
    path.write_text("\n".join([*([head] if head else []), *lines]) + "\n")
    return tokenize_corpus(open_corpus(path), TokenizedRows(WordTokenize(), 8), path.parent / "cache")


def test_keys_are_equal_for_equal_ids_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK_ROWS", 5)  # sentences meet across record batches of other lengths
    words = ["a", "b", "c"]
    lines = [" ".join(line) for size in (1, 2, 3, 4) for line in itertools.product(words, repeat=size)]
    tokens = tokens_of(tmp_path / "x.txt", lines + lines[::-1])
    keys = tokens.sentence_keys()
    assert keys.shape == (2 * len(lines), 1)
    assert len(np.unique(keys)) == len(lines)
    assert np.array_equal(keys[: len(lines)], keys[len(lines) :][::-1])


def test_a_held_out_sentence_is_in_no_row_of_the_training(tmp_path: Path) -> None:
    lines = [f"sentence {n % 60},positive {n}" for n in range(90)] + [f"other {n},sentence {n}" for n in range(40)]
    tokens = tokens_of(tmp_path / "x.csv", lines, head="sent0,sent1")
    held_out, rows = hold_out(tokens, 20)
    texts = {tuple(ids) for ids in held_out.ids}
    assert len(held_out) == len(texts) == 20
    everything, kept = tokens[range(len(tokens))], rows[range(len(rows))]
    assert texts <= {tuple(ids.tolist()) for ids in everything.columns[0]}
    assert not any(tuple(ids.tolist()) in texts for column in kept.columns for ids in column)
    touched = [row for row in zip(*everything.columns, strict=True) if any(tuple(ids.tolist()) in texts for ids in row)]
    assert len(rows) == len(tokens) - len(touched)
    assert kept.rows.tolist() == sorted(kept.rows.tolist())


def test_the_choice_is_the_same_every_time_and_looks_at_the_whole_text(tmp_path: Path) -> None:
    tokens = tokens_of(tmp_path / "x.txt", [f"sentence {n}" for n in range(200)])
    one, two = hold_out(tokens, 10)[0], hold_out(tokens, 10)[0]
    assert one.ids == two.ids
    more = hold_out(tokens, 30)[0]
    assert more.ids[:10] == one.ids
    first = {tuple(ids.tolist()) for ids in tokens[range(100)].columns[0]}
    assert 5 < sum(tuple(ids) in first for ids in more.ids) < 25


def connected(path: Path, **options: object) -> SentRepDataModule:
    data = SentRepDataModule(str(path), batch_size=4, **options)  # type: ignore[arg-type]
    data.connect(WordTokenize(), 8)
    data.setup("fit")
    return data


def test_the_datamodule_trains_on_the_rest_and_validates_on_them(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("\n".join(f"sentence {n % 30}" for n in range(40)))
    plain, data = connected(path), connected(path, held_out=10, val=["toy-dev"], reading=Reading(num_workers=1))
    assert data.held_out_sentences is not None
    *_, last = (batch for loader in data.val_dataloader() for batch in loader)
    assert isinstance(last, HeldOut)
    seen = [
        tuple(ids[mask.bool()].tolist())
        for batch in data.train_dataloader()
        for ids, mask in zip(batch.anchor.input_ids, batch.anchor.attention_mask, strict=True)
    ]
    removed = sum((n % 30) in {ids_to_number(ids) for ids in last.ids} for n in range(40))
    assert 10 <= removed <= 20
    assert len(seen) == (40 - removed) // 4 * 4
    assert not {tuple(ids) for ids in last.ids} & set(seen)
    report = data.report()["train"]
    assert (report["held out"], report["held-out rows"]) == (10, removed)
    assert "held out" not in plain.report()["train"]
    assert len({plain.fingerprint, data.fingerprint, connected(path, held_out=11).fingerprint}) == 3
    assert connected(path, held_out=10, seed=7).held_out_sentences == data.held_out_sentences


def ids_to_number(ids: list[int]) -> int:
    return next(n for n in range(30) if WordTokenize()([f"sentence {n}"], 8)[0][0] == ids)


def test_another_number_of_held_out_sentences_is_no_resume(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("\n".join(f"sentence {n}" for n in range(40)))
    state = connected(path, held_out=4).train_dataloader().state_dict()
    connected(path, held_out=4).train_dataloader().load_state_dict(state)
    with pytest.raises(InputError, match="cannot resume"):
        connected(path, held_out=5).train_dataloader().load_state_dict(state)
