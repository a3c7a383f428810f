"""``sentrep quickstart``: a first run on what ships with the package, without any download."""

from __future__ import annotations

from sentrep.cli import trainer
from sentrep.cli.recipes import shipped

HELP = """\
usage: sentrep quickstart [any flag of sentrep fit]

Train a small BERT with random weights on the embedded toy corpus, score it and export it: under a minute on two CPU
cores, nothing is downloaded. It is the recipe 'quickstart'; the run goes to runs/quickstart."""


def run(command: str, words: list[str]) -> int:
    """Run the command."""
    if "-h" in words or "--help" in words:
        print(HELP)
        return 0
    return trainer.run("fit", ["--config", str(shipped()["quickstart"]), *words])
