"""The part of a model card that says how the model was trained."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from sentrep.evaluation.table import markdown_table
from sentrep.io.files import write_text
from sentrep.io.text import markdown_text

_NEXT = "\n## Citation\n"
"""The section of sentence-transformers' card before which this one stands."""


def add_training(card: Path, module: Any, data: Any, steps: str, scores: pd.DataFrame, reason: str) -> None:
    """Add the section "Training with sentrep" to a model card of sentence-transformers.

    It names the base model, the training text, the objectives with their papers, the steps, the scores before and after
    the training, and whether labels chose the checkpoint.

    Args:
        card: ``README.md`` of a model folder; a card without the section of citations gets the part at its end.
        module: the `SentRepModule` that was trained.
        data: its `SentRepDataModule`; None for other data.
        steps: the kept step, in words.
        scores: a table of texts.
        reason: of the choice of the checkpoint, a sentence.
    """
    facts = {"Base model": _base(module.encoder.init_args["backbone"]), "Training text": _text(data), "Steps": steps}
    lines = [f"- **{name}:** {markdown_text(value)}" for name, value in facts.items()]
    table = [markdown_table(scores)] if len(scores) else []
    objectives = ["- **Objectives:**", *_objectives(module)]
    parts = ["## Training with sentrep", "\n".join([*lines, *objectives]), *table, markdown_text(reason)]
    before, heading, after = card.read_text(encoding="utf-8").partition(_NEXT)
    write_text(card, before.rstrip("\n") + "\n\n" + "\n\n".join(parts) + "\n" + heading + after)


def _base(backbone: Any) -> str:
    """The name of the model that the training began with; of a path its last part."""
    name = backbone.get("name") if isinstance(backbone, dict) else backbone
    if name is None:
        return f"random weights of a {backbone['model_type']} model"
    return Path(name).name if Path(name).exists() else str(name)


def _text(data: Any) -> str:
    """The names of the training files, without their folders."""
    train = getattr(data, "train", None)
    files = [train] if isinstance(train, str) else train
    if isinstance(files, list) and all(isinstance(file, str) and Path(file).is_file() for file in files):
        return ", ".join(Path(file).name for file in files)
    return train if isinstance(train, str) else "rows in memory"


def _objectives(module: Any) -> Iterator[str]:
    """A line for each objective; the first sentence of its class names the paper."""
    for name, objective in module.objectives.terms.items():
        says = (type(objective).__doc__ or "").strip().partition("\n")[0]
        weight = module.objectives.weights[name]
        yield f"  - {markdown_text(f'{name} ({type(objective).__name__}, weight {weight:g}): {says}')}"
