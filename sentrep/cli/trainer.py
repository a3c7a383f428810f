"""``sentrep fit | validate | test | predict``: the LightningCLI with mergeable configurations and short errors."""

from __future__ import annotations

import argparse
import copy
import inspect
import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("JSONARGPARSE_DEPRECATION_WARNINGS", "off")  # of LightningCLI's own calls, not the user's

import yaml
from jsonargparse import Namespace, set_parsing_settings
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint, ProgressBar
from lightning.pytorch.cli import ArgsType, LightningArgumentParser, LightningCLI
from lightning.pytorch.utilities.exceptions import MisconfigurationException, SIGTERMException
from lightning.pytorch.utilities.rank_zero import rank_zero_info, rank_zero_only

import sentrep.negatives
import sentrep.objectives
import sentrep.views
import sentrep.weighting  # noqa: F401 (the plug-ins must be imported to be found by their short names)
from sentrep.cli.callbacks import SaveConfig, SavePredictions
from sentrep.cli.check import check_arguments, check_value
from sentrep.cli.checkpoints import checkpoint_model, differing_keys
from sentrep.cli.configuration import Request, Tree, apply_flags, merge, parse_request
from sentrep.cli.errors import UsageError, did_you_mean, summarize
from sentrep.config import Configurable, to_config
from sentrep.data import SentRepDataModule
from sentrep.errors import InputError
from sentrep.module import SentRepModule

COMMANDS = ("fit", "validate", "test", "predict")
TERMINATED = 143
"""Exit status after SIGTERM, as shells have it: 128 + SIGTERM. Lightning alone would report success."""

TRAINER_DEFAULTS = {"use_distributed_sampler": False, "num_sanity_val_steps": 0, "log_every_n_steps": 10}
"""The sampler of `SentRepDataModule` knows its rank; Lightning's would shuffle the evaluation and repeat rows."""

CALLBACKS: dict[str, tuple[type[Callback], Tree]] = {
    "checkpoint": (
        ModelCheckpoint,
        {
            "class_path": "lightning.pytorch.callbacks.ModelCheckpoint",
            "init_args": {
                "monitor": "val/sts",
                "mode": "max",
                "filename": "step={step}-sts={val/sts:.2f}",
                "auto_insert_metric_name": False,
                "save_last": True,
                "save_on_exception": True,
            },
        },
    ),
    "progress": (ProgressBar, {"class_path": "lightning.pytorch.callbacks.TQDMProgressBar"}),
}
"""Section of the configuration: kind of callback, and the default. ``null`` removes one."""


class SentRepCLI(LightningCLI):
    """LightningCLI over `SentRepModule` and `SentRepDataModule`; the configuration arrives merged and checked."""

    def __init__(self, command: str, tree: Tree, rest: list[str]) -> None:
        self._saved_model = checkpoint_model(tree.get("ckpt_path"))
        self._parsers: list[LightningArgumentParser] = []
        options = {"exit_on_error": False, "allow_abbrev": False}
        super().__init__(
            SentRepModule,
            SentRepDataModule,
            save_config_callback=SaveConfig,
            seed_everything_default=42,
            trainer_defaults=TRAINER_DEFAULTS,
            auto_configure_optimizers=False,
            parser_kwargs={**options, **{name: dict(options) for name in COMMANDS}},
            args=[command, "--config", json.dumps(tree), *rest],
        )

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add the sections of the default callbacks."""
        self._parsers.append(parser)
        for key, (kind, default) in CALLBACKS.items():
            parser.add_lightning_class_args(kind, key, subclass_mode=True, required=False)
            parser.set_defaults({key: default})

    def parse_arguments(self, parser: LightningArgumentParser, args: ArgsType) -> None:
        """Parse the arguments given; Lightning's own warns when the process has a command line as well."""
        self.config = parser.parse_args(args)

    def _parse_ckpt_path(self) -> None:
        """Say which settings differ from the checkpoint's.

        Lightning's own overwrites the user's flags with the checkpoint's values without a word. Here the checkpoint's
        settings are a layer of the configuration (`model_settings`), below the flags.
        """
        if self._saved_model is None:
            return
        dump = yaml.safe_load(self.parser.dump(self.config, skip_unset=False))
        differing = differing_keys(dump[self.config.subcommand]["model"], self._saved_model)
        if differing:
            _warn(f"these settings differ from the checkpoint's, and yours are used: {', '.join(differing)}")

    def before_instantiate_classes(self) -> None:
        """Settle what depends on several sections at once."""
        config = self.config[self.subcommand]
        _settle_callbacks(config)
        for parser in self._parsers:
            parser.callback_keys = [key for key in CALLBACKS if config.get(key) is not None]
        _settle_validation(config)
        if self.subcommand == "fit":
            _settle_monitor(config)

    def instantiate_classes(self) -> None:
        """Build everything; the first refusal is the error, not jsonargparse's account of the union it was tried in."""
        refusals: list[Exception] = []

        def build(kind: type, *args: Any, **kwargs: Any) -> Any:
            try:
                return kind(*args, **kwargs)
            except Exception as error:
                refusals.append(error)
                raise

        self.parser.add_instantiator(build, Configurable)
        try:
            super().instantiate_classes()
        except ValueError as error:
            raise (refusals or [error])[0] from None

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        """The trainer, with the writer of predictions where there are some."""
        trainer = super().instantiate_trainer(**kwargs)
        if self.subcommand == "predict":
            trainer.callbacks.append(SavePredictions())
        return trainer

    def predict(self, **kwargs: Any) -> None:
        """Embed without keeping all rows in memory: `SavePredictions` writes them."""
        self.trainer.predict(**{**kwargs, "return_predictions": False})


def run(command: str, words: list[str]) -> int:
    """Run one of Lightning's commands.

    Args:
        command: fit, validate, test or predict.
        words: the rest of the command line.

    Returns:
        The exit status.

    Raises:
        UsageError: for a wrong flag, key, class or type.
        InputError: for bad data, from wherever it is found.
    """
    set_parsing_settings(instantiate_subclass_spec_in_any=False, import_path_denylist=[])
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # for `class_path: my_objective.MyObjective`
    request = parse_request(words)
    tree = build_tree(command, request)
    _check_names(tree, request)
    try:
        cli = SentRepCLI(command, tree, request.rest)
    except argparse.ArgumentError as error:
        raise UsageError(summarize(str(error).replace(f"{command}.", ""), tree)) from None
    except MisconfigurationException as error:
        raise InputError(str(error)) from error
    except SIGTERMException:
        return TERMINATED
    return TERMINATED if cli.trainer.received_sigterm else 0


def build_tree(command: str, request: Request) -> Tree:
    """All settings in one tree: defaults, then files, then the checkpoint's model, then flags; the later win.

    A resumed ``fit`` takes the model of the files where they have one; every other command takes the checkpoint's,
    because its weights fit no other, and pooling and prompt travel with them.
    """
    tree = merge(_defaults(request), request.tree)
    saved = checkpoint_model(request.flags.get("ckpt_path", tree.get("ckpt_path")))
    if saved is not None:
        tree["weights_only"] = True  # Lightning's default trusts a checkpoint from the web
        if command != "fit" or "model" not in request.tree:
            tree["model"] = saved
    apply_flags(tree, request.flags)
    return tree


def _defaults(request: Request) -> Tree:
    name = Path(request.files[0]).stem if request.files and request.files[0] != "--config" else "default"
    parameters = inspect.signature(SentRepModule).parameters.values()
    model = {item.name: to_config(item.default) for item in parameters if item.default is not item.empty}
    logger = {
        "class_path": "lightning.pytorch.loggers.TensorBoardLogger",
        "init_args": {"save_dir": "runs", "name": name},
    }
    callbacks = {key: default for key, (_, default) in CALLBACKS.items()}
    return copy.deepcopy({"model": model, "trainer": {"logger": logger}, **callbacks})


def _check_names(tree: Tree, request: Request) -> None:
    sections = {"model": SentRepModule, "data": SentRepDataModule, "trainer": Trainer}
    known = (*sections, *CALLBACKS, "seed_everything", "ckpt_path", "weights_only", "verbose", "return_predictions")
    for key, value in tree.items():
        if key not in known:
            raise UsageError(f"{_origin(key, request)}unknown key '{key}'{did_you_mean(key, known)}")
        if key in sections:
            check_arguments(sections[key], value, key)
        elif key in CALLBACKS:
            check_value(CALLBACKS[key][0] | None, value, key)


@rank_zero_only
def _warn(message: str) -> None:
    print(f"sentrep: warning: {message}", file=sys.stderr)


def _origin(key: str, request: Request) -> str:
    return next((f"{name}: " for name, tree in reversed(request.sources) if key in tree), "")


def _settle_callbacks(config: Namespace) -> None:
    """A callback that is switched off by one of Lightning's two ways is off in both: half off is an error there."""
    for key, switch in {"checkpoint": "enable_checkpointing", "progress": "enable_progress_bar"}.items():
        if config.trainer[switch] is False:
            config[key] = None
        elif config.get(key) is None:
            config.trainer[switch] = False


def _settle_validation(config: Namespace) -> None:
    """A number of steps between validations counts across epochs, as everyone means it."""
    interval = config.trainer.val_check_interval
    if isinstance(interval, int) and interval > 1 and config.trainer.check_val_every_n_epoch == 1:
        config.trainer.check_val_every_n_epoch = None


def _settle_monitor(config: Namespace) -> None:
    """Without validation sets there is no score to choose the best checkpoint by."""
    monitor = config.get("checkpoint.init_args.monitor")
    if monitor and monitor.startswith("val/") and not config.data.val:
        for key, value in {"monitor": None, "mode": "min", "filename": "step={step}"}.items():
            config.checkpoint.init_args[key] = value
        rank_zero_info(f"data.val is empty: checkpoints are kept by recency, not by {monitor}")
