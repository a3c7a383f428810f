"""What a run's loggers are told of its settings, for their tables and sweeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightning.pytorch import LightningModule


def log_settings(module: LightningModule, settings: Mapping[str, Any] | None) -> None:
    """Tell every logger the settings of a run, and which text it trains on.

    Args:
        module: in a Trainer that is about to train it.
        settings: the whole configuration; None for a module built in Python: its own arguments.
    """
    data = getattr(getattr(module.trainer, "datamodule", None), "fingerprint", None)
    found = flat(settings if settings is not None else {"model": dict(module.hparams)})
    found = {key: value for key, value in found.items() if not key.startswith("trainer.logger")}  # it may hold a key
    for logger in module.trainer.loggers:
        logger.log_hyperparams({**found, **({"data.fingerprint": data} if data else {})})


def flat(settings: Any, path: str = "") -> dict[str, Any]:
    """Settings by dotted keys as flags have them; a plug-in's own key has the name of its class.

    Examples:
        >>> flat({"views": {"class_path": "sentrep.views.EncodedViews", "init_args": {"both": True}}}, "model")
        {'model.views': 'EncodedViews', 'model.views.both': True}
    """
    if isinstance(settings, list) and any(isinstance(item, Mapping) for item in settings):
        settings = dict(enumerate(settings))
    if not isinstance(settings, Mapping):
        return {path: settings}
    node = "class_path" in settings
    found = {path: str(settings["class_path"]).rsplit(".", 1)[-1]} if node else {}
    below = {**(settings.get("init_args") or {}), **(settings.get("dict_kwargs") or {})} if node else settings
    for name, value in below.items():
        if not str(name).startswith("_"):
            found |= flat(value, f"{path}.{name}" if path else str(name))
    return found
