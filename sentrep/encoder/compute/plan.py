"""How a pass of the backbone runs: `Compute` says it, `plan` decides by it, and nothing else does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from sentrep import checks
from sentrep.encoder.compute import compiled
from sentrep.encoder.compute.attention import use_attention
from sentrep.encoder.compute.layout import Layout, Packed, Padded, can_pack
from sentrep.encoder.compute.pooling import (
    NEEDS_LAYERS,
    POOLINGS,
    READS_ONE_TOKEN,
    LastLayer,
    PoolingInput,
    can_end_early,
)
from sentrep.encoder.compute.products import mkl_is_slow, use_onednn
from sentrep.encoder.compute.recompute import some_rows_at_once
from sentrep.encoder.compute.template import Template
from sentrep.errors import InputError
from sentrep.functional.dropout import CheapDropout
from sentrep.types import DroppedStates, EncoderOutput, Layers, Need, TokenBatch


@dataclass(frozen=True)
class Compute:
    """How the encoder's passes run. The result is the same, but for rounding and, with dropout, other random draws.

    Args:
        layout: ``packed`` computes the real tokens alone (`sentrep.encoder.compute.layout`), where the family allows
            it; ``padded`` the padding too. ``auto`` packs training passes on a CPU.
        cheap_dropout: on a CPU, cheaper dropout masks, and attention in plain products where they are faster; elsewhere
            torch's.
        short_last_layer: where nothing reads the other tokens, end the last layer for the pooled token alone.
        rows_at_once: hold the activations of at most so many rows in training, all views of a sentence counted
            (GradCache): the loss and gradient of the full batch in the memory of a small one, for a second forward
            pass. None: all rows.
        products: what multiplies float32 matrices of linear layers on a CPU: ``torch`` as torch does, ``onednn``, or
            ``auto``, which takes oneDNN on AMD's processors from Zen 5 on (`sentrep.encoder.compute.products`).
        compile: run training passes, and the objectives that allow it, through `torch.compile`; ``reduce-overhead``
            adds CUDA graphs. ``encode`` compiles `SentenceEncoder.encode` instead.

    Raises:
        InputError: for a value out of range, or settings that exclude each other.
    """

    layout: Literal["auto", "padded", "packed"] = "auto"
    cheap_dropout: bool = True
    short_last_layer: bool = True
    rows_at_once: int | None = None
    products: Literal["auto", "torch", "onednn"] = "auto"
    compile: bool | Literal["reduce-overhead", "encode"] = False

    def __post_init__(self) -> None:
        owner = "compute"
        checks.one_of(owner, ("auto", "padded", "packed"), layout=self.layout)
        checks.flag(owner, cheap_dropout=self.cheap_dropout, short_last_layer=self.short_last_layer)
        checks.whole(owner, 1, **checks.given(rows_at_once=self.rows_at_once))
        checks.one_of(owner, ("auto", "torch", "onednn"), products=self.products)
        checks.one_of(owner, (False, True, "reduce-overhead", "encode"), compile=self.compile)
        if self.compile and self.layout == "packed":  # its shapes change always
            raise InputError("compute: compile does not go with layout packed; leave one of them out")

    @property
    def compiles_training(self) -> bool:
        """Whether training passes and objectives are compiled."""
        return self.compile not in (False, "encode")


@dataclass(frozen=True)
class Readout:
    """What is read of the backbone's states: facts of the model, not of how it is computed."""

    pooling: str
    prompts: tuple[Template, ...]
    """What stands around the sentences: the prompt or special tokens of every text, then prompts of some views in
    training (`TokenBatch.prompt`)."""
    subtracts: bool
    """Whether a prompt's own vector is taken off."""
    pad_token_id: int
    longest: int
    """Tokens of the longest training sequence, to which shapes are compiled."""

    def mask_index(self, tokens: TokenBatch) -> Tensor | int | None:
        """See `PoolingInput`."""
        if tokens.prompt is None:
            return self.prompts[0].mask_index
        return _of_each(tokens.prompt, [prompt.mask_index or 0 for prompt in self.prompts])

    def own(self, tokens: TokenBatch) -> Tensor:
        """(B, L) bool, see `TokenBatch.own`."""
        frames = [(len(prompt.prefix), len(prompt.suffix)) for prompt in self.prompts]
        if tokens.prompt is None:
            return tokens.own(frames[0])
        before, after = (_of_each(tokens.prompt[:, None], list(side)) for side in zip(*frames, strict=True))
        return tokens.own((before, after))


_NOT_MADE: Any = DroppedStates()


class Pass:
    """Runs of one backbone with its pooling; made by `plan`."""

    def __init__(self, backbone: PreTrainedModel, readout: Readout, compute: Compute, packs: bool) -> None:
        self.backbone = backbone
        self.readout = readout
        self.compute = compute
        self._packs = packs
        ends = compute.short_last_layer and readout.pooling in READS_ONE_TOKEN and can_end_early(backbone)
        self.last_layer = LastLayer(backbone) if ends else None
        self.modules = nn.ModuleList()
        """What follows the pooling (`sentrep.encoder.SentenceModule`)."""

    def __call__(self, tokens: TokenBatch, words: Tensor | None, need: Need) -> EncoderOutput:
        """One pass in training: see `SentenceEncoder.forward`."""
        rows = self.compute.rows_at_once
        if rows is not None and torch.is_grad_enabled():
            return some_rows_at_once(lambda part, known: self._train(part, known, need), tokens, words, rows)
        return self._train(tokens, words, need)

    def embed(self, tokens: TokenBatch) -> Tensor:
        """The vectors (B, D) of sentences of like length, as `encode` has them."""
        if self.compute.compile == "encode":
            return compiled.encode(self, tokens)
        return self.vectors(tokens, None, packed=self._packs and self.compute.layout == "packed")

    def run(self, tokens: TokenBatch, words: Tensor | None, need: Need, packed: bool = False) -> EncoderOutput:
        """One pass, here and now."""
        if need.vectors_only:
            return EncoderOutput.vectors_only(self.vectors(tokens, words, packed))
        states = self._states(tokens, words, self._layout(tokens, packed), layers=True)
        layers = Layers({number: states.layer(number) for number in need.layers})
        return EncoderOutput(self._finished(states, tokens), states.last, states.layer(0), layers)

    def vectors(self, tokens: TokenBatch, words: Tensor | None, packed: bool = False) -> Tensor:
        """The vectors of `run`, (B, D), computing nothing that only other outputs need."""
        layout = self._layout(tokens, packed)
        if any(module.reads_tokens for module in self.modules):
            layers = self.readout.pooling in NEEDS_LAYERS
            return self._finished(self._states(tokens, words, layout, layers), tokens)
        return self._through_modules(self._pooled(tokens, words, layout), _NOT_MADE, tokens)

    def _finished(self, states: PoolingInput, tokens: TokenBatch) -> Tensor:
        return self._through_modules(POOLINGS[self.readout.pooling](states), states.last, tokens)

    def _through_modules(self, pooled: Tensor, states: Tensor, tokens: TokenBatch) -> Tensor:
        vectors = self._without_template(pooled, tokens)
        for module in self.modules:
            more = (tokens.input_ids,) if module.reads_ids else ()
            vectors = module(vectors, states, tokens.attention_mask, *more)
        return vectors

    def _train(self, tokens: TokenBatch, words: Tensor | None, need: Need) -> EncoderOutput:
        if self.compute.compiles_training:
            mode: compiled.Mode = "reduce-overhead" if self.compute.compile == "reduce-overhead" else "default"
            readout = self.readout
            return compiled.train(self, tokens, words, need, mode, readout.longest, readout.pad_token_id)
        packed = self.compute.layout == "packed" or tokens.input_ids.device.type == "cpu"
        return self.run(tokens, words, need, packed and self._packs)

    def _layout(self, tokens: TokenBatch, packed: bool) -> Layout:
        return Packed.of(tokens, self.backbone.config) if packed else Padded(tokens.attention_mask)

    def _pooled(self, tokens: TokenBatch, words: Tensor | None, layout: Layout) -> Tensor:
        last, pooling = self.last_layer, self.readout.pooling
        if last is None or last.is_recomputed:
            return POOLINGS[pooling](self._states(tokens, words, layout, layers=pooling in NEEDS_LAYERS))
        position = READS_ONE_TOKEN[pooling](tokens.attention_mask, self.readout.mask_index(tokens))
        with last.only(lambda states: layout.take(states, position)):
            vectors: Tensor = self.backbone(**layout.inputs(tokens, words)).last_hidden_state
        return vectors.flatten(0, 1)

    def _states(self, tokens: TokenBatch, words: Tensor | None, layout: Layout, layers: bool) -> PoolingInput:
        output: Any = self.backbone(**layout.inputs(tokens, words), output_hidden_states=layers)
        return PoolingInput(
            layer=lambda number: layout.restore(output.hidden_states[number]),
            last=layout.restore(output.last_hidden_state),
            attention_mask=tokens.attention_mask,
            mask_index=self.readout.mask_index(tokens),
            pooler_output=getattr(output, "pooler_output", None),
        )

    def _without_template(self, pooled: Tensor, tokens: TokenBatch) -> Tensor:
        if not self.readout.subtracts:
            return pooled

        prompts, training = self.readout.prompts, self.backbone.training

        def alone(number: int, rows: Tensor | None) -> Tensor:
            def pool(around: TokenBatch, visible: Tensor) -> Tensor:
                around.prompt = None if rows is None else torch.full_like(around.input_ids[:, 0], number)
                return self._pooled(around, None, Padded(visible))

            return prompts[number].vectors(pool, tokens, training, rows)

        if tokens.prompt is None:
            return pooled - alone(0, None)
        for number in range(len(prompts)):
            rows = tokens.prompt == number
            pooled = pooled - alone(number, rows).where(rows[:, None], 0)
        return pooled


def plan(backbone: PreTrainedModel, readout: Readout, compute: Compute) -> Pass:
    """Prepare a backbone to run as ``compute`` says, and decide what its family allows; a warning where it does not.

    Args:
        backbone: changed in place: its attention, dropout and linear layers, a hook in its last layer.
        readout: what is read of it.
        compute: how it is to run.

    Raises:
        InputError: for settings that exclude each other.
    """
    if compute.layout == "packed" and readout.pooling == "pooler":
        raise InputError("layout packed does not go with pooling 'pooler'; leave one of them out")
    own_attention = use_attention(backbone, compute.cheap_dropout)
    if compute.cheap_dropout:
        _cheapen_dropout(backbone)
    if compute.products == "onednn" or (compute.products == "auto" and mkl_is_slow()):
        use_onednn(backbone)
    packs = compute.layout != "padded" and own_attention and can_pack(backbone.config) and readout.pooling != "pooler"
    if compute.layout == "packed" and not packs:
        from lightning.pytorch.utilities import rank_zero_warn  # seconds and 100 MiB that `encode` does without

        rank_zero_warn(f"{backbone.config.model_type} cannot be packed: its padding is computed")
    return Pass(backbone, readout, compute, packs)


def _of_each(prompt: Tensor, values: list[int]) -> Tensor:
    """The value of each row's prompt, (...) int64, without a copy from the host."""
    found = torch.full_like(prompt, values[0])
    for number, value in enumerate(values):
        found = found.masked_fill(prompt == number, value)
    return found


def _cheapen_dropout(backbone: PreTrainedModel) -> None:
    """In its layers; that of its attention is in `sentrep.encoder.compute.attention`."""
    for module in backbone.modules():
        for name, child in module.named_children():
            if type(child) is nn.Dropout:
                setattr(module, name, CheapDropout(child.p))
