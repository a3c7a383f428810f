"""``sentrep fit | validate | test | predict``: the LightningCLI with mergeable configurations and short errors."""

from __future__ import annotations

import json
import os
import warnings
from typing import Any

os.environ.setdefault("JSONARGPARSE_DEPRECATION_WARNINGS", "off")  # of LightningCLI's own calls, not the user's

import yaml
from jsonargparse import set_parsing_settings
from lightning.fabric.plugins.io import TorchCheckpointIO
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.cli import ArgsType, LightningArgumentParser, LightningCLI
from lightning.pytorch.utilities.exceptions import SIGTERMException

import sentrep.negatives
import sentrep.objectives
import sentrep.views
import sentrep.weighting  # noqa: F401 (the plug-ins must be imported to be found by their short names)
from sentrep.checkpoint.io import AtomicCheckpointIO
from sentrep.cli.config.building import first_refusal
from sentrep.cli.config.complaints import refuse_dropped, summarized
from sentrep.cli.config.configuration import Request, Tree
from sentrep.cli.config.sections import (
    CALLBACKS,
    TRAINER_DEFAULTS,
    build_tree,
    settle,
    settle_monitor,
    settle_sets,
)
from sentrep.cli.errors import UsageError
from sentrep.cli.options import search_current_folder
from sentrep.cli.runs.best_so_far import RememberBest
from sentrep.cli.runs.callbacks import SaveConfig, SavePredictions
from sentrep.cli.runs.changes import (
    StartEpochAgain,
    differences,
    encoder_differences,
    explain,
    refuse,
    run_differences,
    run_settings,
)
from sentrep.cli.runs.checkpoints import checkpoint_content, checkpoint_model, settle_last
from sentrep.cli.runs.csv_rows import keep_rows
from sentrep.cli.runs.logs import say, show_log
from sentrep.cli.runs.precision import settle_precision
from sentrep.cli.runs.run_folders import RunFolders
from sentrep.cli.runs.signals import StopOnSignal
from sentrep.data import SentRepDataModule
from sentrep.distributed import explain_lost_peer, leave_gloo_group
from sentrep.errors import InputError
from sentrep.io.checkpoint_file import PAYLOAD_KEY
from sentrep.module import SentRepModule
from sentrep.training.arguments import check_trainer


class SentRepCLI(LightningCLI):
    """LightningCLI over `SentRepModule` and `SentRepDataModule`; the configuration arrives merged and checked."""

    def __init__(
        self,
        command: str,
        request: Request,
        tree: Tree,
        checkpoint: Tree | None,
        stop: StopOnSignal,
        folders: RunFolders,
    ) -> None:
        self._command = command
        self._tree = tree
        self._checkpoint = checkpoint
        self._folders = folders
        self._request = request
        callbacks: list[Callback] = [SavePredictions(), RememberBest(), stop]
        if command == "fit" and request.allow_changes:
            callbacks.insert(0, StartEpochAgain())
        options: dict[str, Any] = {"exit_on_error": False, "allow_abbrev": False}
        super().__init__(
            SentRepModule,
            SentRepDataModule,
            save_config_callback=SaveConfig,
            seed_everything_default=42,
            trainer_defaults={**TRAINER_DEFAULTS, "callbacks": callbacks},
            auto_configure_optimizers=False,
            parser_kwargs={**options, command: options},
            args=[command, "--config", json.dumps(tree), *request.rest],
        )

    def subcommands(self) -> dict[str, set[str]]:  # type: ignore[override]
        """The command that is asked for: parsers for the others would take as long to build, each, and go unused."""
        return {self._command: LightningCLI.subcommands()[self._command]}

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add the sections of the default callbacks."""
        self._sections = parser
        for key, (kind, default) in CALLBACKS.items():
            parser.add_lightning_class_args(kind, key, subclass_mode=True, required=False)
            parser.set_defaults({key: default})

    def parse_arguments(self, parser: LightningArgumentParser, args: ArgsType) -> None:
        """Parse the arguments given; Lightning's own warns when the process has a command line as well."""
        assert isinstance(args, list)
        with summarized(self._sections, self._tree, self._command):
            self.config = parser.parse_args(args)
        refuse_dropped(self._tree, self.config[self._command])

    def _parse_ckpt_path(self) -> None:
        """Say which settings differ from the checkpoint's, where they do no harm.

        Lightning's own overwrites the user's flags with the checkpoint's values without a word. Here the checkpoint's
        settings are a layer of the configuration (`build_tree`), below the flags. ``fit`` compares in `before_fit`.
        """
        if self._checkpoint is not None and self._command != "fit":
            plain = yaml.safe_load(self.parser.dump(self.config, skip_unset=False, skip_validation=True))
            explain(differences(plain[self._command]["model"], checkpoint_model(self._checkpoint, "")))

    def before_fit(self) -> None:
        """Lock the run's folders; refuse to continue a run with other settings, unless the user allows it."""
        self._folders.hold_all(self.trainer)
        if self._checkpoint is not None:
            mine = run_settings(self.config_dump, self.trainer)
            found = differences(self.config_dump["model"], checkpoint_model(self._checkpoint, ""))
            payload, path = self._checkpoint[PAYLOAD_KEY], str(self.config.fit.ckpt_path)
            found |= encoder_differences(self.model.encoder, payload, path)
            refuse({**found, **run_differences(mine, self._checkpoint)}, self._request.allow_changes)
            keep_rows(self.trainer, self._checkpoint["global_step"])
        self.before_validate()

    def before_validate(self) -> None:
        """Release the checkpoint: its weights need not stay in memory."""
        self._checkpoint = None

    before_test = before_predict = before_validate

    def after_fit(self) -> None:
        """Fail where the end of the run is not on disk.

        Raises:
            InputError: says how much space is needed.
        """
        if failure := getattr(self.trainer.strategy.checkpoint_io, "failure", None):  # of `AtomicCheckpointIO`
            raise InputError(f"the training is done, but {failure} and resume with --ckpt_path last")

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        """The trainer, with checkpoints written atomically where no other plug-in was asked for."""
        if self._command == "fit":
            kwargs = {**settle_precision(self.config.fit.trainer, self._checkpoint), **kwargs}
        trainer = super().instantiate_trainer(**kwargs)
        if type(trainer.strategy.checkpoint_io) is TorchCheckpointIO:
            trainer.strategy.checkpoint_io = AtomicCheckpointIO()
        return trainer

    def before_instantiate_classes(self) -> None:
        """Settle what depends on several sections at once."""
        config = self.config[self._command]
        settle(config)
        if self._command == "fit":
            try:
                check_trainer(config.trainer)
            except InputError as error:
                raise UsageError(str(error)) from None
            settle_sets(config)
            settle_monitor(config, self._request)
        self._sections.callback_keys = [key for key in CALLBACKS if config.get(key) is not None]

    def instantiate_classes(self) -> None:
        """Build everything (`first_refusal`)."""
        settings = self.config[self._command].trainer
        claimed = [] if settings.fast_dev_run else self._folders.claim_versions(settings.logger)
        try:
            with first_refusal(self.parser):
                super().instantiate_classes()
        finally:
            for logger in claimed:
                logger.version = None  # the saved configuration starts a run of its own

    def predict(self, **kwargs: Any) -> None:
        """Embed without keeping all rows in memory: `SavePredictions` writes them."""
        self.trainer.predict(**{**kwargs, "return_predictions": False})


def launch(command: str, request: Request) -> int:
    """Run fit, validate, test or predict as it was asked for, and return the exit status.

    Raises:
        UsageError: for a wrong key, class or type.
        InputError: for bad data, from wherever it is found.
        Exception: of Lightning, torch or a plug-in, as it is.
    """
    prepare_parsing()
    show_log()
    warnings.filterwarnings("ignore", message=r"Found \d+ module\(s\) in eval mode")  # copies that are not trained
    if command != "fit":  # then nothing is saved, and where does not matter
        warnings.filterwarnings("ignore", message="The dirpath has changed from")
    if len(request.files) > 1:
        below, *over = request.files
        say(f"one run: {below}, overridden by {', '.join(over)}")
    stop = StopOnSignal()
    with RunFolders(trains=command == "fit") as folders, explain_lost_peer():
        if request.get("ckpt_path") == "last":
            settle_last(request, build_tree(command, request, None), folders if command == "fit" else None)
        path = request.get("ckpt_path")
        checkpoint = checkpoint_content(path)
        tree = build_tree(command, request, checkpoint and checkpoint_model(checkpoint, path))
        if command in ("validate", "test") and not any(key.startswith("trainer.logger") for key in request.flags):
            tree["trainer"]["logger"] = False  # scores are printed; a run's folder with nothing else helps nobody
        try:
            SentRepCLI(command, request, tree, checkpoint, stop, folders)
        except SIGTERMException:
            return stop.status
        finally:
            leave_gloo_group()
    return 0


def prepare_parsing() -> None:
    """Let configurations name the user's classes in the current folder, and nothing but classes where those belong."""
    set_parsing_settings(instantiate_subclass_spec_in_any=False, import_path_denylist=[])
    search_current_folder()
