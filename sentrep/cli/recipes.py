"""``sentrep recipes``: the recipes and tables that ship with the package, found by name where a file is asked for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import yaml
from rich import box
from rich.console import Console
from rich.table import Table

from sentrep.cli.functions import run_one_of
from sentrep.errors import InputError, did_you_mean
from sentrep.io.files import write_text
from sentrep.io.paths import check_target, expanded, writing

_OVERRIDES = "overrides/"
_HOW = """\
STS avg. is the mean of the seven STS sets. A recipe runs by 'sentrep fit -c NAME', an override by one more -c, a
table by 'sentrep compare --table NAME'. 'sentrep recipes show NAME' prints one, 'copy NAME' writes it here."""


@dataclass(frozen=True)
class Recipe:
    """What a shipped file says of itself: its header, and the few keys that a list shows."""

    name: str
    """As ``-c`` and ``--table`` take it."""
    about: str
    """The first line."""
    paper: str
    """Its first author and year."""
    backbone: str
    expect: str
    """The score that the header promises; empty where it has no number."""
    title: str
    """The title of a table; empty for a recipe."""

    @classmethod
    def read(cls, name: str, path: Path) -> Recipe:
        """Read one file."""
        text = path.read_text(encoding="utf-8")
        content = yaml.safe_load(text)
        backbone = content.get("model", {}).get("encoder", {}).get("backbone", "")
        paper = re.search(r"^# Paper:\s*([^:]*).*?\b((?:19|20)\d\d)\b", text, re.M | re.S)
        expect = re.search(r"^# Expect:\s*(.*)", text, re.M)
        promise = expect[1].replace("mean of the seven STS sets", "STS avg.") if expect else ""
        score = re.sub(r" \(.*?\)|[;,] .*|\.$", "", promise)
        return cls(
            name,
            text.split("\n", 1)[0].removeprefix("# "),
            f"{re.split(',| et al', paper[1])[0]} {paper[2]}" if paper else "",
            backbone.rpartition("/")[2] if isinstance(backbone, str) else "random weights",
            score if re.search(r"\d", score) else "",
            str(content.get("title", "")),
        )


def shipped() -> dict[str, Path]:
    """Every recipe and table by its name, ``simcse/minilm`` or ``dclr/tables/ablation``.

    They lie in the package where it was installed from a wheel, beside it in a source checkout.
    """
    package = Path(__file__).resolve().parents[1]
    folder = next(place for place in (package / "configs", package.parent / "configs") if place.is_dir())
    return dict(sorted((path.relative_to(folder).with_suffix("").as_posix(), path) for path in folder.rglob("*.yaml")))


def locate(name: str) -> str:
    """The file that a name stands for: a file of the user's or, where there is none, a shipped one.

    A shipped one may be named as in a source checkout, ``configs/simcse/minilm.yaml``. A name without either is left.
    """
    recipe = None if expanded(name).is_file() else shipped().get(_bare(name))
    return name if recipe is None else str(recipe)


def no_recipe(name: str) -> str:
    """The end of the sentence that refuses a name which is no file either; empty where nothing but a file was meant."""
    hint = did_you_mean(_bare(name), shipped())
    if not hint and Path(name).suffix:
        return ""
    return f", and no recipe of this name ships with sentrep{hint or '; sentrep recipes lists those that do'}"


def _bare(name: str) -> str:
    return name.removeprefix("configs/").removesuffix(".yaml")


def run(command: str, words: list[str]) -> int:
    """Run the command; without a word it lists."""
    if words[:1] == ["copy"] and len(words) == 3 and not words[2].startswith("-"):
        words = [*words[:2], "--path", words[2]]
    run_one_of({"list": list_recipes, "show": show, "copy": copy}, command, words or ["list"])
    return 0


def list_recipes() -> None:
    """List the recipes with paper, backbone and expected score, then overrides and tables."""
    found = [Recipe.read(name, path) for name, path in shipped().items()]
    listed = {
        what: Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
        for what in ("recipe", "override", "table")
    }
    for what, table in listed.items():
        table.add_column(what, no_wrap=True)
        for column, width in {"backbone": 17, "paper": 13, "expect": 14}.items() if what == "recipe" else [("", 0)]:
            table.add_column(column, overflow="fold", min_width=width)
    for recipe in found:
        if recipe.title:
            listed["table"].add_row(recipe.name, recipe.title)
        elif recipe.name.startswith(_OVERRIDES):
            listed["override"].add_row(recipe.name, recipe.about)
        else:
            listed["recipe"].add_row(recipe.name, recipe.backbone, recipe.paper, recipe.expect)
    console = Console()
    console.print(*listed.values())
    console.print(_HOW, soft_wrap=True, highlight=False)


def show(name: str) -> None:
    """Print a recipe or table, its header included.

    Args:
        name: of a recipe that ships, such as simcse/minilm.

    Raises:
        InputError: there is none of this name.
    """
    print(_read(name), end="")


def copy(name: str, path: str | None = None) -> None:
    """Write a recipe or table into a file of yours, to change it.

    Args:
        name: of a recipe that ships, such as simcse/minilm.
        path: the file to write, by default simcse-minilm.yaml in the current folder; an existing one is left alone.

    Raises:
        InputError: there is none of this name, or the file exists or cannot be written.
    """
    text = _read(name)
    target = expanded(path or f"{_bare(name).replace('/', '-')}.yaml")
    check_target(target)
    if target.exists():
        raise InputError(f"{target}: is there already, and is not overwritten; name another file")
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        write_text(target, text)
    print(f"{target}; run it by: sentrep {'compare --table' if 'rows:' in text else 'fit -c'} {target}")


def _read(name: str) -> str:
    """The text of a recipe; the bases of a table, which are seen from its folder, become names that hold anywhere."""
    path = shipped().get(_bare(name))
    if path is None:
        raise InputError(f"recipes: {name} is none of them{no_recipe(name)}")
    names = {place: each for each, place in shipped().items()}
    text = path.read_text(encoding="utf-8")
    return re.sub(r"\bbase: (\S+\.yaml)", lambda base: f"base: {names[(path.parent / base[1]).resolve()]}", text)
