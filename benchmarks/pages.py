"""Pages of the documentation that are made: the first one from README.md, the reference and parts of docs/methods from
the code.

    python benchmarks/pages.py            # print the pages that differ
    python benchmarks/pages.py --write    # write the pages; tests compare
    python benchmarks/pages.py --first    # write docs/index.md alone, which git ignores; `make docs` does
    python benchmarks/pages.py --built    # finish the built site: formulas and search; `make docs` does

Names and docstrings are read from the sources, so that nothing is imported for them; the commands are asked for their
help. In a page of docs/methods a mark says what is made behind it: ``formula`` and ``classes`` from the docstrings of
the classes that it names, and ``recipes`` from the key ``about`` of those files.
"""

from __future__ import annotations

import ast
import functools
import html
import json
import re
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

from formulas import latex
from reproduction import ROOT, between
from tables import table

from sentrep.cli.recipes import read_about

DOCS = ROOT / "docs"
API = [
    "sentrep", "objectives", "views", "negatives", "weighting", "encoder", "decoders", "stability", "functional",
    "data", "data.toy", "training", "evaluation", "evaluation.plots", "testing",
    "integrations.sentence_transformers",
]  # fmt: skip
"""Packages, each with its page in docs/api, in the order in which a name of several finds its place."""
COMMANDS, FIRST = DOCS / "commands.md", DOCS / "index.md"
LOCAL = "add --model.encoder.backbone FOLDER --data.train FILE --data.sts_folder SENTEVAL"
ONCE = re.compile(
    r"The batch is the global one on a single device; with W devices give --data\.batch_size \d+/W\.\s*"
    r"|Gradients are clipped at norm 1, the HF Trainer's default that (?:the released|SimCSE's) code keeps; "
    r"the paper does not print it\.\s*"
)
"""This flag line and these notes of recipes are on docs/methods/index.md, once for all methods."""
HELP = "<!-- generated: python benchmarks/pages.py --write -->"


def main() -> None:
    """Print the pages that differ, or write them."""
    if sys.argv[1:] not in ([], ["--write"], ["--first"], ["--built"]):
        sys.exit(f"usage: python {sys.argv[0]} [--write | --first | --built]")
    if sys.argv[1:] == ["--built"]:
        finish(ROOT / "site")
        return
    if sys.argv[1:] == ["--first"]:
        FIRST.write_text(first_page(), encoding="utf-8")
        return
    import keys

    made = {
        DOCS / "keys.md": keys.page(),
        DOCS / "recipe.schema.json": keys.schema(),
        **api_pages(),
        **method_pages(),
        COMMANDS: with_help(COMMANDS.read_text(encoding="utf-8")),
    }
    for page, text in made.items():
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            print(page.relative_to(ROOT))
            if sys.argv[1:]:
                page.parent.mkdir(exist_ok=True)
                page.write_text(text, encoding="utf-8")


def finish(site: Path) -> None:
    """Draw the formulas of docstrings, and make the index of the search one of pages, classes and functions."""
    for page in (*site.glob("api/*.html"), site / "reference.html"):
        page.write_text(typeset(page.read_text(encoding="utf-8")), encoding="utf-8")
    index = site / "search.json"
    index.write_text(json.dumps(search_index(json.loads(index.read_text(encoding="utf-8")))), encoding="utf-8")


def typeset(page: str) -> str:
    """A built page with the indented blocks of docstrings, which are formulas in plain text, as mathematics."""

    def drawn(block: re.Match[str]) -> str:
        formula = html.unescape(re.sub("<[^>]+>", "", block[1]))
        return f'<div class="arithmatex">\\[\n{html.escape(latex(formula))}\n\\]</div>'

    block = r'<div class="language-text highlight"><pre><span></span><code>(.*?)</code></pre></div>'
    return re.sub(block, drawn, page, flags=re.DOTALL)


def search_index(index: dict[str, Any]) -> dict[str, Any]:
    """The index of the site's search, without formulas, whose LaTeX it would show.

    The members of a class are words of its entry: as entries of their own, short names such as ``resume`` would stand
    above the pages.
    """
    items = {
        item["location"]: {**item, "text": re.sub(r"\\\[.*?\\\]|\\\(.*?\\\)", "", item["text"], flags=re.DOTALL)}
        for item in index["items"]
    }
    for place in list(items):
        owner = items.get(place.rpartition(".")[0]) if "#sentrep." in place else None
        if owner is not None:
            owner["text"] += f"<p>{items.pop(place)['title']}</p>"
    return {**index, "items": [*items.values()]}


def first_page() -> str:
    """README.md with links as the site has them."""
    (repository,) = re.findall(r"^repo_url: (.*)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    page = re.sub(r"(\]\()docs/", r"\1", (ROOT / "README.md").read_text(encoding="utf-8"))
    return re.sub(r"(\]\()(?=[A-Z]+\.|examples/)", rf"\1{repository}/blob/main/", page)


# names


@functools.cache
def parsed(path: Path) -> ast.Module:
    """A source file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def source(module: str) -> Path:
    """The file of a module or package."""
    place = ROOT.joinpath(*module.split("."))
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


@functools.cache
def public(module: str) -> dict[str, str]:
    """A package's public names, in ``__all__`` or imported ``as`` themselves: each, and where it is defined."""
    names: list[str] = []
    homes: dict[str, str] = {}
    for node in ast.walk(parsed(source(module))):
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]:
            names = ast.literal_eval(node.value)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("sentrep"):
            homes |= {alias.asname or alias.name: node.module for alias in node.names}
            names += [alias.name for alias in node.names if alias.asname == alias.name]
    return {name: definition(f"{homes.get(name, module)}.{name}") for name in names}


@functools.cache
def definition(path: str) -> str:
    """The dotted path at which a name is defined, whatever packages pass it on."""
    module, _, name = path.rpartition(".")
    if source(module).name == "__init__.py":
        for node in ast.walk(parsed(source(module))):
            if isinstance(node, ast.ImportFrom) and node.module and name in [alias.name for alias in node.names]:
                return definition(f"{node.module}.{name}")
    return path


def entries(page: str) -> list[str]:
    """The names that a page renders."""
    return re.findall(r"^::: (\S+)$", page, re.MULTILINE)


@functools.cache
def places() -> dict[str, tuple[str, str]]:
    """Every public name by where it is defined: the page that renders it, and its anchor there."""
    by_hand = {name: ("reference.md", name) for name in entries((DOCS / "reference.md").read_text(encoding="utf-8"))}
    found = {definition(name): place for name, place in by_hand.items()}
    for package in API:
        for name, home in public(module_of(package)).items():
            path = f"{module_of(package)}.{name}"
            # where a function has the name of a file beside it, griffe takes the path for the file
            found.setdefault(home, (f"api/{package}.md", home if source(path).exists() else path))
    return found


def module_of(package: str) -> str:
    """The dotted name of a package of `API`."""
    return package if package == "sentrep" else f"sentrep.{package}"


def api_pages() -> dict[Path, str]:
    """A page for each package: what it is, and every public name."""
    where = places()
    return {DOCS / f"api/{package}.md": api_page(package, where) for package in API}


def api_page(package: str, where: dict[str, tuple[str, str]]) -> str:
    """Names that another page renders are linked."""
    here, elsewhere = [], []
    for name, home in public(module_of(package)).items():
        page, anchor = where[home]
        if page == f"api/{package}.md":
            here.append(f"::: {anchor}\n")
        else:
            elsewhere.append(f"[`{name}`](../{page}#{anchor})")
    first = (ast.get_docstring(parsed(source(module_of(package)))) or "").split("\n\n")[0].replace("\n", " ")
    links = f"\nOn other pages: {', '.join(elsewhere)}.\n" if elsewhere else ""
    return f"# {module_of(package)}\n\n{first}\n{links}\n{''.join(here)}"


# commands


def with_help(page: str) -> str:
    """The page of commands with what they say of themselves now."""
    from sentrep.cli import COMMANDS as COMMAND_LIST

    return between(page, HELP, (f"\n## {name}\n\n```text\n{help_of(name).strip()}\n```\n" for name in COMMAND_LIST))


@functools.cache
def help_of(command: str) -> str:
    """What a command prints for ``--help``."""
    from sentrep.cli import main as sentrep

    out = StringIO()
    with patch.dict("os.environ", COLUMNS="76"), patch.object(sys, "argv", ["sentrep"]), redirect_stdout(out):
        sentrep([*command.split(), "--help"])
    return shorter(out.getvalue())


def shorter(text: str) -> str:
    """A help without the parts that say what other parts say: the list of flags, ``--help``, its title again, types."""
    text = re.sub(r"(options:\n)?  -h, --help .*exit\.\n(?(1)\n?(?=\S|\Z))", "", text)
    text = re.sub(r"\(required,\s+type:[^)]*\)", "(required)", re.sub(r"\(type:[^()]*?,\s+default:", "(default:", text))
    if re.search(r"^usage: .* \[--", text, re.MULTILINE):
        text = re.sub(r"^usage: (sentrep \w+)(.*\n)(?: .*\n)*\n", "", text)
        text = re.sub(r"^[A-Z].*:\n(?=  )", "options:\n", text, flags=re.MULTILINE)
    return text


# methods


def method_pages() -> dict[Path, str]:
    """The pages of the methods with what their marks ask for."""
    return {page: with_made(page.read_text(encoding="utf-8")) for page in sorted((DOCS / "methods").glob("*.md"))}


def with_made(page: str) -> str:
    """A page with the parts behind its marks made again."""

    def part(found: re.Match[str]) -> str:
        made = {"formula": formulas, "classes": classes, "recipes": recipes}[found[1]](found[2].split())
        return f"<!-- {found[1]}: {found[2]} -->\n\n{made.strip()}\n\n<!-- end -->"

    return re.sub(r"<!-- (formula|classes|recipes): (.*?) -->\n.*?<!-- end -->", part, page, flags=re.DOTALL)


def formulas(names: list[str]) -> str:
    """Of each class what its docstring says up to the arguments: the formula, its place in the paper, what departs."""
    where = places()
    parts = []
    for name in names:
        page, anchor = where[definition(name)]
        text = re.split(r"\n(?:Metrics|Args|Returns|Raises|Examples):", docstring(name))[0].strip()
        shown = re.sub(r"(?:^ {4}.*\n?|^\n(?= {4}))+", display, text + "\n", flags=re.MULTILINE).strip()
        last = name.rpartition(".")[2]
        parts.append(f"### {last}\n\n{shown}\n\nArguments: [`{last}`](../{page}#{anchor})\n")
    return "\n".join(parts)


def display(block: re.Match[str]) -> str:
    """An indented block of a docstring, which is a formula, as mathematics."""
    return f"\n$$\n{latex(block[0])}\n$$\n"


def docstring(name: str) -> str:
    """Of a class or function, by any of its dotted names."""
    module, _, last = definition(name).rpartition(".")
    nodes = parsed(source(module)).body
    found = [node for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == last]
    return ast.get_docstring(found[0]) or ""


def classes(names: list[str]) -> str:
    """Each class by the first sentence of its docstring."""
    where = places()
    lines = []
    for name in names:
        page, anchor = where[definition(name)]
        first = docstring(name).split("\n\n")[0].replace("\n", " ")
        lines.append([f"[`{name.rpartition('.')[2]}`](../{page}#{anchor})", first])
    return table(["class", "purpose"], lines, left=2)


def recipes(names: list[str]) -> str:
    """The paper, command and notes of the first recipe; of each recipe what it is and what to expect of it."""
    files = dict.fromkeys(file for name in names for file in sorted((ROOT / "configs").glob(name)))
    said = {file.relative_to(ROOT / "configs").with_suffix("").as_posix(): read_about(file) for file in files}
    name, first = next(iter(said.items()))
    keys = ("title", "runs_on", "expect")
    lines = [[f"`{recipe}`", *(about.get(key, "") for key in keys)] for recipe, about in said.items()]
    for line in lines[1:]:  # the same method on another model
        line[1] = re.sub(rf": {re.escape(first['title'].partition(': ')[2])}$", ".", line[1])
    about = table(["recipe", "description", "runs on", "expected score"], lines, left=4)
    notes = ONCE.sub("", first.get("notes", ""))
    arxiv = " ([arXiv:{0}](https://arxiv.org/abs/{0}))".format(first["arxiv"]) if "arxiv" in first else ""
    local = "" if first.get("local", "") == LOCAL else f"Without a network {first.get('local', '')}. "
    small = f"Small: {first['small']}. " if "small" in first else ""
    return f"Paper: {first.get('paper', '')}{arxiv}\n\n{about}\n`sentrep fit -c {name}`. {local}{small}{notes}"


if __name__ == "__main__":
    main()
