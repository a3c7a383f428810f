"""``sentrep fit | validate | test | predict``: the LightningCLI over a tree."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

os.environ.setdefault("JSONARGPARSE_DEPRECATION_WARNINGS", "off")  # of LightningCLI's own calls, not the user's

import numpy as np
import torch
import yaml
from jsonargparse import Namespace
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.cli import ArgsType, LightningArgumentParser, LightningCLI, SaveConfigCallback
from lightning.pytorch.utilities.exceptions import SIGTERMException
from lightning.pytorch.utilities.rank_zero import rank_zero_info

from sentrep.cli.errors import explained
from sentrep.cli.layers import CALLBACKS, whole_tree
from sentrep.cli.log import show_log
from sentrep.cli.recipe import Flags, Tree
from sentrep.cli.run_content import write_record
from sentrep.cli.run_folder import claim_version
from sentrep.data import SentRepDataModule
from sentrep.distributed import explain_lost_peer, leave_gloo_group
from sentrep.errors import InputError
from sentrep.io.files import atomic_write
from sentrep.io.paths import writing
from sentrep.io.text import printable
from sentrep.module import SentRepModule
from sentrep.training import ExactResume, LossBar, StopOnSignal

TRAINER_DEFAULTS = {
    "use_distributed_sampler": False,
    "num_sanity_val_steps": 0,
    "log_every_n_steps": 10,
    "enable_model_summary": False,
}
"""The sampler of `SentRepDataModule` knows its rank; Lightning's would shuffle the evaluation and repeat rows. Its
summary of a model ends in a column of zeros, the FLOPs; `RunReport` names the trained parameters."""


class SentRepCLI(LightningCLI):
    """LightningCLI over `SentRepModule` and `SentRepDataModule`, for one command and a merged tree."""

    def __init__(self, command: str, tree: Tree, callbacks: list[Callback], only_print: bool = False) -> None:
        self._command, self._tree, self._only_print = command, tree, only_print
        self._folder: Path | None = None
        options: dict[str, Any] = {"exit_on_error": False, "allow_abbrev": False}
        try:
            super().__init__(
                SentRepModule,
                SentRepDataModule,
                save_config_callback=SaveConfig,
                save_config_kwargs={"overwrite": True, "tree": deepcopy(tree)},  # parsing changes it
                seed_everything_default=42,
                trainer_defaults={**TRAINER_DEFAULTS, "callbacks": callbacks},
                auto_configure_optimizers=False,
                parser_kwargs={**options, command: options},
                args={"subcommand": command, command: tree},
            )
        except BaseException:
            has_begun = hasattr(self, "trainer") and self.trainer.global_step > 0
            if self._folder is not None and not has_begun:  # a failed start leaves no run
                shutil.rmtree(self._folder, ignore_errors=True)
            raise
        if self._folder is not None:
            with suppress(OSError):  # something was written there
                self._folder.rmdir()

    def subcommands(self) -> dict[str, set[str]]:  # type: ignore[override]
        """The command that is asked for: parsers for the others would take as long to build, each, and go unused."""
        return {self._command: LightningCLI.subcommands()[self._command]}

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add the sections of the default callbacks."""
        self._sections = parser
        for key, (kind, _) in CALLBACKS.items():
            parser.add_lightning_class_args(kind, key, subclass_mode=True, required=False)

    def parse_arguments(self, parser: LightningArgumentParser, args: ArgsType) -> None:
        """Parse the tree."""
        with explained(self._tree, self._sections.get_defaults(skip_validation=True).keys()):
            self.config = parser.parse_object(args)

    def _parse_ckpt_path(self) -> None:
        """Do nothing: the checkpoint's model is a layer of the tree below the flags, which Lightning would replace."""

    def before_instantiate_classes(self) -> None:
        """Leave out removed callbacks."""
        self._sections.callback_keys = [key for key in CALLBACKS if self.config[self._command].get(key) is not None]

    def instantiate_classes(self) -> None:
        """Build everything, in the folder of the run, or print the configuration."""
        if self._only_print:
            print(self._sections.dump(self.config[self._command], skip_unset=False, skip_validation=True), end="")
            sys.exit(0)
        trainer = self.config[self._command].trainer
        self._folder = None if trainer.fast_dev_run else claim_version(trainer.logger)
        with explained(self._tree):
            super().instantiate_classes()
        if self._folder is not None:
            trainer.logger.init_args.version = None  # the saved configuration starts a run of its own

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        """The trainer, in the precision of `gpu_precision`; a bar moves on a terminal alone."""
        if not (sys.stdout.isatty() or _has_bar(self._tree["trainer"])):
            kwargs["enable_progress_bar"] = False
        if self._command == "fit":
            kwargs |= gpu_precision(self.config.fit.trainer)
        return super().instantiate_trainer(**kwargs)

    def predict(self, **kwargs: Any) -> None:
        """Write the embeddings (N, D) of ``data.predict`` to ``<folder of the run>/predictions.npy``."""
        if self.trainer.world_size > 1:
            raise InputError("predict writes one file from one process; add --trainer.devices 1")
        path = Path(self.trainer.log_dir or self.trainer.default_root_dir) / "predictions.npy"
        vectors = torch.cat(self.trainer.predict(**{**kwargs, "return_predictions": True}))  # type: ignore[arg-type]
        with writing(path), atomic_write(path) as file:
            np.save(file, vectors.float().cpu().numpy())
        print(f"{len(vectors)} embeddings: {printable(str(path))}")


class SaveConfig(SaveConfigCallback):
    """Writes ``config.yaml`` and ``run.json`` into the folder of a run, and hands the settings to the loggers."""

    def __init__(self, *arguments: Any, tree: Tree, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._tree = tree

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Write when training starts; scoring leaves no configuration behind, and a record of an untrained model."""
        trains, dry = stage == "fit", trainer.fast_dev_run  # type: ignore[attr-defined]
        if not dry and (trains or (stage == "test" and trainer.loggers and self._tree.get("ckpt_path") is None)):
            folder = trainer.log_dir or trainer.default_root_dir  # asked for on every process: it broadcasts
            if trainer.is_global_zero:
                write_record(Path(folder), self._tree, trainer.datamodule, trains)  # type: ignore[attr-defined]
        if trains and not dry:
            text = self.parser.dump(self.config, skip_unset=False, skip_validation=True)
            pl_module.settings = yaml.safe_load(text)
            super().setup(trainer, pl_module, stage)


def launch(command: str, layers: Sequence[tuple[str, Tree]], flags: Flags, own: Tree) -> int:
    """Run fit, validate, test or predict, and return the exit status.

    Args:
        command: the command.
        layers: name and content of each file, the lowest first.
        flags: over all files.
        own: the options of the command itself: ``ckpt_path``, ``allow_changes``, ``trust_plugins``, ``print_config``.

    Raises:
        UsageError: for a wrong key, class or type.
        InputError: for bad data, from wherever it is found.
        Exception: of Lightning, torch or a plug-in, as it is.
    """
    show_log()
    if len(layers) > 1:
        rank_zero_info(f"one run: {layers[0][0]}, overridden by {', '.join(name for name, _ in layers[1:])}")
    stop = StopOnSignal()
    with explain_lost_peer():
        tree = whole_tree(command, layers, flags, own)
        callbacks = [stop, ExactResume(own.get("allow_changes", False)), *bar_on_gpu(tree)]
        try:
            SentRepCLI(command, tree, callbacks, own.get("print_config", False))
        except SIGTERMException:
            return stop.status
        finally:
            leave_gloo_group()
    return 0


def bar_on_gpu(tree: Tree) -> list[Callback]:
    """The bar of a run on a GPU."""
    trainer = tree["trainer"]
    wanted = sys.stdout.isatty() and trainer.get("enable_progress_bar", True) and not _has_bar(trainer)
    return [LossBar()] if wanted and torch.cuda.is_available() else []


def _has_bar(trainer: Tree) -> bool:
    return "ProgressBar" in str(trainer.get("callbacks"))


def gpu_precision(trainer: Namespace) -> dict[str, str]:
    """Let a GPU train in bf16-mixed where the settings name no precision, and in float32 with products of TF32.

    Args:
        trainer: the section of the configuration.

    Returns:
        The precision for the Trainer, if the settings do not name it. The saved configuration still names none, so
        that another machine chooses its own.
    """
    forks = "fork" in str(trainer.strategy)  # forked processes need an unused CUDA, which a query would initialise
    if forks or trainer.accelerator not in ("auto", "gpu", "cuda") or not torch.cuda.is_available():
        return {}
    is_free = trainer.precision is None and not trainer.plugins
    if is_free and torch.cuda.is_bf16_supported(including_emulation=False):
        rank_zero_info("trainer.precision is not set: bf16-mixed (name another by --trainer.precision)")
        return {"precision": "bf16-mixed"}
    if is_free or str(trainer.precision) in ("32", "32-true"):
        torch.set_float32_matmul_precision("high")
        rank_zero_info("float32 products may use TF32; the environment variable NVIDIA_TF32_OVERRIDE=0 turns it off")
    return {}
