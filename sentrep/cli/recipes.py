"""``sentrep recipes``: the recipes and tables that ship with the package, found by name where a file is asked for."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path

import yaml
from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from sentrep.errors import InputError, did_you_mean
from sentrep.io.files import write_text
from sentrep.io.paths import check_target, expanded, writing

_OVERRIDES = "overrides/"
_TABLE = 72
"""Columns of a terminal that the table of recipes needs."""
_HOW = (
    "STS avg. is the mean of the seven STS sets. A recipe runs by 'sentrep fit -c NAME', an override by one more -c, a "
    "table by 'sentrep compare --table NAME', one row of it by 'sentrep fit --table NAME --row ROW'. 'sentrep recipes "
    "show NAME' prints one, 'copy NAME' writes it here."
)


@dataclass(frozen=True)
class About:
    """What a shipped recipe or table says of itself, under the key ``about``; it is of the file and not of a run."""

    title: str
    """What it is, in a sentence."""
    paper: str = ""
    """Authors, title, place and year."""
    arxiv: str = ""
    """The paper's number there."""
    expect: str = ""
    """The score to expect, and where that comes from."""
    runs_on: str = ""
    """The machine that it is sized for."""
    local: str = ""
    """What to add to the command on a machine without network."""
    small: str = ""
    """What to add to it for a run of minutes."""
    notes: str = ""
    """Departures from the paper, and what else is worth knowing."""

    @property
    def source(self) -> str:
        """First author and year of the paper."""
        year = re.search(r"\b(?:19|20)\d\d\b", self.paper)
        return f"{re.split(',|:| et al', self.paper)[0]} {year[0]}" if year else ""

    @property
    def score(self) -> str:
        """The expectation without what is in brackets; empty where it has no number."""
        promise = self.expect.replace("mean of the seven STS sets", "STS avg.")
        score = re.sub(r" \(.*?\)|[;,:] .*|\.$", "", promise)
        return score if re.search(r"\d", score) else ""


def read_about(path: Path) -> About:
    """What a shipped file says of itself.

    Raises:
        InputError: it says nothing, or under other keys than those of `About`.
    """
    said = yaml.safe_load(path.read_text(encoding="utf-8")).get("about")
    known = {field.name for field in fields(About)}
    if not isinstance(said, dict) or "title" not in said or not known >= said.keys():
        raise InputError(f"{path}: about needs a title; it may have {', '.join(sorted(known))}, found {said!r}")
    return About(**{key: " ".join(text.split()) if key != "notes" else text.strip() for key, text in said.items()})


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


def list_recipes() -> None:
    """List the recipes with paper, machine and expected score, then overrides and tables."""
    files = shipped()
    tables = {name for name in files if "/tables/" in name}
    overrides = {name for name in files if name.startswith(_OVERRIDES)}
    console = Console()
    recipes = {name: read_about(files[name]) for name in files if name not in tables | overrides}
    if console.width >= _TABLE:
        listed = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
        for column in ("recipe", "paper", "runs on", "expect"):
            listed.add_column(column, no_wrap=column == "recipe")
        for name, about in recipes.items():
            listed.add_row(name, about.source, about.runs_on, about.score)
        console.print(listed)
    else:
        found = {name: (about.source, about.runs_on, about.score) for name, about in recipes.items()}
        _print_named(console, "recipe", {name: ", ".join(filter(None, parts)) for name, parts in found.items()})
    _print_named(console, "override", {name: read_about(files[name]).title for name in sorted(overrides)})
    _print_named(console, "table", {name: read_about(files[name]).title for name in sorted(tables)})
    console.print(f"\n{_HOW}", highlight=False)


def _print_named(console: Console, what: str, texts: dict[str, str]) -> None:
    """Names, each with its text below it, which needs no width."""
    console.print(f"\n{what}")
    for name, text in texts.items():
        console.print(f"  {name}", highlight=False)
        console.print(Padding(text, (0, 0, 0, 6)), highlight=False)


def show(name: str) -> None:
    """Print a recipe or table, with what it says of itself.

    Args:
        name: of a recipe that ships, such as simcse/minilm.

    Raises:
        InputError: there is none of this name.
    """
    print(_read(name), end="")


def copy(name: str, *, output: str | None = None, overwrite: bool = False) -> None:
    """Write a recipe or table into a file of yours, to change it.

    Args:
        name: of a recipe that ships, such as simcse/minilm.
        output: the file to write, by default simcse-minilm.yaml in the current folder.
        overwrite: write over a file that is there.

    Raises:
        InputError: there is none of this name, or the file exists or cannot be written.
    """
    text = _read(name)
    target = expanded(output or f"{_bare(name).replace('/', '-')}.yaml")
    check_target(target, overwrite=overwrite)
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
