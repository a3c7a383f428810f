"""What the documentation shows is run as it stands."""

from __future__ import annotations

import re
from pathlib import Path

from sentrep.cli import main

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_recipe_with_all_plugins_at_once_trains(workplace: Path, teacher: str) -> None:
    (recipe,) = re.findall(r"```yaml\n(.*?)```", (DOCS / "plugins.md").read_text(encoding="utf-8"), re.DOTALL)
    (workplace / "all.yaml").write_text(recipe.replace("TRAINED_SIMCSE", teacher))
    arguments = ["fit", "-c", "run.yaml", "-c", "all.yaml", "--model.head", "null", "--trainer.max_steps", "2"]
    assert main(arguments) == 0
    assert list(workplace.rglob("last.ckpt"))


def test_the_documented_folders_and_files_exist() -> None:
    root = DOCS.parent
    for page in [root / "README.md", *DOCS.glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which does not exist"
