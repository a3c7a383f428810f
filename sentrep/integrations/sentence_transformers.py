"""Our objectives as a loss for the trainer of sentence-transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from transformers import TrainerCallback

from sentrep import distributed
from sentrep.encoder import Compute, ProjectionHead, SentenceEncoder
from sentrep.errors import InputError
from sentrep.module import SentRepModule
from sentrep.objectives import Objective
from sentrep.types import StepTerms, TextBatch, TokenBatch
from sentrep.views import ViewMaker

STATE_FILE = "objective_loss.pt"
"""The file of a trainer's checkpoint with the state of the loss."""


class ObjectiveLoss(nn.Module):
    """A weighted sum of objectives, as a loss for ``SentenceTransformerTrainer``.

    The data set has one text column (both views of a sentence come from dropout), two columns (anchor, positive), or
    three (anchor, positive, hard negative). The trainer logs each weighted term by the objective's name.

    Give `callback` to the trainer as well. The callback ends each optimiser step of memories and copies, saves the
    state of the loss in the trainer's checkpoints, and reads it when the trainer resumes. With several processes (DDP),
    negatives come from all processes, and every gradient is the gradient of the global batch.

    Args:
        model: the model that the trainer trains; the loss trains the same parameters.
        objectives: by name, or a list.
        weights: of the objectives in the sum, by name; default 1.
        views: makes anchors and positives; None for `sentrep.views.EncodedViews`.
        head: projection head between the model and the objectives, for training only; None for none.

    Attributes:
        callback: for the trainer's argument ``callbacks``.

    Raises:
        InputError: for a model that `SentenceEncoder` cannot train.

    Examples:
        >>> from sentrep.integrations.sentence_transformers import ObjectiveLoss
        >>> from sentrep.objectives import Contrastive
        >>> def loss_of(model):  # loss = loss_of(model); SentenceTransformerTrainer(..., loss=loss,
        ...     return ObjectiveLoss(model, [Contrastive(temperature=0.05)])  # callbacks=[loss.callback])
    """

    def __init__(
        self,
        model: SentenceTransformer,
        objectives: dict[str, Objective | None] | list[Objective],
        weights: dict[str, float] | None = None,
        views: ViewMaker | None = None,
        head: ProjectionHead | None = None,
    ) -> None:
        super().__init__()
        self._trained = (model,)  # in a tuple: `module` has the same parameters
        length = {} if model.max_seq_length is None else {"max_length": model.max_seq_length}
        # their model keeps its own dropout and attention
        encoder = SentenceEncoder.around(model, compute=Compute(cheap_dropout=False), **length)
        self.module = SentRepModule(encoder, objectives, weights, views, head)
        self.callback = ObjectiveCallback(self)
        self.batches = 0
        """Training batches so far, which seed the random draws."""
        self._last: StepTerms | None = None

    def forward(self, sentence_features: Sequence[Mapping[str, Tensor]], labels: Tensor | None) -> dict[str, Tensor]:
        """The weighted terms of one batch, by the objectives' names; the trainer adds them.

        Args:
            sentence_features: token ids of one, two or three columns, (B, L) each.
            labels: None.

        Raises:
            InputError: for another number of columns, for labels, or without the callback.
        """
        if labels is not None:
            raise InputError("ObjectiveLoss: the data set has labels, which no objective reads; remove this column")
        batch = self._batch(sentence_features)
        training = self._trained[0].training
        if self.module.training != training:
            self.module.train(training)
        if not training:
            return self.module.compute_terms(batch, 0).weighted
        if not self.callback.active:
            raise InputError("ObjectiveLoss: give the trainer the callback of the loss too: callbacks=[loss.callback]")
        self._last = self.module.compute_terms(batch, self.batches)
        self.batches += 1
        return self._last.weighted

    def end_step(self) -> None:
        """End an optimiser step: memories store the vectors, and copies of the encoder follow it."""
        if self._last is not None:
            self.module.end_step(self._last.views)
        self._last = None

    def get_extra_state(self) -> Tensor:
        """The number of batches, for the checkpoint."""
        return torch.tensor(self.batches)

    def set_extra_state(self, state: Tensor) -> None:
        """Take the number of batches from a checkpoint."""
        self.batches = int(state)

    def get_config_dict(self) -> dict[str, Any]:
        """Objectives and weights, for the model card."""
        terms = self.module.objectives.terms.items()
        return {
            "objectives": {name: type(objective).__name__ for name, objective in terms},
            "weights": self.module.objectives.weights,
        }

    def _batch(self, features: Sequence[Mapping[str, Tensor]]) -> TextBatch:
        if not 1 <= len(features) <= 3:
            raise InputError(
                f"ObjectiveLoss: the data set has {len(features)} text columns; give one (sentences), two (anchor, "
                "positive) or three (anchor, positive, hard negative)"
            )
        encoder = self.module.encoder
        if not encoder.include_prompt and any("prompt_length" in column for column in features):
            raise InputError("ObjectiveLoss: the pooling of this model leaves prompts out; train without `prompts`")
        columns: list[Any] = [_right_padded(column["input_ids"], column["attention_mask"]) for column in features]
        anchor, positive, negative = [*columns, None, None][:3]
        first = self.batches * len(anchor)
        rows = torch.arange(first, first + len(anchor), device=anchor.input_ids.device)
        return TextBatch(anchor, positive, negative, rows)


class ObjectiveCallback(TrainerCallback):
    """Ends optimiser steps of an `ObjectiveLoss`, and keeps its state in the trainer's checkpoints."""

    def __init__(self, loss: ObjectiveLoss) -> None:
        self._loss = loss
        self.active = False
        """Whether a trainer has begun."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Read frozen models and, when the trainer resumes, the state of the loss."""
        self._loss.module.load_frozen()
        if state.global_step:
            file = _checkpoint(args, state) / STATE_FILE
            _load(self._loss, torch.load(file, map_location="cpu", weights_only=True))
        if not self.active and distributed.world_size() > 1:
            for parameter in self._loss.parameters():
                if parameter.requires_grad:
                    parameter.register_post_accumulate_grad_hook(_average_gradient)
        self.active = True

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the step, unless the optimiser skipped it (float16)."""
        if getattr(kwargs.get("optimizer"), "step_was_skipped", False):
            self._loss._last = None
        self._loss.end_step()

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Write the state of the loss into the trainer's checkpoint, without the model's own weights."""
        if state.is_world_process_zero:
            torch.save(_state(self._loss), _checkpoint(args, state) / STATE_FILE)


def _right_padded(ids: Tensor, mask: Tensor) -> TokenBatch:
    """The tokens with padding at the right, wherever the tokenizer puts it."""
    order = mask.argsort(dim=1, descending=True, stable=True)
    return TokenBatch(ids.gather(1, order), mask.gather(1, order))


@torch.no_grad()
def _average_gradient(parameter: Tensor) -> None:
    """Average a gradient over the processes. Earlier gradients in it are equal on all, and do not change."""
    assert parameter.grad is not None
    parameter.grad = distributed.total(parameter.grad) / distributed.world_size()


def _checkpoint(args: Any, state: Any) -> Path:
    return Path(args.output_dir) / f"checkpoint-{state.global_step}"


def _state(loss: ObjectiveLoss) -> dict[str, Any]:
    """The state of a loss without the weights of the model, which the trainer saves."""
    shared = {id(tensor) for tensor in loss._trained[0].state_dict(keep_vars=True).values()}
    state = loss.state_dict(keep_vars=True)
    return {
        name: value.detach() if isinstance(value, Tensor) else value
        for name, value in state.items()
        if id(value) not in shared
    }


def _load(loss: ObjectiveLoss, state: Mapping[str, Any]) -> None:
    """Put the state back; everything but the weights of the model must be in it."""
    whole = loss.state_dict()
    of_model = {name: whole[name] for name in whole.keys() - _state(loss).keys()}
    loss.load_state_dict({**of_model, **state})
