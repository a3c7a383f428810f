"""The sections of a training configuration: defaults, precedence, and settings that follow from others."""

from __future__ import annotations

import copy
import inspect

import torch
from jsonargparse import Namespace
from lightning.pytorch import Callback
from lightning.pytorch.callbacks import ModelCheckpoint, ProgressBar
from lightning.pytorch.utilities.rank_zero import rank_zero_info

from sentrep.checkpoint.trust import refuse_foreign_classes
from sentrep.cli.config.configuration import Request, Tree, merge, with_flags
from sentrep.cli.errors import UsageError
from sentrep.config import to_config
from sentrep.data.sets.sts import not_at_hand
from sentrep.evaluation import CollapseMonitor, TrainingReport
from sentrep.evaluation.scoring import GEOMETRY
from sentrep.module import SentRepModule
from sentrep.stability import NonFiniteGuard

TRAINER_DEFAULTS = {
    "use_distributed_sampler": False,
    "num_sanity_val_steps": 0,
    "log_every_n_steps": 10,
    "enable_model_summary": False,
}
"""The sampler of `SentRepDataModule` knows its rank; Lightning's would shuffle the evaluation and repeat rows. Its
summary of a model ends in a column of zeros, the FLOPs; `Progress` reports the trained parameters."""

_RUNS = "runs"
"""Where the folders of runs are."""
_FILENAME = "step={step}-sts={val/sts:.2f}"

_SAVING = {"auto_insert_metric_name": False, "save_last": True, "save_on_exception": True}


def _refresh_rate() -> int:
    """A GPU is waited for at each refresh, because the loss is shown."""
    return 20 if torch.cuda.is_available() else 1


CALLBACKS: dict[str, tuple[type[Callback], Tree]] = {
    "checkpoint": (
        ModelCheckpoint,
        {
            "class_path": "sentrep.cli.runs.best_so_far.BestCheckpoint",
            "init_args": {"monitor": "val/sts", "mode": "max", "filename": _FILENAME, **_SAVING},
        },
    ),
    "progress": (
        ProgressBar,
        {"class_path": "sentrep.cli.runs.progress.Progress", "init_args": {"refresh_rate": _refresh_rate()}},
    ),
    "collapse": (CollapseMonitor, {"class_path": "sentrep.evaluation.CollapseMonitor"}),
    "guard": (NonFiniteGuard, {"class_path": "sentrep.stability.NonFiniteGuard"}),
    "report": (TrainingReport, {"class_path": "sentrep.evaluation.TrainingReport"}),
}
"""Section of the configuration: kind of callback, and the default. ``null`` removes one."""


def build_tree(command: str, request: Request, saved_model: Tree | None) -> Tree:
    """All settings in one tree: defaults, then files, then the checkpoint's model, then flags; the later win.

    A resumed ``fit`` takes the model of the files where they have one; every other command takes the checkpoint's,
    because its weights fit no other, and pooling and prompt travel with them.

    Raises:
        InputError: when the checkpoint's model names classes that are neither sentrep's nor in the files or flags.
    """
    tree = merge(_defaults(request), request.tree)
    if saved_model is not None and (command != "fit" or "model" not in request.tree):
        if not request.trust_plugins:
            refuse_foreign_classes(SentRepModule, saved_model, str(request.get("ckpt_path")), request.texts())
        tree["model"] = copy.deepcopy(saved_model)
    if request.get("ckpt_path") is not None:
        tree["weights_only"] = True  # Lightning's default trusts a checkpoint from the web
    tree = with_flags(tree, request.flags)
    _follow_root(tree)
    for key in ("model", "data", "trainer"):
        if not isinstance(tree.get(key, {}), dict):
            where = request.origin(key)
            raise UsageError(f"{where}{key} is {tree[key]!r}; expected settings below it, or leave it out")
    if command == "test" and tree["report"] is not None:
        tree.setdefault("verbose", False)  # the report prints the scores, with pairs and protocol
    return tree


def _defaults(request: Request) -> Tree:
    parameters = inspect.signature(SentRepModule).parameters.values()
    model = {item.name: to_config(item.default) for item in parameters if item.default is not item.empty}
    logger = {
        "class_path": "lightning.pytorch.loggers.TensorBoardLogger",
        "init_args": {"save_dir": _RUNS, "name": request.name},
    }
    callbacks = {key: default for key, (_, default) in CALLBACKS.items()}
    return copy.deepcopy({"model": model, "trainer": {"logger": logger}, **callbacks})


def _follow_root(tree: Tree) -> None:
    """Let the run's folder lie in ``trainer.default_root_dir`` where the logger was not told of another place."""
    trainer = tree["trainer"] if isinstance(tree["trainer"], dict) else {}
    root, logger = trainer.get("default_root_dir"), trainer.get("logger")
    settings = logger.get("init_args") if isinstance(logger, dict) else None
    if root and isinstance(settings, dict) and settings.get("save_dir") == _RUNS:
        settings["save_dir"] = str(root)


def settle(config: Namespace) -> None:
    """Settle what depends on several sections at once.

    A callback that is switched off by one of Lightning's two ways is off in both: half off is an error there. A
    fast_dev_run leaves nothing behind; Lightning's ``save_last`` and ``save_on_exception`` forget that. A number of
    steps between validations counts across epochs, a share of an epoch within it, as all mean it.
    """
    for key, switch in {"checkpoint": "enable_checkpointing", "progress": "enable_progress_bar"}.items():
        if config.trainer[switch] is False:
            config[key] = None
        elif config.get(key) is None:
            config.trainer[switch] = False
    if config.trainer.fast_dev_run and config.get("checkpoint.init_args.save_last"):
        config.checkpoint.init_args.save_last = config.checkpoint.init_args.save_on_exception = False
    interval = config.trainer.val_check_interval
    if isinstance(interval, int) and interval > 1 and config.trainer.check_val_every_n_epoch == 1:
        config.trainer.check_val_every_n_epoch = None
    if isinstance(interval, float) and config.trainer.check_val_every_n_epoch is None:  # a share of an epoch
        config.trainer.check_val_every_n_epoch = 1


def settle_sets(config: Namespace) -> None:
    """Remove evaluation sets that cannot be downloaded from the Hub, with a message."""
    if config.data.sts_folder is not None or not (missing := not_at_hand(config.data.val or [])):
        return
    config.data.val = [spec for spec in config.data.val if spec not in missing]
    rank_zero_info(
        f"{', '.join(missing)} cannot be downloaded from the Hub; training continues without. For scores give "
        "--data.sts_folder FOLDER (the SentEval data), or your own pairs, --data.val '[FILE]'"
    )


def settle_monitor(config: Namespace) -> None:
    """The criterion of the best checkpoint, its direction and its file name; none without a development set."""
    monitor = config.get("checkpoint.init_args.monitor")
    if not monitor or not monitor.startswith("val/"):
        return
    settings = config.checkpoint.init_args
    if not config.data.val:
        monitor = settings["monitor"] = None
        rank_zero_info("no validation set: the last checkpoint is kept")
    elif monitor.rpartition("/")[2] in GEOMETRY:
        settings["mode"] = "min"
    if settings.get("filename") == _FILENAME:
        metric = f"-{monitor.removeprefix('val/').replace('/', '-')}={{{monitor}:.2f}}" if monitor else ""
        settings["filename"] = "step={step}" + metric
