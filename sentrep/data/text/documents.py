"""Read files and folders of text as documents: a list of sentences, and a title if the text has one."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, dropwhile, groupby
from operator import not_
from pathlib import Path

from sentrep.data.sets.senteval import read_lines
from sentrep.data.text.cells import quoted, text_cell
from sentrep.data.text.corpus import find_sources
from sentrep.data.text.tables import Source, TableFile
from sentrep.errors import InputError
from sentrep.io.paths import expanded
from sentrep.types import Tokenize

logger = logging.getLogger("sentrep")

TITLES = ("title", "headline", "subject", "name", "question")
"""Names of a column of titles, the likelier first; case does not count."""
TEXTS = ("text", "body", "abstract", "content", "article", "document", "description", "answer", "passage", "sentence")
"""Names of a column of texts, likewise."""
_SECTION = 1000
"""Words of a section of a long document."""
_LONGEST_TITLE = 200
"""Characters of a line that may still be a title."""
# Each of these takes a time that is linear in the text: none can begin at many places and go on from each to its end.
_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]?[A-Z0-9À-Þ])|(?<=[。！？])")
_NO_END = re.compile(r"(\b(Dr|Mr|Mrs|Ms|Prof|St|Fig|Figs|Eq|No|vs|cf|al|e\.g|i\.e|approx|resp)|\b[A-Z])\.$")
"""Abbreviations and initials, whose full stop ends no sentence."""
_LONGEST_NO_END = len("approx.")
_HEADING = re.compile(r"#{1,6}\s")
_CODE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*(?:\([^()]*\)[^()]*)*\)")


@dataclass(frozen=True)
class Document:
    """One document."""

    title: str | None
    sentences: tuple[str, ...]
    """In their order, at least one; white space is single blanks."""

    @property
    def text(self) -> str:
        """All sentences."""
        return " ".join(self.sentences)


def load_documents(source: str | Path, columns: Sequence[str] | None = None) -> list[Document]:
    """Read all documents; blank and repeated documents are skipped and counted, very long ones are cut into sections.

    Args:
        source: a folder with .txt and .md files, however deep (a file is a document, a section of Markdown one of its
            own), or with tables; a folder in BEIR's layout, of which the corpus is read; a table (csv, tsv, jsonl,
            parquet) with a column of texts and perhaps one of titles; a .txt file, whose documents are separated by
            blank lines or, where there are none, one a line; a data set of the Hub. Compressed or not.
        columns: ``[title, text]`` or ``[text]``; None looks for `TITLES` and `TEXTS`.

    Raises:
        InputError: the source does not exist or cannot be read, no column is known, or there is no text.
    """
    if columns is not None and not 1 <= len(columns) <= 2:
        raise InputError(f"columns {list(columns)}: expected [title,text] or [text]")
    read = list(_read(str(source), columns))
    kept = {document.text: document for document in reversed(read) if document is not None}
    if not kept:
        raise InputError(f"{source}: no text in it; give documents with a title and a text, or sentences")
    blank = sum(document is None for document in read)
    left_out = f"; {blank} blank and {len(read) - blank - len(kept)} repeated ones are left out"
    logger.info("%s: %d documents%s", source, len(kept), left_out if len(kept) < len(read) else "")
    return [section for document in reversed(kept.values()) for section in _sections(document)]


def split_sentences(text: str) -> tuple[str, ...]:
    """The sentences of a running text: they end with a full stop and go on with a capital or a digit.

    Examples:
        >>> split_sentences("Cells die, e.g. by heat. Dr. Wu saw it. (It was hot.) 3 died.")
        ('Cells die, e.g. by heat.', 'Dr. Wu saw it.', '(It was hot.)', '3 died.')
    """
    found: list[str] = []
    text, start = " ".join(text.split()), 0
    for end in _END.finditer(text):
        if not _NO_END.search(text, max(start, end.start() - _LONGEST_NO_END), end.start()):
            found.append(text[start : end.end()].strip())
            start = end.end()
    return tuple(filter(None, [*found, text[start:].strip()]))


def split_passages(document: Document, tokens: Sequence[int], limit: int) -> list[tuple[str, ...]]:
    """Passages of whole sentences, as many in each as ``limit`` tokens allow; a longer sentence stands alone.

    Examples:
        >>> split_passages(Document(None, ("a b", "c", "d e f")), [2, 1, 3], 4)
        [('a b', 'c'), ('d e f',)]
    """
    passages: list[list[str]] = []
    used = limit
    for sentence, count in zip(document.sentences, tokens, strict=True):
        if used + count > limit:
            passages.append([])
            used = 0
        passages[-1].append(sentence)
        used += count
    return [tuple(passage) for passage in passages]


def count_tokens(documents: Sequence[Document], tokenize: Tokenize) -> Iterator[list[int]]:
    """Yields, for each document, how many tokens each of its sentences has as a part of a longer text."""
    frame = len(tokenize([""], None)[0][0])
    ids = tokenize([sentence for document in documents for sentence in document.sentences], None)[0]
    lengths = (len(row) - frame for row in ids)
    for document in documents:
        yield [next(lengths) for _ in document.sentences]


def _document(title: str | None, text: str | Iterable[str]) -> Document | None:
    """None for a blank one. A title that opens the text is no part of it: finding it there would be no art."""
    title = " ".join((title or "").split()) or None
    parts = [text] if isinstance(text, str) else list(text)
    if title and parts:
        first = " ".join(parts[0].split())
        parts[0] = first[len(title) :].lstrip(" .:-–—") if first.lower().startswith(title.lower()) else first
    sentences = tuple(chain.from_iterable(map(split_sentences, parts)))
    return Document(title, sentences) if any(map(str.strip, sentences)) else None


def _sections(document: Document) -> Iterator[Document]:
    """The document, or its sections if it is longer than two of them; the first section has the title."""
    words = list(accumulate((len(sentence.split()) for sentence in document.sentences), initial=0))
    if words[-1] <= 2 * _SECTION:
        yield document
        return
    for section, rows in groupby(zip(words, document.sentences, strict=False), key=lambda row: row[0] // _SECTION):
        yield Document(None if section else document.title, tuple(sentence for _, sentence in rows))


def _read(source: str, columns: Sequence[str] | None) -> Iterator[Document | None]:
    path = expanded(source)
    saved = any((path / name).exists() for name in ("dataset_info.json", "dataset_dict.json"))  # by ``datasets``
    if path.is_dir() and not saved:
        for file in _files(path):
            yield from [_plain(read_lines(file))] if file.suffix.lower() == ".txt" else _read(str(file), columns)
    elif path.suffix.lower() == ".md" and path.is_file():
        yield from _markdown(read_lines(path))
    else:
        for found in find_sources(source):
            yield from _documents(found, columns)


def _files(folder: Path) -> list[Path]:
    """The files to read in a folder: the corpus of BEIR's layout, or every text file."""
    if (folder / "corpus.jsonl").is_file():
        return [folder / "corpus.jsonl"]
    endings = (".txt", ".md", ".csv", ".tsv", ".jsonl", ".parquet")
    files = [file for file in sorted(folder.rglob("*")) if file.suffix.lower() in endings and not file.is_dir()]
    if not files:
        raise InputError(f"{folder}: no .txt, .md, .csv, .jsonl or .parquet file in this folder; name another one")
    return files


def _documents(source: Source, columns: Sequence[str] | None) -> Iterator[Document | None]:
    """Documents of a table, or of a .txt file: its lines, or its blocks between blank lines."""
    lines = isinstance(source, TableFile) and source.format == ".txt"
    rows = source.rows(None if lines else columns or _known_columns(source))
    cells = [[text_cell(cell, where) for cell in row] for where, row in rows]
    filled = [any(map(str.strip, row)) for row in cells]
    if lines and any(filled) and not all(filled):
        blocks = groupby(zip(filled, cells, strict=True), key=lambda row: row[0])
        yield from (_document(None, [row[0] for _, row in block]) for is_text, block in blocks if is_text)
    else:
        yield from (_document(row[0] if len(row) > 1 else None, row[-1]) for row in cells)


def _known_columns(source: Source) -> list[str]:
    """The columns of titles and texts; of texts alone if the table has no titles."""
    found = source.columns()
    title, text = (
        next((column for name in names for column in found if column.lower() == name), None)
        for names in (TITLES, TEXTS)
    )
    if text is None:
        raise InputError(
            f"{source.name}: which column holds the text? Found {quoted(found)}; name title and text (--columns "
            "[title,text]), or the text alone"
        )
    return [text] if title is None else [title, text]


def _plain(lines: Iterable[str]) -> Document | None:
    """A text file as a document. The first line is the title if it is short, stands alone and has no full stop."""
    lines = list(dropwhile(not_, map(str.strip, lines)))
    if len(lines) > 2 and not lines[1] and len(lines[0]) <= _LONGEST_TITLE and lines[0][-1] not in ".!?,;":
        return _document(lines[0], _paragraphs(lines[2:]))
    return _document(None, _paragraphs(lines))


def _paragraphs(lines: Iterable[str]) -> list[str]:
    """Lines joined up to the next blank one."""
    return [" ".join(block) for filled, block in groupby(map(str.strip, lines), key=bool) if filled]


def _markdown(lines: Iterable[str]) -> Iterator[Document | None]:
    """A document for each section with text; its title is the page's and its own heading."""
    page, heading, section = "", "", list[str]()
    for line in [*_LINK.sub(r"\1", _CODE.sub("", "\n".join(lines))).split("\n"), "# "]:
        found = _HEADING.match(line)
        if found is None or len(line) > _LONGEST_TITLE:
            section.append(line)
            continue
        if any(map(str.strip, section)):
            yield _document(heading and (page if heading == page else f"{page}: {heading}"), _paragraphs(section))
        heading, section = line[found.end() :].rstrip("# \t"), []
        page = page or heading
