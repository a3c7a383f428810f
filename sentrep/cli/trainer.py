"""``sentrep fit | validate | test | predict``: the LightningCLI with mergeable configurations and short errors."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("JSONARGPARSE_DEPRECATION_WARNINGS", "off")  # of LightningCLI's own calls, not the user's

import yaml
from jsonargparse import set_parsing_settings
from lightning.pytorch.cli import ArgsType, LightningArgumentParser, LightningCLI
from lightning.pytorch.utilities.exceptions import MisconfigurationException, SIGTERMException
from lightning.pytorch.utilities.rank_zero import rank_zero_only

import sentrep.negatives
import sentrep.objectives
import sentrep.views
import sentrep.weighting  # noqa: F401 (the plug-ins must be imported to be found by their short names)
from sentrep.cli.callbacks import SaveConfig, SavePredictions
from sentrep.cli.checkpoints import checkpoint_model, differing_keys
from sentrep.cli.configuration import Tree, parse_request
from sentrep.cli.errors import UsageError, summarize
from sentrep.cli.sections import (
    CALLBACKS,
    TRAINER_DEFAULTS,
    build_tree,
    check_names,
    settle_callbacks,
    settle_monitor,
    settle_validation,
)
from sentrep.config import Configurable
from sentrep.data import SentRepDataModule
from sentrep.errors import InputError
from sentrep.module import SentRepModule

COMMANDS = ("fit", "validate", "test", "predict")
TERMINATED = 143
"""Exit status after SIGTERM, as shells have it: 128 + SIGTERM. Lightning alone would report success."""


class SentRepCLI(LightningCLI):
    """LightningCLI over `SentRepModule` and `SentRepDataModule`; the configuration arrives merged and checked."""

    def __init__(self, command: str, tree: Tree, saved_model: Tree | None, rest: list[str]) -> None:
        self._saved_model = saved_model
        self._parsers: list[LightningArgumentParser] = []
        options = {"exit_on_error": False, "allow_abbrev": False}
        super().__init__(
            SentRepModule,
            SentRepDataModule,
            save_config_callback=SaveConfig,
            seed_everything_default=42,
            trainer_defaults={**TRAINER_DEFAULTS, "callbacks": [SavePredictions()]},
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
        assert isinstance(args, list)
        self.config = parser.parse_args(args)

    def _parse_ckpt_path(self) -> None:
        """Say which settings differ from the checkpoint's.

        Lightning's own overwrites the user's flags with the checkpoint's values without a word. Here the checkpoint's
        settings are a layer of the configuration (`build_tree`), below the flags.
        """
        if self._saved_model is None:
            return
        dump = yaml.safe_load(self.parser.dump(self.config, skip_unset=False))
        differing = differing_keys(dump[self.config.subcommand]["model"], self._saved_model)
        optimizer = [key for key in differing if key.startswith("model.optimizer")]
        if self.config.subcommand == "fit" and optimizer:
            _warn(f"the optimizer continues with the checkpoint's settings, not with yours: {', '.join(optimizer)}")
        if others := [key for key in differing if key not in optimizer]:
            _warn(f"these settings differ from the checkpoint's, and yours are used: {', '.join(others)}")

    def before_instantiate_classes(self) -> None:
        """Settle what depends on several sections at once."""
        config = self.config[self.subcommand]
        settle_callbacks(config)
        for parser in self._parsers:
            parser.callback_keys = [key for key in CALLBACKS if config.get(key) is not None]
        settle_validation(config)
        if self.subcommand == "fit":
            settle_monitor(config)

    def instantiate_classes(self) -> None:
        """Build everything; the first refusal is the error, not jsonargparse's account of the union it was tried in."""
        refusals: list[Exception] = []

        def build(kind: type, /, *args: Any, **kwargs: Any) -> Any:
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
    prepare_parsing()
    logging.getLogger("lightning.pytorch.utilities.rank_zero").addFilter(_is_no_advertisement)
    _show_log()
    if command != "fit":  # then nothing is saved, and where does not matter
        warnings.filterwarnings("ignore", message="The dirpath has changed from")
    request = parse_request(words)
    saved_model = checkpoint_model(request.get("ckpt_path"))
    tree = build_tree(command, request, saved_model)
    check_names(tree, request)
    try:
        cli = SentRepCLI(command, tree, saved_model, request.rest)
    except argparse.ArgumentError as error:
        raise UsageError(summarize(str(error).replace(f"{command}.", ""), tree)) from None
    except MisconfigurationException as error:
        raise InputError(str(error)) from error
    except SIGTERMException:
        return TERMINATED
    return TERMINATED if cli.trainer.received_sigterm else 0


def prepare_parsing() -> None:
    """Let configurations name the user's classes in the current folder, and nothing but classes where those belong."""
    set_parsing_settings(instantiate_subclass_spec_in_any=False, import_path_denylist=[])
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # for `class_path: my_objective.MyObjective`


class _StandardError(logging.Handler):
    """Prints the messages of the main process, wherever standard error is at the time."""

    def emit(self, record: logging.LogRecord) -> None:
        if rank_zero_only.rank == 0:  # type: ignore[attr-defined]
            print(self.format(record), file=sys.stderr)


def _show_log() -> None:
    """Let everyone see what was read, left out, cut, or paired with itself."""
    logger = logging.getLogger("sentrep")
    if not logger.handlers:
        logger.addHandler(_StandardError())
        logger.setLevel(logging.INFO)


def _is_no_advertisement(record: logging.LogRecord) -> bool:
    return "Tip: For seamless" not in record.getMessage()


@rank_zero_only
def _warn(message: str) -> None:
    print(f"sentrep: warning: {message}", file=sys.stderr)
