"""Values of the trainer's settings and of the seed that Lightning takes in silence, or stumbles over later."""

from __future__ import annotations

import re
import string
from typing import Any

from jsonargparse import Namespace

from sentrep import checks
from sentrep.errors import InputError

_SEEDS = 2**32 - 1
"""numpy's largest seed, and so Lightning's."""


def check_settings(config: Namespace) -> None:
    """Check what is known before anything is built.

    Raises:
        InputError: names the key.
    """
    seed = config.get("seed_everything")
    if not isinstance(seed, bool):
        checks.whole("the run", 0, _SEEDS, **checks.given(seed_everything=seed))
    trainer = config.trainer
    for least, names in _WHOLE.items():
        checks.whole("trainer", least, **checks.given(**{name: trainer.get(name) for name in names}))
    checks.not_negative("trainer", **checks.given(gradient_clip_val=trainer.gradient_clip_val))
    interval = trainer.val_check_interval
    if isinstance(interval, float):
        checks.within("trainer", 0, 1, open_below=True, val_check_interval=interval)
    elif isinstance(interval, int):
        checks.whole("trainer", 1, val_check_interval=interval)
    _check_devices(trainer.devices)
    if trainer.min_steps and 0 < (trainer.max_steps or 0) < trainer.min_steps:
        raise InputError(f"trainer: min_steps {trainer.min_steps} is more than max_steps {trainer.max_steps}")
    texts = {name: trainer.get(name) for name in ("default_root_dir", "accelerator", "strategy")}
    checks.text("trainer", **{name: value for name, value in texts.items() if isinstance(value, str)})
    time = trainer.max_time
    if isinstance(time, str) and not re.fullmatch(r"\d+(:\d\d){3}", time):
        raise InputError(f"trainer: max_time is {time!r}; expected days:hours:minutes:seconds, as 00:12:00:00")
    for name in ("name", "save_dir"):
        if config.get(f"trainer.logger.init_args.{name}") == "":
            raise InputError(f"trainer: logger.{name} is empty; name it, or leave it out")
    for name in ("flush_secs", "max_queue"):  # TensorBoard reads them in a thread of its own, which would die
        checks.whole("trainer.logger", 0, **checks.given(**{name: config.get(f"trainer.logger.init_args.{name}")}))
    checks.whole("progress", 0, **checks.given(refresh_rate=config.get("progress.init_args.refresh_rate")))
    callbacks = trainer.get("callbacks")
    for callback in callbacks if isinstance(callbacks, list) else [callbacks]:
        if isinstance(callback, Namespace) and callback.class_path.rsplit(".")[-1] == "EarlyStopping":
            checks.whole("EarlyStopping", 0, **checks.given(patience=callback.get("init_args.patience")))
    pattern = config.get("checkpoint.init_args.filename")
    try:
        list(string.Formatter().parse(pattern or ""))
    except ValueError as error:
        raise InputError(f"checkpoint: filename {pattern!r} is no pattern ({error}), as is 'step={{step}}'") from None


_WHOLE = {
    1: ("accumulate_grad_batches", "check_val_every_n_epoch", "num_nodes"),
    0: ("min_steps", "min_epochs", "log_every_n_steps", "reload_dataloaders_every_n_epochs"),
    -1: ("max_steps", "max_epochs", "num_sanity_val_steps"),
}
"""``{smallest value: settings}``; -1 has a meaning of its own for the last ones."""


def _check_devices(devices: Any) -> None:
    """How many, which ones, or ``auto``."""
    count = int(devices) if isinstance(devices, str) and devices.lstrip("-").isdecimal() else devices
    listed = count if isinstance(count, list) else [count]
    if not listed or (isinstance(count, int) and count < 1 and count != -1) or len({*map(str, listed)}) < len(listed):
        expected = "a number from 1 up, different numbers in a list, or auto"
        raise InputError(f"trainer: devices is {devices!r}; expected {expected}")
