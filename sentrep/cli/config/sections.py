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
from sentrep.config import class_name, to_config
from sentrep.data.sets.sts import not_at_hand, set_name
from sentrep.errors import did_you_mean
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

_COUNTS = ("step", "epoch")
"""What `ModelCheckpoint` can monitor besides metrics."""
_WHICH_WAY = "checkpoint.monitor {}: say which way is better: --checkpoint.mode max or min"

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
    if command == "fit":
        _follow_monitor(tree, request)
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


def settle_monitor(config: Namespace, request: Request) -> None:
    """The criterion of the best checkpoint and its file name; none without a development set.

    Raises:
        UsageError: for the name of a score that no development set gives.
    """
    monitor = config.get("checkpoint.init_args.monitor")
    if not monitor:
        return
    settings = config.checkpoint.init_args
    if monitor.startswith("val/") and not config.data.val:
        monitor = settings["monitor"] = None
        rank_zero_info("no validation set: the last checkpoint is kept")
    elif not monitor.startswith("train/") and monitor not in _COUNTS:
        _check_score(config, monitor, directed=_mode(request) is not None)
    if settings.get("filename") == _FILENAME:
        score = monitor and monitor not in _COUNTS
        metric = f"-{monitor.removeprefix('val/').replace('/', '-')}={{{monitor}:.2f}}" if score else ""
        settings["filename"] = "step={step}" + metric


def _check_score(config: Namespace, monitor: str, directed: bool) -> None:
    """Refuse a score that nothing logs, and a callback's score whose direction is not known."""
    names = [f"val/{set_name(spec)}" for spec in config.data.val or []]
    measures = [f"{name}/{measure}" for name in names for measure in (*GEOMETRY, *(config.data.metrics or {}))]
    callbacks = config.trainer.callbacks or []
    callbacks = callbacks if isinstance(callbacks, list) else [callbacks]
    suites = [
        callback.init_args.suite for callback in callbacks if class_name(callback.class_path) == "SuiteEvaluation"
    ]
    scores = ["val/sts", *names, *measures, *(f"val/{suite}" for suite in suites)]
    if monitor in scores:
        return
    if not suites and not any("." in class_name(one.class_path) for one in callbacks):
        hint = did_you_mean(monitor, scores) or f"; they give {', '.join(scores)}"
        raise UsageError(f"checkpoint.monitor: the sets of data.val give no {monitor!r}{hint}")
    if not directed:  # a callback may log it
        raise UsageError(_WHICH_WAY.format(monitor))


def _follow_monitor(tree: Tree, request: Request) -> None:
    """Set the direction of a criterion that the user named without one.

    Raises:
        UsageError: for a metric of the user's, of which either direction may be better.
    """
    node = tree["checkpoint"]
    settings = (node.get("init_args") or {}) if isinstance(node, dict) else {}
    monitor = settings.get("monitor") if isinstance(settings, dict) else None
    if not isinstance(monitor, str) or _mode(request) is not None:
        return
    of_a_set = monitor.startswith("val/")
    if of_a_set and monitor.count("/") > 1 and monitor.rpartition("/")[2] not in GEOMETRY:
        raise UsageError(_WHICH_WAY.format(monitor))
    settings["mode"] = "max" if of_a_set and monitor.count("/") == 1 else "min"  # Lightning's default


def _mode(request: Request) -> str | None:
    """``checkpoint.mode`` where the user gave it for this criterion: beside its name, or in a later file or flag."""
    mode = None
    for layer in (*(tree for _, tree in request.sources), with_flags({}, request.flags)):
        section = layer.get("checkpoint")
        section = {**section, **(section.get("init_args") or {})} if isinstance(section, dict) else {}
        mode = section.get("mode", None if "monitor" in section else mode)
    return mode
