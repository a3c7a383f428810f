"""Building the objects of a configuration: the first refusal is the error, in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jsonargparse import Namespace
from lightning.fabric.plugins.io import TorchCheckpointIO
from lightning.pytorch import Trainer

from sentrep.checkpoint.io import AtomicCheckpointIO
from sentrep.errors import InputError
from sentrep.training.sharding import NOT_FSDP1


def make_trainer(make: Callable[[], Trainer], asked: Namespace) -> Trainer:
    """The trainer, with checkpoints written atomically where no other plug-in was asked for.

    Args:
        make: what builds it.
        asked: the section ``trainer``.

    Raises:
        InputError: for a strategy, devices or a precision that is not to be had.
    """
    if str(asked.strategy).startswith("fsdp"):
        raise InputError(NOT_FSDP1)
    try:
        trainer = make()
    except (ValueError, TypeError) as error:  # of strategies, devices and precisions that do not fit together
        raise InputError(f"trainer: {error}") from error
    if asked.precision == "16-mixed" and trainer.precision != "16-mixed":  # Lightning takes another and warns
        raise InputError("trainer.precision 16-mixed: a CPU has no mixed precision in float16; use bf16-mixed")
    if type(trainer.strategy.checkpoint_io) is TorchCheckpointIO:
        trainer.strategy.checkpoint_io = AtomicCheckpointIO()
    return trainer


class Refusals:
    """Builds objects for jsonargparse and remembers what they raise: it reports the unions that it tried instead."""

    def __init__(self) -> None:
        self._errors: list[Exception] = []

    def build(self, kind: type, /, *args: Any, **kwargs: Any) -> Any:
        """An object of ``kind``."""
        try:
            return kind(*args, **kwargs)
        except Exception as error:
            self._errors.append(error)
            if isinstance(error, AttributeError) and "__init__() call" in str(error):  # of `nn.Module`
                name = f"{kind.__module__}.{kind.__qualname__}"
                self._errors[-1] = InputError(f"{name}: its __init__ uses the module before super().__init__()")
                raise self._errors[-1] from error
            raise

    def first(self, error: ValueError) -> Exception:
        """What is to be reported for ``error``; bad values that a class of Lightning's refuses are the user's, too."""
        first = self._errors[0] if self._errors else error
        return InputError(str(first)) if type(first) is ValueError else first
