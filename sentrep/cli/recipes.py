"""``sentrep recipes``: the recipes and tables that ship with the package, found by name where a file is asked for."""

from __future__ import annotations

import re
import shutil
import textwrap
from dataclasses import dataclass
from pathlib import Path

import yaml

from sentrep.errors import InputError, did_you_mean
from sentrep.io.files import write_text
from sentrep.io.paths import check_target, expanded, writing

_BELOW = " " * 6
_HOW = (
    "STS avg. is the mean of the seven STS sets. A recipe runs by 'sentrep fit -c NAME', an override by one more -c, a "
    "table by 'sentrep fit --table NAME --seeds 5', one row of it by 'sentrep fit --table NAME --row ROW'. 'sentrep "
    "recipes show NAME' prints one, 'copy NAME' writes it here."
)


@dataclass(frozen=True)
class About:
    """The description of a shipped recipe or table, under the key ``about``; a run does not read it."""

    title: str
    """One sentence."""
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
        """The expectation without its brackets; empty if it has no number."""
        promise = self.expect.replace("mean of the seven STS sets", "STS avg.")
        score = re.sub(r" \(.*?\)|[;,:] .*|\.$", "", promise)
        return score if re.search(r"\d", score) else ""


def read_about(path: Path) -> About:
    """The description of a shipped file."""
    said = yaml.safe_load(path.read_text(encoding="utf-8"))["about"]
    return About(**{key: " ".join(text.split()) if key != "notes" else text.strip() for key, text in said.items()})


def shipped() -> dict[str, Path]:
    """Every recipe and table by its name, ``simcse/minilm`` or ``dclr/tables/ablation``.

    They lie in the package where it was installed from a wheel, beside it in a source checkout.
    """
    package = Path(__file__).resolve().parents[1]
    folder = next(place for place in (package / "configs", package.parent / "configs") if place.is_dir())
    return dict(sorted((path.relative_to(folder).with_suffix("").as_posix(), path) for path in folder.rglob("*.yaml")))


def locate(name: str) -> str:
    """The file of a name: the user's file, or otherwise a shipped recipe.

    A shipped recipe may be named as in a clone, ``configs/simcse/minilm.yaml``. Unknown names are returned unchanged.
    """
    recipe = None if expanded(name).is_file() else shipped().get(_bare(name))
    return name if recipe is None else str(recipe)


def no_recipe(name: str) -> str:
    """The end of the error for an unknown name; empty if the name can only mean a file."""
    hint = did_you_mean(_bare(name), shipped())
    if not hint and Path(name).suffix:
        return ""
    return f", and no recipe of this name ships with sentrep{hint or '; sentrep recipes lists those that do'}"


def _bare(name: str) -> str:
    return name.removeprefix("configs/").removesuffix(".yaml")


def list_recipes() -> None:
    """List the recipes that ship, with paper, machine and expected score, then overrides and tables."""
    files = {name: read_about(path) for name, path in shipped().items()}
    columns = shutil.get_terminal_size().columns
    for what in ("recipe", "override", "table"):
        print(what)
        for name, about in files.items():
            if what != ("override" if name.startswith("overrides/") else "table" if "/tables/" in name else "recipe"):
                continue
            parts = (about.source, about.runs_on, about.score) if what == "recipe" else (about.title,)
            text = textwrap.fill(
                ", ".join(filter(None, parts)), columns, initial_indent=_BELOW, subsequent_indent=_BELOW
            )
            print(f"  {name}\n{text}")
        print()
    print(textwrap.fill(_HOW, columns))


def show(name: str) -> None:
    """Print a recipe or table, with its description.

    For example: sentrep recipes show simcse/minilm

    Args:
        name: of a shipped recipe, such as simcse/minilm.

    Raises:
        InputError: there is none of this name.
    """
    print(_read(name), end="")


def copy(name: str, *, output: str | None = None, overwrite: bool = False) -> None:
    """Write a copy of a recipe or table, to change it.

    For example: sentrep recipes copy simcse/minilm

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
    print(f"{target}; run it by: sentrep {'fit --seeds 5 --table' if 'rows:' in text else 'fit -c'} {target}")


def _read(name: str) -> str:
    """The text of a recipe; the bases of a table, which are seen from its folder, become names that hold anywhere."""
    path = shipped().get(_bare(name))
    if path is None:
        raise InputError(f"recipes: {name} is none of them{no_recipe(name)}")
    names = {place: each for each, place in shipped().items()}
    text = path.read_text(encoding="utf-8")
    return re.sub(r"\bbase: (\S+\.yaml)", lambda base: f"base: {names[(path.parent / base[1]).resolve()]}", text)
