"""Ctrl-C and SIGTERM during training: end it between two optimiser steps, with a checkpoint."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities.exceptions import SIGTERMException
from lightning.pytorch.utilities.rank_zero import rank_zero_info

from sentrep.evaluation.history import of_total_steps

_NOTED = "\nsentrep: {name}: the step is finished and a checkpoint written; Ctrl-C once more stops at once\n"


class StopOnSignal(Callback):
    """On SIGTERM or SIGINT: finish the optimiser step and the validation that is due, save, end.

    Lightning's own handling of SIGTERM lets the processes of a run wait for each other if the signal reaches one of
    them in an exchange of gradients, and its handling of SIGINT breaks off in the middle of a step. Here a signal is
    noted, and looked at before each optimiser step. With several processes, one that got a signal is enough to end
    all of them at the same step; it costs an exchange of one number per optimiser step there. A signal in the last step
    ends nothing: the run is complete.

    A second SIGINT stops at once and saves nothing: the last checkpoint stands. A repeated SIGTERM changes nothing.

    Attributes:
        number: of the first signal; None before one, and where only another process got one.
    """

    def __init__(self) -> None:
        self.number: int | None = None

    @property
    def status(self) -> int:
        """Exit status of a run that a signal has ended, as shells have it: 128 + the signal's number."""
        return 128 + (self.number or signal.SIGTERM)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Take both signals; Lightning puts the handlers back that were there before."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._note)
            signal.signal(signal.SIGINT, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and self.number is not None:
            raise KeyboardInterrupt
        if self.number is None:
            self.number = number
            # the signal may have interrupted print()
            os.write(2, _NOTED.format(name=signal.Signals(number).name).encode())

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Check for a signal between two optimiser steps, after a due validation.

        Raises:
            SIGTERMException: one of the processes got a signal; Lightning then ends the run.
        """
        if batch_idx % trainer.accumulate_grad_batches == 0:
            stop = self.number is not None
            if trainer.world_size > 1:
                stop = trainer.strategy.reduce_boolean_decision(stop, all=False)
            if stop:
                rank_zero_info(f"stopped after step {trainer.global_step}{of_total_steps(trainer)}")
                raise SIGTERMException
