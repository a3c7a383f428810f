"""Task suites in the validations and the test of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from lightning.pytorch import Callback, LightningModule, Trainer
from numpy.typing import NDArray

from sentrep import checks
from sentrep.encoder import SentenceEncoder
from sentrep.encoder.encode import encode
from sentrep.errors import InputError
from sentrep.evaluation.suites import SUITES, SuiteSets, evaluate_suite, load_suite

STAGES = {"val": ("fit", "validate"), "test": ("test",)}


class SuiteEvaluation(Callback):
    """Scores the encoder on a task suite after the similarity sets of ``data.val`` or ``data.test``.

    It logs, in per cent, ``<stage>/<suite>/<set>`` (the set's main score), ``<stage>/<suite>/<set>/<metric>`` and
    ``<stage>/<suite>``, the mean of the main scores, for example ``test/transfer/trec``. With several processes each
    encodes a share; the scores equal one process's.

    It runs with Lightning's validation or test, which needs a set in ``data.val`` or in
    ``data.test``. A checkpoint that is chosen by a score of ``val`` is chosen by that set's labels.

    Args:
        suite: ``transfer`` or ``mteb``; similarity sets are named in ``data``.
        stage: ``val`` or ``test``.
        sets: names of tasks; None for the seven tasks of transfer.
        sts_folder: of the SentEval data, for the named sets of transfer.
        batch_size: as for `SentenceEncoder.encode`.

    Raises:
        InputError: for values that do not fit together; before training for sets that cannot be read.

    Examples:
        >>> from sentrep.evaluation import SuiteEvaluation
        >>> trec = SuiteEvaluation("transfer", "test", sets=["trec"])  # for Trainer(callbacks=[trec])
    """

    def __init__(
        self,
        suite: str,
        stage: Literal["val", "test"] = "test",
        sets: list[str] | None = None,
        sts_folder: str | None = None,
        batch_size: int = 64,
    ) -> None:
        checks.one_of(self, tuple(STAGES), stage=stage)
        checks.one_of(self, tuple(SUITES), suite=suite)
        checks.whole(self, 1, batch_size=batch_size)
        if suite == "sts":
            raise InputError("SuiteEvaluation: name the sets of suite sts in data.val or data.test instead")
        self.suite = suite
        self.stage = stage
        self.request = SuiteSets(sets, sts_folder)
        self.batch_size = batch_size
        self._sets: list[Any] | None = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Read the sets before training, so that a missing file does not end a run after hours."""
        if self._sets is None and stage in STAGES[self.stage]:
            self._sets = load_suite(self.suite, self.request)

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Score, where the stage is ``val``."""
        if self.stage == "val" and not trainer.sanity_checking:
            self._score(pl_module)

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Score, where the stage is ``test``."""
        if self.stage == "test":
            self._score(pl_module)

    def _score(self, pl_module: LightningModule) -> None:
        assert self._sets is not None
        encoder: Any = pl_module.encoder
        shared: Any = _SharedEncoder(encoder)
        results = evaluate_suite(self.suite, shared, self._sets, batch_size=self.batch_size, show_progress_bar=False)
        prefix = f"{self.stage}/{self.suite}"
        for result in results:
            pl_module.log(f"{prefix}/{result.name}", result.main_score)
            for metric, score in result.scores.items():
                pl_module.log(f"{prefix}/{result.name}/{metric}", score)
        pl_module.log(prefix, sum(result.main_score for result in results) / len(results))


class _SharedEncoder:
    """The encoder for a suite, with the work shared among the processes."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self.encoder = encoder

    def __getattr__(self, name: str) -> Any:
        return getattr(self.encoder, name)

    def encode(
        self, texts: Sequence[str], batch_size: int, show_progress_bar: bool | None, prompt: str | None
    ) -> NDArray[np.float32]:
        return encode(self.encoder, texts, batch_size, show_progress_bar, shared=True, prompt=prompt).numpy()
