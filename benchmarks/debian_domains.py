"""Two domains with a truth for `adapt_domains.py`, out of what every Debian system carries.

    apt-get download manpages manpages-dev && for file in manpages*.deb; do dpkg -x $file pages; done
    python benchmarks/debian_domains.py manuals --pages pages/usr/share/man --output DATA/manuals
    apt-get -o Acquire::Languages=en update
    /usr/lib/apt/apt-helper cat-file /var/lib/apt/lists/*_Packages* /var/lib/apt/lists/*_Translation-en* > packages.txt
    python benchmarks/debian_domains.py packages --packages packages.txt --output DATA/packages

``manuals``: Linux manual pages. The text is the name line and the description of a page. The truth is people's own
cross references: 300 pages are no part of the text, and from the name line of each, the pages that its SEE ALSO names
are to be found (BEIR's layout, nDCG@10).

``packages``: descriptions of packages. The truth is the archive's section (games, science, net, …), for texts that
are no part of what is adapted to (train.csv and test.csv, of 10-NN accuracy).

Needs groff for the pages.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np

SECTIONS = ("admin", "database", "editors", "electronics", "games", "graphics", "hamradio", "mail", "math", "net",
            "science", "sound", "tex", "text", "vcs", "video", "web")  # fmt: skip
"""Of packages: those that are topics, not forms of delivery (libs, doc, debug, …)."""
_QUERIES, _FEWEST = 300, 2
"""Pages that ask, each for at least so many others."""
_DOCUMENTS, _LABELLED = 5000, 1500
"""Packages to adapt to, and in each of train.csv and test.csv."""
_WORDS = 600
"""Of a page that are read."""


def main() -> None:
    """Write the domain asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("domain", choices=["manuals", "packages"])
    parser.add_argument("--pages", type=Path, help="folder with man1, man2, …")
    parser.add_argument("--packages", type=Path, help="stanzas of packages, and of their translations")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    if options.domain == "manuals":
        write_manuals(options.pages, options.output)
    else:
        write_packages(options.packages, options.output)


def write_manuals(pages: Path, output: Path) -> None:
    """Corpus, queries and judgements of the manual pages."""
    (output / "qrels").mkdir(parents=True, exist_ok=True)
    paths = sorted(pages.glob("man*/*.gz"))
    real = {_name(path): _name(path.resolve()) for path in paths}  # other names of a page are links to it
    found = {_name(path): _page(path) for path in paths if not path.is_symlink()}
    found = {name: page for name, page in found.items() if page.get("NAME") and page.get("DESCRIPTION")}
    named = {name: re.findall(r"([\w.+-]+)\((\d\w*)\)", page.get("SEE ALSO", "")) for name, page in found.items()}
    related = {
        name: {real.get(f"{other}.{number}", "") for other, number in others} & found.keys() - {name}
        for name, others in named.items()
    }
    asking = sorted(name for name, others in related.items() if len(others) >= _FEWEST)
    queries = np.random.default_rng(0).permutation(asking)[:_QUERIES].tolist()
    corpus = [name for name in found if name not in set(queries)]
    answers = {name: sorted(related[name] & set(corpus)) for name in queries}
    answers = {name: others for name, others in answers.items() if others}
    _write_json(
        output / "corpus.jsonl",
        [{"_id": name, "title": found[name]["NAME"], "text": found[name]["DESCRIPTION"]} for name in corpus],
    )
    _write_json(output / "queries.jsonl", [{"_id": name, "text": found[name]["NAME"]} for name in answers])
    lines = [f"{query}\t{other}\t1\n" for query, others in answers.items() for other in others]
    (output / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines), encoding="utf-8")
    print(f"{len(corpus)} pages, {len(answers)} queries, {len(lines)} cross references")


def _name(path: Path) -> str:
    return path.name.removesuffix(".gz")


def _page(path: Path) -> dict[str, str]:
    """Sections of a page by name; {} of a mere alias."""
    source = gzip.decompress(path.read_bytes())
    if source.startswith(b".so "):
        return {}
    # no hyphenation, no justified lines, and lines long enough to be paragraphs
    words = ["groff", "-t", "-man", "-Tutf8", "-P-cbou", "-rLL=1000n", "-rHY=0"]
    text = subprocess.run(words, input=source, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
    sections: dict[str, list[str]] = {"": []}
    for line in text.decode("utf-8", "replace").splitlines():
        if line and not line[0].isspace():
            sections[line.strip()] = []
        else:
            sections[next(reversed(sections))].append(" ".join(line.split()))
    paragraphs = {
        name: " ".join(line if line.endswith((".", ":", ";")) else f"{line}." for line in lines if line)
        for name, lines in sections.items()
    }
    paragraphs["NAME"] = paragraphs.get("NAME", "").rstrip(".")
    return {name: " ".join(text.split()[:_WORDS]) for name, text in paragraphs.items()}


def write_packages(packages: Path, output: Path) -> None:
    """Corpus and labelled texts of the package descriptions, one of each wording."""
    output.mkdir(parents=True, exist_ok=True)
    known: dict[str, dict[str, str]] = {}
    for fields in _stanzas(packages):
        known.setdefault(fields.get("Package", ""), {}).update(fields)
    texts: dict[str, tuple[str, str]] = {}
    for fields in known.values():
        description = fields.get("Description-en") or fields.get("Description", "")
        title, _, text = description.partition("\n")
        section = fields.get("Section", "").rpartition("/")[2]
        if section in SECTIONS and len(text.split()) >= 30:
            texts.setdefault(" ".join(text.split()), (title, section))
    order = np.random.default_rng(0).permutation(len(texts))
    rows = [(text, *rest) for text, rest in texts.items()]
    rows = [rows[number] for number in order]
    held, rest = rows[: 2 * _LABELLED], rows[2 * _LABELLED :][:_DOCUMENTS]
    _write_json(output / "corpus.jsonl", [{"title": title, "text": text} for text, title, _ in rest])
    for name, part in (("train", held[:_LABELLED]), ("test", held[_LABELLED:])):
        with (output / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["text", "category"])
            writer.writerows([f"{title}. {text}", section] for text, title, section in part)
    print(f"{len(rest)} packages to adapt to, {len(held)} with their section")


def _stanzas(path: Path) -> Iterator[dict[str, str]]:
    for stanza in path.read_text(encoding="utf-8").split("\n\n"):
        fields = re.findall(r"^([\w-]+): ?(.*(?:\n .*)*)", stanza, re.MULTILINE)
        yield {name: re.sub(r"\n \.?", "\n", value) for name, value in fields}


def _write_json(path: Path, rows: list[dict[str, str]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
