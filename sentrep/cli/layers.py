"""The whole configuration of a run: defaults, files, a checkpoint's model, flags, and their consequences."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence

from jsonargparse import set_parsing_settings
from lightning.pytorch import Callback
from lightning.pytorch.callbacks import ModelCheckpoint

from sentrep.checkpoint.rebuild import recorded_arguments
from sentrep.checkpoint.trust import refuse_foreign_classes
from sentrep.cli.errors import UsageError
from sentrep.cli.options import search_current_folder
from sentrep.cli.recipe import Flags, Tree, merged, resolved, with_flags
from sentrep.cli.run_folder import run_name, settle_last
from sentrep.config import to_config, walk
from sentrep.evaluation import CollapseMonitor
from sentrep.io.checkpoint_file import read_checkpoint
from sentrep.io.paths import expanded
from sentrep.module import SentRepModule
from sentrep.stability import NonFiniteGuard
from sentrep.training import RunReport

set_parsing_settings(instantiate_subclass_spec_in_any=False, import_path_denylist=[])

CALLBACKS: dict[str, tuple[type[Callback], str]] = {
    "checkpoint": (ModelCheckpoint, "sentrep.training.BestCheckpoint"),
    "collapse": (CollapseMonitor, "sentrep.evaluation.CollapseMonitor"),
    "guard": (NonFiniteGuard, "sentrep.stability.NonFiniteGuard"),
    "report": (RunReport, "sentrep.training.RunReport"),
}
"""Callbacks that every run has: section, its kind, and the default. ``null`` removes one."""


def whole_tree(command: str, layers: Sequence[tuple[str, Tree]], flags: Flags, own: Tree) -> Tree:
    """The whole configuration.

    Defaults lie below the files, then comes the model of the checkpoint, then come the flags. A resumed ``fit`` takes
    the model of the files where they have one; every other command takes the checkpoint's, because its weights fit no
    other, and pooling and prompt travel with them.

    Raises:
        InputError: the checkpoint cannot be read, or names classes that are neither sentrep's nor the user's.
    """
    search_current_folder()
    files = merged(content for _, content in layers)
    tree = resolved(with_flags(merged([defaults([name for name, _ in layers]), files]), flags))
    for key in ("model", "data", "trainer"):
        if not isinstance(tree.get(key, {}), dict):
            raise UsageError(f"{key} is {tree[key]!r}; expected settings below it, or leave it out")
    path = own.get("ckpt_path", tree.pop("ckpt_path", None))
    if path == "last":
        path = settle_last(tree, resumes=command == "fit")
    if path is not None and expanded(path).is_dir():
        raise UsageError(
            f"--ckpt_path {path} is a folder, where a checkpoint is needed; to start from a model's folder: "
            f"--model.encoder.backbone {path}"
        )
    if path is not None:
        tree |= {"ckpt_path": path, "weights_only": True}  # otherwise Lightning trusts a checkpoint from the web
        if "://" not in path and (command != "fit" or "model" not in files):
            saved = recorded_arguments(read_checkpoint(expanded(path)), expanded(path))
            if "trust_plugins" not in own:
                refuse_foreign_classes(SentRepModule, saved, path, set(_classes(with_flags(files, flags))))
            flags_of_model = [(key, text) for key, text in flags if key.startswith("model.")]
            tree = with_flags({**tree, "model": saved}, flags_of_model)
    if command in ("validate", "test") and not any(key.startswith("trainer.logger") for key, _ in flags):
        tree["trainer"]["logger"] = False  # the scores are printed
    return settled(command, tree)


def _classes(tree: Tree) -> Iterator[str]:
    """The texts of a tree that may name classes."""
    for _, value in walk(tree):
        for part in value if isinstance(value, list) else [value]:
            yield str(part.get("class_path") if isinstance(part, dict) else part)


def defaults(names: Sequence[str]) -> Tree:
    """What lies below all files: the module's defaults, the logger, and the callbacks of every run."""
    parameters = inspect.signature(SentRepModule).parameters.values()
    model = {item.name: to_config(item.default) for item in parameters if item.default is not item.empty}
    logger = {
        "class_path": "lightning.pytorch.loggers.TensorBoardLogger",
        "init_args": {"save_dir": "${oc.select:trainer.default_root_dir,runs}", "name": run_name(names)},
    }
    callbacks = {key: {"class_path": default} for key, (_, default) in CALLBACKS.items()}
    return {"model": model, "trainer": {"logger": logger}, **callbacks}


def settled(command: str, tree: Tree) -> Tree:
    """The tree with the settings that others imply.

    A number of steps between validations counts across epochs, a share of an epoch within it, as all mean it.
    """
    trainer = tree["trainer"]
    if trainer.get("enable_checkpointing") is False or tree["checkpoint"] is None:
        tree["checkpoint"], trainer["enable_checkpointing"] = None, False
    interval = trainer.get("val_check_interval")
    if isinstance(interval, int) and interval > 1:
        trainer.setdefault("check_val_every_n_epoch", None)
    elif isinstance(interval, float) and trainer.get("check_val_every_n_epoch", 1) is None:
        trainer["check_val_every_n_epoch"] = 1
    if command == "test" and tree["report"] is not None:
        tree.setdefault("verbose", False)  # the report prints the scores, with pairs and protocol
    return tree
