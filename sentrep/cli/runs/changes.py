"""Differences between a run's settings and the settings in its checkpoint."""

from __future__ import annotations

import json
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from sentrep.checkpoint.resume import start_epoch_again
from sentrep.cli.config.configuration import ALLOW, Tree
from sentrep.cli.errors import UsageError
from sentrep.cli.runs.logs import say
from sentrep.config import flat
from sentrep.encoder import SentenceEncoder
from sentrep.encoder.loading.tokenizers import stored_tokenizer, tokenizer_files
from sentrep.encoder.text.tokenizer import TextTokenizer
from sentrep.io.strangers import settings_text

RECORD = "sentrep_run"
"""Key of a checkpoint under which `run_settings` lie."""

_DATA = ("batch_size", "reading.fraction", "seed")
_TRAINER = (
    "precision", "accumulate_grad_batches", "gradient_clip_val", "gradient_clip_algorithm", "limit_train_batches",
    "overfit_batches",
)  # fmt: skip

_ORIGIN = tuple(f"model.encoder.{key}." for key in ("backbone", "tokenizer", "pretrained"))
"""Where an encoder was built from; a checkpoint stands in for that itself, and its content is compared instead."""

Differences = dict[str, tuple[Any, Any]]
"""``{dotted key: (value in the checkpoint, value now)}``."""


def run_settings(config: Tree, trainer: Trainer) -> Tree:
    """What changes a run besides its model, ``{dotted key: value}``, with the precision that it comes to.

    Not in it: the training text, which is compared by content; evaluation sets, folders, workers; and how long to
    train, so that a finished run can be extended.
    """
    section = {**config["data"], "reading.fraction": config["data"]["reading"]["fraction"]}
    data = {f"data.{key}": section[key] for key in _DATA}
    settings = {f"trainer.{key}": config["trainer"][key] for key in _TRAINER}
    settings["trainer.precision"] = str(trainer.precision)
    return {"seed_everything": config["seed_everything"], **data, **settings, "processes": trainer.world_size}


def differences(mine: Tree, saved: Tree) -> Differences:
    """The values that differ between two model sections; the encoder's origin is left aside.

    An argument that the checkpoint does not know of its plug-in had its default's effect then.

    Examples:
        >>> differences({"warmup_steps": 1, "seed": 2}, {"warmup_steps": 1, "seed": 3})
        {'model.seed': (3, 2)}
    """
    before, now = flat(saved, "model"), flat(mine, "model")
    found = {key: (before.get(key), now.get(key)) for key in [*now, *before]}
    return {
        key: values
        for key, values in found.items()
        if values[0] != values[1]
        and not f"{key}.".startswith(_ORIGIN)
        and (key in before or before.get(key.rpartition(".")[0]) is None)
    }


def encoder_differences(encoder: SentenceEncoder, payload: Tree, path: str) -> Differences:
    """The differing settings of the built backbone, and the tokenizer's content if it differs.

    The name of a folder does not show them: its files may have changed, and weights of equal shape fit.

    Args:
        encoder: of the run.
        payload: of the checkpoint.
        path: of the checkpoint, for the messages.
    """
    mine, saved = json.loads(settings_text(encoder.backbone.config)), payload["architecture"]
    found = {
        f"model.encoder.backbone.{key}": (saved[key], mine[key])
        for key in mine
        if key in saved and saved[key] != mine[key]
    }
    files = [payload["tokenizer"], tokenizer_files(encoder.tokenize.tokenizer)]
    if files[0] != files[1]:  # perhaps in its origin alone
        contents = [TextTokenizer(stored_tokenizer(path, some)).vocabulary for some in files]
        if contents[0] != contents[1]:
            found["model.encoder.tokenizer"] = (contents[0][:8], contents[1][:8])
    return found


def run_differences(mine: Tree, checkpoint: Tree) -> Differences:
    """The settings of `run_settings`; empty for a checkpoint that ``sentrep fit`` did not write."""
    saved = checkpoint.get(RECORD, mine)
    return {key: (saved[key], mine[key]) for key in mine if key in saved and saved[key] != mine[key]}


def refuse(found: Differences, allowed: bool) -> None:
    """Show each difference; refuse to resume with other settings, or warn that the resume is not exact.

    Raises:
        UsageError: there are differences, and they are not allowed.
    """
    for key, (saved, mine) in found.items():
        say(f"{key}: {saved!r} in the checkpoint, {mine!r} now")
    if allowed:
        explain(found)
    elif found:
        keys = ", ".join(found)
        raise UsageError(f"settings differ from the checkpoint's: {keys}; take its values, or add {ALLOW} to use yours")


def explain(found: Differences) -> None:
    """Warn about the parts of a resumed run that are not exact."""
    optimizer = [key for key in found if key.startswith("model.optimizer")]
    if optimizer:
        keys = ", ".join(optimizer)
        say(f"warning: the optimizer continues with the checkpoint's settings, not with yours: {keys}")
    if others := [key for key in found if key not in optimizer]:
        say(f"warning: these settings differ from the checkpoint's, and yours are used: {', '.join(others)}")


class StartEpochAgain(Callback):
    """Restarts the epoch of a run with ``--allow-changes`` whose batches differ from the checkpoint's."""

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Rewrite the place before Lightning reads it."""
        datamodule: Any = trainer.datamodule  # type: ignore[attr-defined]
        order = datamodule.train_dataloader().order()
        for state in checkpoint["loops"]["fit_loop"]["state_dict"].get("combined_loader", []):
            if state["order"] != order or state["done"] % trainer.accumulate_grad_batches:
                say("warning: the training text or its batches differ from the checkpoint's: the epoch starts again")
                start_epoch_again(checkpoint, order)
