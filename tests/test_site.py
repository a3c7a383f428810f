"""The documentation: what it shows of the code is so, every public name is in it, and the built site is whole."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from browser import CHROMIUM, browser

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
MADE = "run: python benchmarks/pages.py --write"
PATHS = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
BASE = urlsplit(yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["site_url"]).path
"""Before the links of the page for what is not found."""
ZENSICAL = shutil.which("zensical", path=PATHS)
needs_zensical = pytest.mark.skipif(ZENSICAL is None, reason="zensical is not installed (make docs installs it)")
WIDTHS = (1280, 768, 390)


sys.path.append(str(ROOT / "benchmarks"))


@pytest.fixture
def pages() -> Any:
    return importlib.import_module("pages")


def test_every_public_name_has_an_entry(pages: Any) -> None:
    shown = {pages.definition(name) for page in DOCS.rglob("*.md") for name in pages.entries(page.read_text("utf-8"))}
    packages = [file.parent for file in (ROOT / "sentrep").rglob("__init__.py")]
    names = {home for path in packages for home in pages.public(".".join(path.relative_to(ROOT).parts)).values()}
    assert len(names) > 150
    assert not names - shown, MADE


def test_pages_are_made_from_the_code(pages: Any) -> None:
    for page, text in {**pages.api_pages(), **pages.method_pages()}.items():
        assert page.read_text(encoding="utf-8") == text, MADE


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="argparse lays its help out otherwise in each version")
def test_the_commands_say_what_the_page_says() -> None:
    """In an interpreter of its own: how a type is printed depends on what was imported before."""
    command = [sys.executable, str(ROOT / "benchmarks/pages.py")]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert (done.returncode, done.stdout) == (0, ""), MADE


def test_formulas_of_docstrings_become_latex() -> None:
    latex = importlib.import_module("formulas").latex
    assert latex("s_k = log σ_k²") == r"s_{k} = \log  σ_{k}^{2}"
    assert latex("−log  exp(s_ii) / ( Σ_j exp(s_ij) )") == r"-\log  \frac{\exp (s_{ii})}{\sum_{j} \exp (s_{ij})}"
    assert latex("α = 0 where sim_C(ĥ) ≥ √(a + b)") == (
        r"α = 0 \;\text{where}\; \operatorname{sim}_{C}(\hat{h}) \ge  \sqrt{a + b}"
    )
    assert latex("a = 1\n\nb = 2") == "\\begin{gathered}\na = 1 \\\\\nb = 2\n\\end{gathered}"


def test_every_page_is_in_the_navigation() -> None:
    named = re.findall(r"[\w./-]+\.md", json.dumps(yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]))
    assert sorted(named) == sorted({"index.md", *(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))})


def test_every_address_of_the_project_is_pyprojects() -> None:
    urls = dict(re.findall(r'^(\w+) = "(https.*)"$', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE))
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    assert (site["site_url"], site["repo_url"]) == (urls["Documentation"], urls["Repository"])
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))["repository-code"] == urls["Repository"]


def test_links_of_the_wheels_page_are_absolute_and_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    page = importlib.import_module("setup").absolute((ROOT / "README.md").read_text("utf-8"), "https://host/project")
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert all(link.startswith(("https://", "#")) for link in links)
    ours = [link for link in links if link.startswith("https://host/")]
    assert len(ours) > 30
    for link in ours:
        kind, _, path = link.removeprefix("https://host/project/").partition("/main/")
        assert (ROOT / path).is_file(), path
        assert kind == ("raw" if path.endswith((".png", ".svg")) else "blob"), link


def build(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """The site of a copy of the documentation, with further lines on its first page."""
    for name in ("docs", "sentrep", "benchmarks/theme"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "mkdocs.yml", folder)
    first = importlib.import_module("pages").first_page()
    (folder / "docs/index.md").write_text(first + "".join(f"\n{line}\n" for line in more), encoding="utf-8")
    return subprocess.run([str(ZENSICAL), "build", "--strict"], cwd=folder, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documentation")
    done = build(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


class Page(HTMLParser):
    """What a built page refers to, what it fetches, and its anchors."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.refers: list[str] = []
        self.fetches: list[str] = []
        self.anchors = {""}
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {key: value or "" for key, value in attrs}
        self.anchors |= {said.get("id", ""), said.get("name", "")}
        targets = [said[key] for key in ("href", "src") if key in said]
        self.refers += targets
        if tag != "a" and said.get("rel") != "canonical":
            self.fetches += targets


@pytest.mark.slow
@needs_zensical
def test_the_site_has_no_dead_link_and_fetches_nothing_from_elsewhere(site: Path) -> None:
    built = {file: Page(file) for file in site.rglob("*.html")}
    assert len(built) > 50
    dead = []
    for file, page in built.items():
        assert not [target for target in page.fetches if urlsplit(target).netloc], file
        for target in page.refers:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            path = unquote(parts.path).removeprefix(BASE)
            place = site / path.lstrip("/") if path.startswith("/") else file.parent / path if path else file
            place = (place / "index.html" if place.is_dir() else place).resolve()
            if not place.exists() or (place in built and unquote(parts.fragment) not in built[place].anchors):
                dead.append(f"{file.relative_to(site)}: {target}")
    assert not dead


@pytest.mark.slow
@needs_zensical
def test_dead_links_fail_the_build(tmp_path: Path) -> None:
    done = build(tmp_path, "[page](nowhere.md)", "[anchor](results.md#nowhere)", "[name][sentrep.nowhere]")
    assert done.returncode != 0
    assert "3 issues found" in done.stdout + done.stderr


@pytest.mark.slow
@needs_zensical
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
def test_no_page_scrolls_sideways_and_formulas_are_drawn(site: Path, tmp_path: Path) -> None:
    (site / "wide.htm").write_text("<!doctype html><div style='width: 3000px'>wide</div>", encoding="utf-8")
    wide, drawn = [], 0
    with browser(tmp_path) as tab:
        pages = set(site.rglob("*.html")) - {site / "404.html"}  # its style's address begins at the server's root
        for file in [*sorted(pages), site / "wide.htm"]:
            for width in WIDTHS:
                tab.open(file.as_uri(), width)
                if tab.evaluate("document.documentElement.scrollWidth") > width:
                    wide.append((file.name, width))
            assert tab.evaluate("document.querySelector('.arithmatex:not(:has(.katex)), .katex-error')") is None, file
            drawn += tab.evaluate("document.querySelectorAll('.katex-display').length")
            assert not [address for address in tab.requests if not address.startswith(("file:", "data:"))], file
    assert wide == [("wide.htm", width) for width in WIDTHS]
    assert drawn > 20
