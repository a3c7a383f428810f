"""Second encoders that begin as the trained one, and other modules that are never trained."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from sentrep import checks
from sentrep.errors import InputError
from sentrep.types import EncoderOutput, Need, TokenBatch


class EncoderCopy(nn.Module):
    """A second encoder that begins with the weights of the trained one, head included (`EncoderServices.copy`).

    Like every module of a plug-in it is in the checkpoint, so that a resumed or rebuilt run has the same weights. An
    export does not contain it. ``rows_at_once`` of the encoder also applies to its passes; they are not compiled.

    Args:
        source: the `SentenceEncoder`, which does not become a part of the copy.
        trainable: True: its weights are trained, with dropout. False: its weights are frozen, it is always in
            evaluation mode, and its passes have no gradient.
        momentum: m in [0, 1) of a frozen copy that follows the encoder, θ_copy ← m θ_copy + (1 − m) θ, once
            per optimiser step (MoCo, He et al. 2020, eq. 2); `SentRepModule` updates it. None: it never changes.

    Raises:
        InputError: for a momentum out of range, or one of a copy that is trained.
    """

    encoder: Any
    """The second `SentenceEncoder`."""

    def __init__(self, source: nn.Module, trainable: bool = False, momentum: float | None = None) -> None:
        super().__init__()
        checks.share("copy", **checks.given(momentum=momentum))
        if trainable and momentum is not None:
            raise InputError("copy: a copy with a momentum is not trained by itself; leave one of them out")
        self.trainable = trainable
        self.momentum = momentum
        self._followed = () if momentum is None else ((source, 1 - momentum),)  # in tuples, so that it is no child
        words: Any = source.tokenize
        self.encoder = deepcopy(source, {id(part): part for part in (words, words.tokenizer)})  # for both
        self.encoder.set_compute(replace(self.encoder.compute, compile=False))  # torch compiles for 8 shapes in all
        if not trainable:
            self.requires_grad_(False)
        self.train()

    def train(self, mode: bool = True) -> EncoderCopy:
        """Set the mode: a frozen copy stays in evaluation mode."""
        return super().train(mode and self.trainable)

    @torch.compiler.disable
    def forward(self, tokens: TokenBatch, words: Tensor | None = None, need: Need = Need()) -> EncoderOutput:
        """One pass over B sentences; see `SentenceEncoder.forward`.

        Args:
            tokens: (B, L).
            words: (B, L, W) word embeddings in place of looking the tokens up, or None.
            need: the outputs besides vectors: the tokens' states, layers (`sentrep.types.Need`).
        """
        with torch.set_grad_enabled(self.trainable and torch.is_grad_enabled()):
            return self.encoder(tokens, words, need)

    def project(self, embedding: Tensor) -> Tensor:
        """The copy's projection head on pooled vectors, (B, H) → (B, D); without a head, the vectors themselves."""
        return self.encoder.project(embedding)

    @torch.no_grad()
    def after_step(self) -> None:
        """Move by the momentum, after an optimiser step; nothing to do without one. Buffers are copied."""
        for source, share in self._followed:
            for own, parameter in zip(self.encoder.parameters(), source.parameters(), strict=True):
                own.lerp_(parameter, share)
            for own, buffer in zip(self.encoder.buffers(), source.buffers(), strict=True):
                own.copy_(buffer)


class CutCopy(nn.Module):
    """A copy of the encoder (`EncoderCopy`) whose projected vectors have the first ``dim`` dimensions."""

    def __init__(self, whole: Any, dim: int) -> None:
        super().__init__()
        self.whole, self.dim = whole, dim

    @property
    def encoder(self) -> Any:
        """The second `SentenceEncoder`, which is not cut."""
        return self.whole.encoder

    def forward(self, *arguments: Any, **keywords: Any) -> EncoderOutput:
        """The copy's output; its vectors before the projection head are not cut."""
        return self.whole(*arguments, **keywords)

    def project(self, embedding: Tensor) -> Tensor:
        """(B, dim), the first dimensions of the copy's projected vectors."""
        return self.whole.project(embedding)[:, : self.dim]


class Frozen(nn.Module):
    """Any module, in evaluation mode always, without gradient and not trained; it is saved, as a checkpoint is whole.

    Calling it calls the module, which is reached as ``module``.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module.requires_grad_(False)
        self.eval()

    def train(self, mode: bool = True) -> Frozen:
        """Evaluation mode, whatever is asked for."""
        return super().train(False)

    @torch.no_grad()
    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        """Return the module's output, without gradient."""
        return self.module(*arguments, **keywords)


def frozen(module: nn.Module) -> Frozen:
    """Keep a module of a plug-in as it is: see `Frozen`.

    Args:
        module: changed in place: its parameters require no gradient any more.

    Examples:
        >>> judge = frozen(nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5))).train()
        >>> judge.training, judge.module.training, judge(torch.ones(1, 3)).requires_grad
        (False, False, False)
    """
    return Frozen(module)
