"""The whole configuration of a run: defaults, files, a checkpoint's model, flags, and what follows from several."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from jsonargparse import Namespace
from lightning.pytorch import Callback
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.utilities.rank_zero import rank_zero_info

from sentrep.checkpoint.rebuild import recorded_arguments
from sentrep.checkpoint.trust import refuse_foreign_classes
from sentrep.cli.errors import UsageError
from sentrep.cli.recipe import Flags, Tree, merged, with_flags
from sentrep.cli.run_folder import run_name, settle_last
from sentrep.config import to_config, walk
from sentrep.data.sets.sts import not_at_hand
from sentrep.evaluation import CollapseMonitor
from sentrep.io.checkpoint_file import read_checkpoint
from sentrep.io.paths import expanded
from sentrep.module import SentRepModule
from sentrep.stability import NonFiniteGuard
from sentrep.training import RunReport

CALLBACKS: dict[str, tuple[type[Callback], str]] = {
    "checkpoint": (ModelCheckpoint, "sentrep.training.BestCheckpoint"),
    "collapse": (CollapseMonitor, "sentrep.evaluation.CollapseMonitor"),
    "guard": (NonFiniteGuard, "sentrep.stability.NonFiniteGuard"),
    "report": (RunReport, "sentrep.training.RunReport"),
}
"""Callbacks that every run has: section, its kind, and the default. ``null`` removes one."""


def whole_tree(command: str, layers: Sequence[tuple[str, Tree]], flags: Flags, own: Tree) -> tuple[Tree, Tree | None]:
    """The whole configuration, and the content of the checkpoint that it names.

    Defaults lie below the files, then comes the checkpoint's model, then come the flags. A resumed ``fit`` takes the
    model of the files where they have one; every other command takes the checkpoint's, because its weights fit no
    other, and pooling and prompt travel with them.

    Raises:
        InputError: the checkpoint cannot be read, or names classes that are neither sentrep's nor the user's.
    """
    files = merged(content for _, content in layers)
    tree = with_flags(merged([defaults([name for name, _ in layers]), files]), flags)
    own_logger = any(key.startswith("trainer.logger") for key, _ in flags)
    path = own.get("ckpt_path", tree.pop("ckpt_path", None))
    _follow_root(tree)
    if path == "last":
        path = settle_last(tree, resumes=command == "fit")
    if path is None:
        return settled(command, tree, own_logger), None
    tree |= {"ckpt_path": path, "weights_only": True}  # otherwise Lightning trusts a checkpoint from the web
    if "://" in path:
        return settled(command, tree, own_logger), None
    checkpoint = read_checkpoint(expanded(path))
    if command != "fit" or "model" not in files:
        saved = recorded_arguments(checkpoint, expanded(path))
        if "trust_plugins" not in own:
            mine = [value for _, value in walk(with_flags(files, flags))]
            parts = [part for value in mine for part in (value if isinstance(value, list) else [value])]
            texts = {str(part.get("class_path") if isinstance(part, dict) else part) for part in parts}
            refuse_foreign_classes(SentRepModule, saved, path, texts)
        flags = [(key, text) for key, text in flags if key.startswith("model.")]
        tree = with_flags({**tree, "model": saved}, flags)
    return settled(command, tree, own_logger), checkpoint


def defaults(names: Sequence[str]) -> Tree:
    """What lies below all files: the module's defaults, the logger, and the callbacks of every run."""
    parameters = inspect.signature(SentRepModule).parameters.values()
    model = {item.name: to_config(item.default) for item in parameters if item.default is not item.empty}
    logger = {
        "class_path": "lightning.pytorch.loggers.TensorBoardLogger",
        "init_args": {"save_dir": "runs", "name": run_name(names)},
    }
    callbacks = {key: {"class_path": default} for key, (_, default) in CALLBACKS.items()}
    return {"model": model, "trainer": {"logger": logger}, **callbacks}


def settled(command: str, tree: Tree, own_logger: bool = False) -> Tree:
    """The tree with what follows from several settings at once.

    A number of steps between validations counts across epochs, a share of an epoch within it, as all mean it. A run
    that only scores prints the scores, and its folder with nothing else would help nobody.

    Raises:
        UsageError: a section that is no mapping.
    """
    for key in ("model", "data", "trainer"):
        if not isinstance(tree.get(key, {}), dict):
            raise UsageError(f"{key} is {tree[key]!r}; expected settings below it, or leave it out")
    trainer = tree["trainer"]
    if trainer.get("enable_checkpointing") is False or tree["checkpoint"] is None:
        tree["checkpoint"], trainer["enable_checkpointing"] = None, False
    interval = trainer.get("val_check_interval")
    if isinstance(interval, int) and interval > 1:
        trainer.setdefault("check_val_every_n_epoch", None)
    elif isinstance(interval, float) and trainer.get("check_val_every_n_epoch", 1) is None:
        trainer["check_val_every_n_epoch"] = 1
    if command in ("validate", "test") and not own_logger:
        trainer["logger"] = False
    if command == "test" and tree["report"] is not None:
        tree.setdefault("verbose", False)  # the report prints the scores, with pairs and protocol
    return tree


def _follow_root(tree: Tree) -> None:
    """Let the run lie in ``trainer.default_root_dir`` where the logger was not told of another place."""
    trainer = tree["trainer"] if isinstance(tree["trainer"], dict) else {}
    root, logger = trainer.get("default_root_dir"), trainer.get("logger")
    if root and isinstance(logger, dict) and logger.get("init_args", {}).get("save_dir") == "runs":
        logger["init_args"]["save_dir"] = str(root)


def without_missing_sets(config: Namespace) -> None:
    """Leave development sets that cannot be downloaded from the Hub out of a training, with a message."""
    if config.data.sts_folder is None and (missing := not_at_hand(config.data.val or [])):
        config.data.val = [spec for spec in config.data.val if spec not in missing]
        rank_zero_info(
            f"{', '.join(missing)} cannot be downloaded from the Hub; training continues without. For scores give "
            "--data.sts_folder FOLDER (the SentEval data), or your own pairs, --data.val '[FILE]'"
        )
