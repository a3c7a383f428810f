"""`SentRepModule`: batch → views → objectives → log."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from lightning.pytorch import Callback, LightningModule
from lightning.pytorch.utilities import rank_zero_info, rank_zero_warn
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor
from transformers import get_scheduler

from sentrep import distributed
from sentrep.checkpoint.readable import check_state
from sentrep.checkpoint.rebuild import payload, rebuild, record
from sentrep.checkpoint.resume import align_position
from sentrep.config import Configurable
from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.encoder import EncoderServices, ProjectionHead, SentenceEncoder
from sentrep.errors import InputError
from sentrep.evaluation.scoring import Scoring
from sentrep.functional.geometry import view_statistics
from sentrep.io.checkpoint_file import PAYLOAD_KEY, check_payload
from sentrep.negatives import NegativeSampler
from sentrep.objectives import Objective, WeightedSum
from sentrep.random import global_seed, step_draws
from sentrep.stability import SkippedStep, StepReplay, calls_again, clip_gradients, refuse_gradient_scaler
from sentrep.training.accumulation import complete_last_window
from sentrep.training.arguments import check_trainer
from sentrep.training.exact_resume import ExactResume
from sentrep.training.hyperparameters import log_settings
from sentrep.training.loss_bar import LOSS
from sentrep.training.mean_loss import MeanLoss
from sentrep.training.parameter_groups import check_options, parameter_groups
from sentrep.types import OptimizerCallable, StepTerms, TextBatch, Views
from sentrep.views import EncodedViews, ViewMaker

_IDENTICAL_VIEWS = (
    "Both views of a sentence are identical (no dropout, no given positives, no perturbation), so a contrastive loss "
    "learns nothing from them: set model.encoder.dropout, say to 0.1."
)

COMPILED_FROM = 1_000
"""Steps above which ``compile: auto`` compiles on CUDA: fewer do not repay the time of the compiler."""

AdamW = functools.partial(torch.optim.AdamW, lr=3e-5, weight_decay=0.0, fused=True)


class SentRepModule(Configurable, LightningModule):
    """Trains an encoder on the weighted sum of objectives, from one shared encoder pass.

    Args:
        encoder: the encoder to train.
        objectives: by name, or a list; a None in a dict removes an inherited objective.
        weights: of the objectives in the sum, by name; default 1.
        views: makes anchors and positives.
        head: projection head between encoder and objectives; None for none.
        optimizer: called with parameter groups; the group of biases and norms has no weight decay.
        scheduler: schedule of the learning rate after the warm-up.
        warmup_steps: optimiser steps of linear warm-up; a number below 1 is a fraction of all steps.
        seed: of dropout and of every draw; None for the global seed (``seed_everything``), or 0.

    Attributes:
        terms: of the current batch, for a callback's ``on_before_backward``; None in SAM's and AWP's second pass.

    Examples:
        >>> from sentrep import SentenceEncoder, SentRepModule
        >>> from sentrep.objectives import Contrastive
        >>> small = {"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> module = SentRepModule(SentenceEncoder(small, tokenizer="toy"), [Contrastive(temperature=0.05)])
        >>> sorted(module.objectives.terms)
        ['contrastive']
    """

    def __init__(
        self,
        encoder: SentenceEncoder,
        objectives: dict[str, Objective | None] | list[Objective],
        weights: dict[str, float] | None = None,
        views: ViewMaker | None = None,
        head: ProjectionHead | None = None,
        optimizer: OptimizerCallable = AdamW,
        scheduler: Literal["linear", "constant", "cosine"] = "linear",
        warmup_steps: float = 0,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self.encoder = encoder.train()  # `SentenceEncoder.from_pretrained` returns it in evaluation mode
        encoder.attach_head(head)
        self.views = views if views is not None else EncodedViews()
        self.objectives = WeightedSum(objectives, weights)
        self.optimizer, self.scheduler, self.warmup_steps = optimizer, scheduler, warmup_steps
        self.seed = seed if seed is not None else global_seed()
        spec = encoder.spec(self.seed)
        self.services = EncoderServices(encoder, self.seed)
        self.views.build(spec, self.services)  # first: copies of the encoder then know its prompts
        self.objectives.build(spec, self.services)
        self._set_step(0)
        self._compile()
        self.settings: Mapping[str, Any] | None = None
        """The whole configuration, for the loggers; the command line sets it."""
        self.terms: StepTerms | None = None
        self._last_views: Views | None = None
        self._mean_loss = MeanLoss()
        self._replay: StepReplay | None = None
        self._checked = False
        self._validation, self._test = Scoring("val"), Scoring("test")
        self._resumed: dict[str, Any] | None = None
        record(self)

    def setup(self, stage: str) -> None:
        """Refuse settings that Lightning takes, and with which it trains wrongly."""
        if stage == "fit":
            check_trainer(self.trainer)
            self._mean_loss = MeanLoss()

    def configure_callbacks(self) -> list[Callback]:
        """Add no callback; let `ExactResume` read what loggers have written, before they open their files."""
        for callback in _resuming(self.trainer):
            callback.read_rows(self.trainer)
        return []

    def on_fit_start(self) -> None:
        """Tell the loggers the settings (`sentrep.training.hyperparameters`)."""
        log_settings(self, self.settings)

    def _compile(self, steps: float = 0) -> None:
        """Decide on ``compile: auto``; compile the objectives that allow it, if the encoder's layers are compiled.

        Args:
            steps: of the run, as far as they are known.
        """
        compute = self.encoder.compute
        if compute.compile == "auto" and self.device.type == "cuda" and steps > COMPILED_FROM:
            rank_zero_info(f"{steps:,} steps: layers are compiled (off: model.encoder.compute.compile false)")
            self.encoder.set_compute(replace(compute, compile=True))
        if self.encoder.compute.compiles:
            self.objectives.compile_terms()

    def on_train_start(self) -> None:  # a module may be fitted twice
        """Build what the first step needs; check that a checkpoint can hold the state of plug-ins and callbacks.

        Raises:
            InputError: a frozen model cannot be loaded, or see `check_state`.
        """
        trainer: Any = self.trainer
        self._replay = StepReplay() if any(map(calls_again, trainer.optimizers)) else None
        self._checked = False
        self.load_frozen()
        self.encoder.plan()
        check_state(self.trainer, self)

    def load_frozen(self) -> None:
        """Read the frozen models of the plug-ins, such as teachers.

        Raises:
            InputError: one of them cannot be loaded, or has another tokenizer or prompt than the encoder.
        """
        for frozen in self.services.frozen_encoders:
            frozen.load()

    def on_train_batch_start(self, batch: TextBatch, batch_idx: int) -> None:
        """Let loggers label a step by the optimiser steps before it; keep the batch for optimisers that need it again.

        Lightning counts the labels apart. When it resumes from a checkpoint that was written after a validation, it
        skips this validation and counts its step once more, so that every label would be one too high.
        """
        loop: Any = self.trainer.fit_loop.epoch_loop
        loop.on_load_checkpoint({**loop.on_save_checkpoint(), "_batches_that_stepped": self.trainer.global_step})
        if self._replay is not None:
            self._replay.note(batch, batch_idx)

    def __getstate__(self) -> dict[str, Any]:
        """Without the step in hand, whose graph can neither be copied nor pickled."""
        return {**super().__getstate__(), "terms": None, "_last_views": None}

    def compute_terms(self, batch: TextBatch, batch_idx: int, epoch: int = 0) -> StepTerms:
        """The losses of one batch and their weighted sum: a function of weights, seed, epoch, batch and rank alone.

        If another module or your own loop trains this module, call this method there, and `end_step` after each
        optimiser step.

        Args:
            batch: B rows.
            batch_idx: number of the batch in its epoch, from 0; with ``epoch`` it seeds the random draws.
            epoch: number of the epoch, from 0.
        """
        with step_draws(self.seed, epoch, batch_idx, batch.anchor.input_ids.device):
            views = self.views_of(batch)
            loss, losses = self.objectives(views, batch)
        return StepTerms(views, losses, self.objectives.weighted(losses), batch.rows, loss)

    def training_step(self, batch: TextBatch, batch_idx: int) -> Tensor:
        """The loss of `compute_terms`; logs it, and remembers the terms for callbacks."""
        terms = self.compute_terms(batch, batch_idx, self.current_epoch)
        if self._replay is not None and self._replay.active:  # at perturbed weights: nothing to log or to remember
            return terms.loss
        if not self._checked:
            self._check_first(terms.views, terms.losses)
        self.terms, self._last_views = terms, terms.views
        self._log(terms)
        return terms.loss

    def views_of(self, batch: TextBatch) -> Views:
        """The views of one batch, from a pass that computes only the outputs that the objectives read."""
        return self.views(self.encoder, batch, self.objectives.extra_inputs(batch), self.objectives.need)

    def _check_first(self, views: Views, losses: dict[str, Tensor]) -> None:
        """Look at the first step of a training: refuse a non-finite loss, and warn of identical views."""
        self._checked = True
        alike = views.anchor is not views.positive and torch.allclose(views.anchor, views.positive, rtol=0, atol=1e-6)
        if alike:
            rank_zero_warn(_IDENTICAL_VIEWS)
        if bad := [name for name, loss in losses.items() if not loss.isfinite()]:
            raise InputError(
                f"step 1: the loss is {losses[bad[0]].item()} (objective {', '.join(bad)}); check its forward"
            )

    def on_after_backward(self) -> None:
        """Release the autograd graph; weigh the micro-batches of a shorter last step (`complete_last_window`)."""
        self.terms = None
        complete_last_window(self.trainer, self)

    def optimizer_step(self, epoch: int, batch_idx: int, optimizer: Any, optimizer_closure: Any = None) -> None:
        """One optimiser step, then `after_step` of objectives and views, once for any number of closure calls."""
        closure = optimizer_closure
        if self._replay is not None:
            closure = self._replay.closure(self, optimizer, closure)
        try:
            super().optimizer_step(epoch, batch_idx, optimizer, closure)
        except SkippedStep:  # by `NonFiniteGuard`: nothing that comes from this step may stay behind
            self._last_views = None
        if self._last_views is not None:
            self.end_step(self._last_views)
        self._last_views = None

    @torch.no_grad()
    def end_step(self, views: Views) -> None:
        """Call once per optimiser step: `after_step` of objectives, views and copies; then `step` moves on.

        Args:
            views: of the step's last batch.
        """
        self.objectives.after_step(views)
        self.views.after_step(views)
        for copy in self.services.copies:
            copy.after_step()
        self._set_step(self.step + 1)

    def get_extra_state(self) -> Tensor:
        """The step, for the checkpoint."""
        return torch.tensor(self.step)

    def set_extra_state(self, state: Tensor) -> None:
        """Take the step from a checkpoint."""
        self._set_step(int(state))

    def _set_step(self, step: int) -> None:
        """Set the one clock, and the clocks that plug-ins read, also within other plug-ins."""
        self.step = step
        for part in (*self.objectives.modules(), *self.views.modules()):
            if isinstance(part, Objective | NegativeSampler | ViewMaker):
                part.step = step

    def configure_gradient_clipping(
        self, optimizer: Any, gradient_clip_val: float | None = None, gradient_clip_algorithm: str | None = None
    ) -> None:
        """Clip as the trainer says, fused optimisers in bf16 too (`sentrep.stability.clip_gradients`)."""
        if gradient_clip_val:
            clip_gradients(optimizer, gradient_clip_val, "value" if gradient_clip_algorithm == "value" else "norm")

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """The optimiser over its groups (`parameter_groups`), and the schedule by step; settles ``compile: auto``."""
        optimizer = self.optimizer(parameter_groups(self))
        check_options(optimizer)
        refuse_gradient_scaler(optimizer, self.trainer.scaler, clips=bool(self.trainer.gradient_clip_val))
        if self._resumed is not None:  # else a loader that is made to count its steps never hears of its place in the
            self.trainer.fit_loop.load_state_dict(self._resumed)  # text (Lightning #20550)
            self._resumed = None
        steps = self.trainer.estimated_stepping_batches
        self._compile(steps)
        if math.isinf(steps) and (self.scheduler != "constant" or 0 < self.warmup_steps < 1):
            raise InputError(
                f"scheduler {self.scheduler} with warmup_steps {self.warmup_steps} needs to know where training ends: "
                "set trainer.max_steps or max_epochs, or scheduler constant with a number of warm-up steps"
            )
        total = 0 if math.isinf(steps) else int(steps)
        warmup = int(self.warmup_steps if self.warmup_steps >= 1 else self.warmup_steps * total)
        name = "constant_with_warmup" if self.scheduler == "constant" else self.scheduler
        schedule = get_scheduler(name, optimizer, num_warmup_steps=warmup, num_training_steps=total)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    @torch.compiler.disable
    @torch.no_grad()
    def _log(self, terms: StepTerms) -> None:
        """Log the mean loss since the last log step at every step, and all other metrics at a log step.

        Lightning reads the values of its bar from the device at every step, whether or not it draws the bar. On a GPU
        this would wait for the step, so that there `LossBar` shows the loss instead. All loggers get the number of
        finished optimiser steps as the step; without it Lightning labels the values by one less.
        """
        values = {"loss": terms.loss}
        step, every = self.global_step + 1, self.trainer.log_every_n_steps  # type: ignore[attr-defined]
        if every > 0 and step % every == 0:
            weighted = {f"{k}/weighted": v for k, v in terms.weighted.items() if self.objectives.weights[k] != 1}
            statistics = view_statistics(terms.views.anchor, terms.views.positive)
            values = {**terms.losses, **weighted, **self.objectives.metrics(), **statistics, **values}
            self.log("train/lr", torch.as_tensor(self.trainer.optimizers[0].param_groups[0]["lr"]))
        values = distributed.average_each(values)
        loss = self._mean_loss.add(values.pop("loss"), self.global_step, every)
        self.log_dict({f"train/{name}": value for name, value in values.items()})
        self.log(LOSS, loss, prog_bar=self.device.type == "cpu")
        # tensors of the host: Lightning would copy a number to the device, and the copy waits for the step
        self.log_dict({"step": torch.tensor(float(step)), "epoch": torch.tensor(float(self.current_epoch))})

    # `*_` is Lightning's ``batch_idx`` and, where a stage has several loaders, ``dataloader_idx``
    def validation_step(self, pairs: ScoredPairs, *_: int) -> None:
        """Log the scores of one development set (`sentrep.evaluation.scoring`)."""
        self._validation.score(self, pairs)

    def on_validation_epoch_end(self) -> None:
        self._validation.finish(self)
        if self.trainer.state.fn == "fit":
            labels = {"step": float(self.global_step), "epoch": float(self.current_epoch)}
            self.log_dict(labels, sync_dist=True, reduce_fx="max")

    def test_step(self, pairs: ScoredPairs, *_: int) -> None:
        """Log the score of one test set."""
        self._test.score(self, pairs)

    @property
    def test_cosines(self) -> Mapping[str, Tensor]:
        """By test set, the cosine of every pair (P,), of the last test."""
        return self._test.cosines

    def on_test_epoch_end(self) -> None:
        self._test.finish(self)

    def predict_step(self, sentences: list[str], *_: int) -> Tensor:
        """Vectors (n, D) of n sentences."""
        vectors: Any = self.encoder.encode(sentences, show_progress_bar=False, convert_to_tensor=True)
        return vectors

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add everything that makes the checkpoint self-contained: architecture, tokenizer, settings, provenance."""
        align_position(checkpoint, self.trainer.accumulate_grad_batches, self.trainer.num_training_batches)
        data = getattr(getattr(self.trainer, "datamodule", None), "fingerprint", None)
        checkpoint[LOSS] = self._mean_loss.state(self.global_step)
        checkpoint[PAYLOAD_KEY] = payload(self.encoder, self.seed, data, self.services.head_to_keep(self))

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuse a checkpoint of another program or, with `ExactResume`, of another run; remember the place in it."""
        trainer: Any = self.trainer
        check_payload(checkpoint, trainer.ckpt_path)
        self._resumed = checkpoint["loops"]["fit_loop"] if trainer.state.fn == "fit" else None
        self._mean_loss.load(checkpoint[LOSS], checkpoint["global_step"])
        for callback in _resuming(trainer) if self._resumed is not None else ():
            callback.compare(trainer, self, checkpoint)

    @classmethod
    def load_from_checkpoint(  # type: ignore[override]
        cls,
        checkpoint_path: str | Path,
        map_location: Any = None,
        strict: bool = True,
        trust_plugins: bool = False,
        **overrides: Any,
    ) -> SentRepModule:
        """Rebuild a module from a checkpoint alone: no hub, no original model folder, no code from the file.

        Args:
            checkpoint_path: written by `sentrep fit`, or by a Trainer with a module built in Python.
            map_location: device of the weights; None for the CPU.
            strict: whether every weight must be in both the checkpoint and the module.
            trust_plugins: also build foreign classes that the checkpoint names, which runs their code.
            overrides: constructor arguments that replace the recorded ones.

        Raises:
            InputError: for a file that is no checkpoint of sentrep, or that names foreign classes.
        """
        return rebuild(cls, checkpoint_path, map_location, strict, trust_plugins, overrides)


def _resuming(trainer: Any) -> list[ExactResume]:
    return [callback for callback in trainer.callbacks if isinstance(callback, ExactResume)]
