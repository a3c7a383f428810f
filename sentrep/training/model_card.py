"""The part of a model card that says how the model was trained."""

from __future__ import annotations

import os
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
    facts = {
        "Base model": _base(module.encoder.init_args["backbone"]),
        "Training text": text_name(data),
        "Steps": steps,
    }
    lines = [f"- **{name}:** {markdown_text(value)}" for name, value in facts.items()]
    table = [markdown_table(scores)] if len(scores) else []
    objectives = ["- **Objectives:**", *_objectives(module)]
    parts = ["## Training with sentrep", "\n".join([*lines, *objectives]), *table, markdown_text(reason)]
    before, heading, after = card.read_text(encoding="utf-8").partition(_NEXT)
    write_text(card, before.rstrip("\n") + "\n\n" + "\n\n".join(parts) + "\n" + heading + after)


def _base(backbone: Any) -> str:
    """The name of the model that the training began with."""
    name = backbone.get("name") if isinstance(backbone, dict) else backbone
    return f"random weights of a {backbone['model_type']} model" if name is None else _without_folder(str(name))


def text_name(data: Any) -> str:
    """The names of the training files or of the data set."""
    train = getattr(data, "train", None)
    if isinstance(train, str):
        return _without_folder(train)
    # a list holds files or sentences, which may be longer than a path can be
    if isinstance(train, list) and all(isinstance(item, str) and os.path.isfile(item) for item in train):
        return ", ".join(map(_without_folder, train))
    return "given in Python"


def _without_folder(name: str) -> str:
    """Return the last part of a local path, because a published card should not show folders, or a Hub id as it is."""
    is_local = os.path.isabs(name) or os.path.exists(name)
    return os.path.basename(name.rstrip("/")) if is_local else name


def _objectives(module: Any) -> Iterator[str]:
    """A line for each objective; the first sentence of its class names the paper."""
    for name, objective in module.objectives.terms.items():
        says = (type(objective).__doc__ or "").strip().partition("\n")[0]
        weight = module.objectives.weights[name]
        what = f"{name} ({type(objective).__name__}, weight {weight:g})"
        yield f"  - {markdown_text(f'{what}: {says}' if says else what)}"
