"""Text as people have it becomes documents: folders, tables, lines."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentrep.data.text.documents import Document, count_tokens, load_documents, split_passages, split_sentences
from sentrep.errors import InputError
from support import tiny_encoder

MARKDOWN = """# Pumps

A pump moves water. It is [old](x.html).

```
# no heading
```
## Care
Oil it daily. Do not run it dry.
"""


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_folder_of_files_is_read_whole(tmp_path: Path) -> None:
    write(tmp_path, "b/pumps.md", MARKDOWN)
    write(tmp_path, "a.txt", "How a mill works\n\nA mill turns. It\ngrinds corn.\n\nWind drives it.\n")
    write(tmp_path, "c.txt", "No title here. Only text.\n")
    write(tmp_path, "z.html", "<p>not read</p>")
    assert load_documents(tmp_path) == [
        Document("How a mill works", ("A mill turns.", "It grinds corn.", "Wind drives it.")),
        Document("Pumps", ("A pump moves water.", "It is old.")),
        Document("Pumps: Care", ("Oil it daily.", "Do not run it dry.")),
        Document(None, ("No title here.", "Only text.")),
    ]


@pytest.mark.parametrize("name", ["corpus.jsonl", "table.csv", "table.tsv"])
def test_columns_are_guessed_and_a_title_that_opens_the_text_is_taken_out(tmp_path: Path, name: str) -> None:
    rows = [("1", "On cells", "On cells. They die. They grow."), ("2", "", "Blank title."), ("3", "Void", "")]
    if name.endswith("jsonl"):
        text = "".join(json.dumps({"_id": a, "title": b, "text": c}) + "\n" for a, b, c in rows)
    else:
        cell = "\t" if name.endswith("tsv") else ","
        text = "".join(cell.join(row) + "\n" for row in [("id", "Headline", "Abstract"), *rows])
    path = write(tmp_path, name, text)
    found = [Document("On cells", ("They die.", "They grow.")), Document(None, ("Blank title.",))]
    assert load_documents(path) == found
    assert load_documents(tmp_path) == found  # a folder in BEIR's layout, or of tables


def test_lines_are_documents_unless_blank_lines_separate_them(tmp_path: Path) -> None:
    lines = write(tmp_path, "a.txt", "One. Two.\nThree.\nThree.\n")
    assert load_documents(lines) == [Document(None, ("One.", "Two.")), Document(None, ("Three.",))]
    blocks = write(tmp_path, "b.txt", "one\ntwo\n\n\nthree\n")
    assert load_documents(blocks) == [Document(None, ("one", "two")), Document(None, ("three",))]


PIECES = [*"aZé1 \n\t.!?\"')([。", "J. ", "Dr. ", "e.g. ", "x. Y", "\u2028", "😀"]


@settings(deadline=None, max_examples=300)
@given(st.lists(st.sampled_from(PIECES) | st.characters()))
def test_sentences_are_all_of_the_text_in_its_order(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("name", "piece"),
    [
        ("a.txt", "J. K. L. "),
        ("a.txt", "。"),
        ("a.txt", '."))'),
        ("a.txt", "\n"),
        ("a.md", "["),
        ("a.md", "[a]("),
        ("a.md", "[a](b(c)"),
        ("a.md", "```\n~~~\nx\n"),
        ("a.md", "# "),
        ("a.md", "# A\n\nb\n\n"),
    ],
)
def test_splitting_takes_no_more_than_linear_time(name: str, piece: str, tmp_path: Path) -> None:
    """Each takes seconds; by a search from the beginning for every piece it took minutes to hours."""
    write(tmp_path, name, f"# {' ' * 10**6}x\n{piece * 300_000}\nThe end.\n")
    assert load_documents(tmp_path)[-1].sentences[-1].endswith("The end.")


def test_a_folder_is_read_but_for_what_waits_for_ever(tmp_path: Path) -> None:
    write(tmp_path, "notes.md/a.txt", "One.")
    (tmp_path / "loop.txt").symlink_to(tmp_path)
    assert load_documents(tmp_path) == [Document(None, ("One.",))]
    os.mkfifo(tmp_path / "b.txt")
    with pytest.raises(InputError, match=r"b\.txt: a pipe"):
        load_documents(tmp_path)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("[Fish](x_(y).html)", "Fish"),
        ("[![Built](a.svg)](b)", "[Built](b)"),
        ("a [b c", "a [b c"),
        ("#Tag", "#Tag"),
        ("#  ", ""),
        ("# " + "Long " * 60, "# " + "Long " * 60),
    ],
)
def test_markdown_that_is_none_is_text(line: str, text: str, tmp_path: Path) -> None:
    (found,) = load_documents(write(tmp_path, "a.md", f"{line}\n\nEnd.\n"))
    assert found == Document(None, tuple(filter(None, [text.strip(), "End."])))


def test_a_book_is_cut_into_sections(tmp_path: Path) -> None:
    sentences = [f"This is sentence {n} of a long book." for n in range(400)]
    book = write(tmp_path, "book.txt", "A book\n\n" + "\n".join(sentences))
    found = load_documents(book.parent)
    assert [document.title for document in found] == ["A book", None, None, None]
    assert [s for document in found for s in document.sentences] == sentences


def test_passages_keep_within_the_models_length() -> None:
    tokenize = tiny_encoder().tokenize
    document = Document(None, tuple(f"the {word} of the old house" for word in ("door", "roof", "wall", "door")))
    (counts,) = count_tokens([document], tokenize)
    passages = split_passages(document, counts, 2 * max(counts))
    assert [sentence for passage in passages for sentence in passage] == list(document.sentences)
    assert len(passages) > 1
    for passage in passages:
        assert len(tokenize([" ".join(passage)], None)[0][0]) <= 2 * max(counts) + len(tokenize([""], None)[0][0])
