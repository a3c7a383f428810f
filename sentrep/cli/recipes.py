"""``sentrep recipes``: the recipes and tables that ship with the package, found by name where a file is asked for."""

from __future__ import annotations

from pathlib import Path

import yaml

from sentrep.errors import InputError, did_you_mean
from sentrep.io.paths import expanded

_HOW = """
A recipe runs by 'sentrep fit -c NAME', overrides/NAME by one more -c, a table by
'sentrep fit --table NAME --seeds 5', one row of it by 'sentrep fit --table NAME --row ROW'.
'sentrep recipes show NAME' prints one, with paper, machine and expected score."""


def read_about(path: Path) -> dict[str, str]:
    """The description of a shipped file, under the key ``about``; a run does not read it.

    Returns:
        ``title`` (one sentence), ``paper``, ``arxiv``, ``expect`` (the score to expect, and where it comes from),
        ``runs_on`` (the machine), ``local`` and ``small`` (what to add to the command without a network, or for a run
        of minutes) and ``notes`` (departures from the paper), as far as the file has them.
    """
    about: dict[str, str] = yaml.safe_load(path.read_text(encoding="utf-8"))["about"]
    return {key: text.strip() if key == "notes" else " ".join(text.split()) for key, text in about.items()}


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
    if Path(name).suffix:
        return ""
    hint = did_you_mean(_bare(name), shipped()) or "; sentrep recipes lists those that do"
    return f", and no recipe of this name ships with sentrep{hint}"


def _bare(name: str) -> str:
    return name.removeprefix("configs/").removesuffix(".yaml")


def list_recipes() -> None:
    """List the recipes, overrides and tables that ship."""
    for name, path in shipped().items():
        print(f"{name}\n      {read_about(path)['title']}")
    print(_HOW)


def show(name: str) -> None:
    """Print a recipe or table, with its description.

    For example: sentrep recipes show simcse/minilm > mine.yaml

    Args:
        name: of a shipped recipe, such as simcse/minilm.

    Raises:
        InputError: there is none of this name.
    """
    path = shipped().get(_bare(name))
    if path is None:
        raise InputError(f"recipes: {name} is not one of them{no_recipe(name)}")
    print(path.read_text(encoding="utf-8"), end="")
