"""The page and the Markdown: every part, every text as it is, and nothing but text."""

from __future__ import annotations

import html
from html.parser import HTMLParser
from pathlib import Path

import pytest
from browser import CHROMIUM, browser

from adaptation.sample import NOTHING, made_up
from sentrep.adaptation.report import write_report

NASTY = "<script>alert(1)</script> & 'x' <!-- ]]> </title></style> \x1b[2J\u202e http://x.example/a.png | `b`"
LONG = "/a/very/long/path/" + "without_any_place_to_break" * 12


class Page(HTMLParser):
    """Checks that tags close, and collects them with their attributes, and the text outside of style."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self._open:
            self.text += data


def test_the_page_has_every_part_and_stands_alone(tmp_path: Path) -> None:
    written = write_report(made_up(), tmp_path / "new")
    assert written == tmp_path / "new" / "report.html"
    assert sorted(path.name for path in written.parent.iterdir()) == ["report.html", "report.md"]
    page = Page(written.read_text(encoding="utf-8"))
    kinds = [tag for tag, _ in page.tags]
    assert kinds.count("h1") == 1
    assert kinds.count("h2") == 5
    assert "weight of matching words" in page.text
    assert "trained on 640 of 999 pairs" in page.text
    assert not {"script", "link", "iframe", "img", "object"} & set(kinds)
    for _, attributes in page.tags:
        for name in ("src", "href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith("#")
    assert ("html", {"lang": "en"}) in page.tags
    assert any(a.get("name") == "viewport" for _, a in page.tags)
    assert all(a.get("aria-label") for tag, a in page.tags if tag == "svg")
    for seen in (
        "Better: a text",
        "Nothing is sure. Try a text.",
        "80.0 [79.0, 81.0]",
        "+2.50 [+1.50, +3.50]",
        "worse",
        "71.2",
        "31%",
        "1 min 15 s",
    ):
        assert seen in page.text, seen
    assert "before: 75.0" in page.text  # of the curves' legends
    assert "new: new one" in page.text
    identities = [a["id"] for _, a in page.tags if a.get("id")]
    assert len(set(identities)) == len(identities)


def test_markdown_says_the_same(tmp_path: Path) -> None:
    text = write_report(made_up(), tmp_path).with_suffix(".md").read_text(encoding="utf-8")
    assert text.startswith("# Better: a text\n")
    assert "| a text | 80.0 &#91;79.0, 81.0&#93; |" in text
    for seen in ("## Before and after", "| 50 | ", "| 0.5 | 77.50 |", "after: new one", "1 min 15 s", "| objective |"):
        assert seen in text, seen


def test_what_is_empty_has_no_section(tmp_path: Path) -> None:
    written = write_report(
        made_up(**NOTHING, verdict="not better", sentence="It was better already, beyond 95 %."), tmp_path
    )
    page = Page(written.read_text(encoding="utf-8"))
    assert not {"h2", "svg", "table"} & {tag for tag, _ in page.tags}
    assert "It was better already, beyond 95\u00a0%." in page.text
    assert "Nothing was exported." in html.unescape(page.text)
    assert "##" not in written.with_suffix(".md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed, in which the page would be opened")
@pytest.mark.parametrize("text", ["a text", NASTY, LONG])
def test_a_browser_shows_it_on_a_desk_and_on_a_phone(text: str, tmp_path: Path) -> None:
    address = write_report(made_up(text), tmp_path / "report").as_uri()
    with browser(tmp_path / "profile") as tab:
        for width in (1280, 390):
            tab.open(address, width, dark=width == 390)
            assert tab.evaluate("[innerWidth, document.documentElement.scrollWidth]") == [width, width]
            heading = "document.querySelector('h1')"
            top, bottom = (tab.evaluate(f"{heading}.getBoundingClientRect().{edge}") for edge in ("top", "bottom"))
            assert tab.evaluate(f"{heading}.checkVisibility()")
            assert 0 <= top < bottom
            assert top < 450  # at once, without scrolling
            assert tab.complaints == []
            assert tab.requests == [address]
            assert tab.evaluate("performance.getEntriesByType('resource').length") == 0
