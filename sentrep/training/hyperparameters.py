"""The settings that a run's loggers receive, for their tables and sweeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightning.pytorch import LightningModule

from sentrep.config import flat


def log_settings(module: LightningModule, settings: Mapping[str, Any] | None) -> None:
    """Log the settings of a run, and the fingerprint of its text, to every logger.

    Args:
        module: in a Trainer that is about to train it.
        settings: the whole configuration; None for a module built in Python: its own arguments.
    """
    data = getattr(getattr(module.trainer, "datamodule", None), "fingerprint", None)
    found = flat(settings if settings is not None else {"model": dict(module.hparams)})
    found = {key: value for key, value in found.items() if not key.startswith("trainer.logger")}  # it may hold a key
    for logger in module.trainer.loggers:
        logger.log_hyperparams({**found, **({"data.fingerprint": data} if data else {})})
