"""The documentation: what it shows of the code is so, every public name is in it, and the built site is whole."""

from __future__ import annotations

import functools
import http.server
import importlib
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
MADE = "run: python benchmarks/pages.py --write"
PATHS = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
ZENSICAL = shutil.which("zensical", path=PATHS)
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
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


def test_formulas_of_built_api_pages_are_drawn(pages: Any) -> None:
    block = '<div class="language-text highlight"><pre><span></span><code>x_<a>i</a> &lt; 1\n</code></pre></div>'
    assert pages.typeset(f"<p>a</p>{block}<p>b</p>") == (
        '<p>a</p><div class="arithmatex">\\[\nx_{i} &lt; 1\n\\]</div><p>b</p>'
    )


def test_the_search_shows_no_latex_and_members_with_their_class(pages: Any) -> None:
    formula = {"location": "a.html", "text": r"<p>a</p> \[ \frac{a} {b} \] <p>b \(x_{i}\) c</p>"}
    owner = {"location": "api/b.html#sentrep.b.C", "title": "C", "text": "<p>c</p>"}
    member = {"location": "api/b.html#sentrep.b.C.resume", "title": "resume", "text": "<p>d</p>"}
    assert pages.search_index({"config": {}, "items": [formula, owner, member]}) == {
        "config": {},
        "items": [{**formula, "text": "<p>a</p>  <p>b  c</p>"}, {**owner, "text": "<p>c</p><p>resume</p>"}],
    }


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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built; a dead link fails the build."""
    folder = tmp_path_factory.mktemp("documentation")
    for name in ("docs", "sentrep", "benchmarks/theme"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "mkdocs.yml", folder)
    (folder / "docs/index.md").write_text(importlib.import_module("pages").first_page(), encoding="utf-8")
    command = [str(ZENSICAL), "build", "--strict"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    importlib.import_module("pages").finish(folder / "site")
    return (folder / "site").rename(tmp_path_factory.mktemp("server") / "sentrep")  # its place at the address


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))], ids=lambda page: page.stem)
def test_code_on_a_page_has_at_most_80_columns(page: Path) -> None:
    """Commands, YAML and Python; what a command prints is as wide as it is."""
    wide = []
    for language, block in re.findall(
        r"^```(console|yaml|python)\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL
    ):
        text = block if language != "console" else "\n".join(re.findall(r"^\$ (?:.*\\\n)*.*", block, re.MULTILINE))
        wide += [
            line for line in text.splitlines() if len(line) > 80 and not re.search(r"https://|[\w-]/[\w-]{30}", line)
        ]
    assert not wide


FOUND_FIRST = {
    "hard negatives": "fine-tune.html",
    "early stopping": "fine-tune.html",
    "pairs": "fine-tune.html",
    "resume": "journeys/resume.html",
    "tensorboard": "monitoring.html",
}
"""The page that the site's search finds first."""


@pytest.fixture(scope="module")
def visited(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What Chromium measures of every page, and the page that it finds first by each of some words."""
    (site / "wide.html").write_text("<!doctype html><div style='width: 3000px'>wide</div>", encoding="utf-8")
    pages = [path.relative_to(site).as_posix() for path in sorted(site.rglob("*.html"))]
    given = {"pages": pages, "widths": WIDTHS, "words": [*FOUND_FIRST]}
    (site / "given.json").write_text(json.dumps(given), encoding="utf-8")
    shutil.copy(Path(__file__).with_name("visit.html"), site)
    received: queue.Queue[Any] = queue.Queue()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_POST(self) -> None:
            received.put(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    words = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    words.append(f"--user-data-dir={tmp_path_factory.mktemp('chromium')}")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=site.parent)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/sentrep/"
        command = [str(CHROMIUM), *words, f"{address}visit.html"]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as browser:
            try:
                return {"pages": pages, "address": address, **received.get(timeout=300)}
            finally:
                browser.terminate()
                server.shutdown()


@pytest.mark.slow
@needs_zensical
@needs_chromium
def test_no_page_scrolls_sideways_or_fetches_from_elsewhere_and_formulas_are_drawn(visited: Any) -> None:
    looks = visited["looks"]
    assert len(looks) == len(WIDTHS) * len(visited["pages"]) > 200
    assert {one["page"] for one in looks if one["needs"] > one["width"]} == {"wide.html"}
    assert not [one["page"] for one in looks if one["raw"]]
    for folder, least in (("api/", 35), ("methods/", 20)):
        assert sum(one["formulas"] for one in looks if one["page"].startswith(folder)) > least * len(WIDTHS)
    assert not [name for one in looks for name in one["fetched"] if not name.startswith((visited["address"], "data:"))]


@pytest.mark.slow
@needs_zensical
@needs_chromium
def test_the_search_finds_the_page_of_a_subject_first(visited: Any) -> None:
    assert visited["found"] == FOUND_FIRST
