"""How a pass of the backbone runs: `Compute` says it, `plan` decides by it, and nothing else does."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from sentrep import checks
from sentrep.distributed import forked_draws
from sentrep.encoder.compute import compiled
from sentrep.encoder.compute.attention import CheapDropout, use_attention
from sentrep.encoder.compute.layout import Layout, Packed, Padded, Read, can_pack
from sentrep.encoder.compute.pooling import NEEDS_LAYERS, POOLINGS, READS_ONE_TOKEN, PoolingInput
from sentrep.encoder.compute.recompute import some_rows_at_once
from sentrep.encoder.compute.template import Pool, Prompts, WithoutTemplates
from sentrep.errors import InputError
from sentrep.types import NOT_MADE, EncoderOutput, Layers, Need, TokenBatch

_FAMILIES = frozenset({"bert", "camembert", "electra", "roberta", "xlm-roberta"})
"""Families whose layers have ``attention.self.query`` and ``attention.output(attended, residual)``."""

_READ = threading.local()
"""What the running pass reads of its last layer (`LastLayer.only`): several threads may encode at once."""


@dataclass(frozen=True)
class Compute:
    """How the encoder's passes run. The result is the same, but for rounding and, with dropout, other random draws.

    Args:
        layout: ``packed`` computes the real tokens alone (`sentrep.encoder.compute.layout`), where the family allows
            it; ``padded`` the padding too. ``auto`` packs training passes on a CPU.
        cheap_dropout: on a CPU, cheaper dropout masks, and attention in plain products where they are faster; elsewhere
            torch's.
        short_last_layer: compute the last layer only for the pooled token. If an objective reads the other tokens, they
            are computed separately, so that the pooled vector's dropout does not depend on the objectives.
        rows_at_once: hold the activations of at most so many rows in training, all views of a sentence counted
            (GradCache): the loss and gradient of the full batch in the memory of a small one, for a second forward
            pass. None: all rows.
        compile: run training passes, and the objectives that allow it, through `torch.compile`; ``reduce-overhead``
            adds CUDA graphs. Compiled recipes of one seed need not share their dropout, and a step that you compile as
            one graph seeds nothing within (`sentrep.distributed.plugin_draws`): `sentrep compare` refuses both modes.

    Raises:
        InputError: for a value out of range, or settings that exclude each other.

    Examples:
        >>> from sentrep.encoder import Compute
        >>> Compute(rows_at_once=32).rows_at_once
        32
    """

    layout: Literal["auto", "padded", "packed"] = "auto"
    cheap_dropout: bool = True
    short_last_layer: bool = True
    rows_at_once: int | None = None
    compile: bool | Literal["reduce-overhead"] = False

    def __post_init__(self) -> None:
        owner = "compute"
        checks.one_of(owner, ("auto", "padded", "packed"), layout=self.layout)
        checks.flag(owner, cheap_dropout=self.cheap_dropout, short_last_layer=self.short_last_layer)
        checks.whole(owner, 1, **checks.given(rows_at_once=self.rows_at_once))
        checks.one_of(owner, (False, True, "reduce-overhead"), compile=self.compile)
        if self.compile and self.layout == "packed":  # its shapes change always
            raise InputError("compute: compile does not go with layout packed; leave one of them out")

    @property
    def training_mode(self) -> compiled.Mode | None:
        """How training passes and objectives are compiled; None where they are not."""
        if self.compile is True:
            return "default"
        return self.compile if self.compile == "reduce-overhead" else None


class Pass:
    """Runs of one backbone, from tokens to sentence vectors.

    It is built anew where one of its parts changes.

    Args:
        prepared: the backbone (`prepare`).
        prompts: the templates around the sentences.
        subtracts: whether a prompt's own vector is taken off.
        modules: the modules after the pooling (`sentrep.encoder.SentenceModule`).
        compute: how passes run.
    """

    def __init__(
        self, prepared: Prepared, prompts: Prompts, subtracts: bool, modules: nn.ModuleList, compute: Compute
    ) -> None:
        self.backbone = prepared.backbone
        self.prompts = prompts
        self._packs, self._modules, self._compute = prepared.packs, modules, compute
        self._pool = _pool(prepared, prompts, subtracts)
        self._pool_compiled = _pool(replace(prepared, last_layer=None), prompts, subtracts)

    def __call__(self, tokens: TokenBatch, words: Tensor | None, need: Need) -> EncoderOutput:
        """One pass in training, in the way of `Compute`: see `SentenceEncoder.forward`."""
        compute = self._compute
        packed = self._packs and (compute.layout == "packed" or tokens.input_ids.device.type == "cpu")
        run: Any = functools.partial(self.run, packed=packed)
        if compute.training_mode is not None:
            run = functools.partial(compiled.train, self, compute.training_mode)
        if compute.rows_at_once is None or not torch.is_grad_enabled():
            return run(tokens, words, need)
        return some_rows_at_once(run, tokens, words, need, compute.rows_at_once)

    def embed(self, tokens: TokenBatch) -> Tensor:
        """The vectors (B, D) of sentences of like length, as `encode` has them."""
        packed = self._packs and self._compute.layout == "packed"
        return self.run(tokens, None, Need(tokens=False), packed).embedding

    def run(self, tokens: TokenBatch, words: Tensor | None, need: Need, packed: bool = False) -> EncoderOutput:
        """Run backbone, pooling and modules in a layout; outputs that nothing reads are not computed."""
        layout = Packed.of(tokens, self.backbone.config) if packed else Padded(tokens.attention_mask)
        return self._run(self._pool, layout, tokens, words, need)

    def run_compiled(self, tokens: TokenBatch, words: Tensor | None, need: Need) -> EncoderOutput:
        """The pass that `torch.compile` traces: padded, and the last layer computes every token.

        `LastLayer` works by hooks that read a thread-local. Behind a graph break compiled code does not see its value.
        """
        return self._run(self._pool_compiled, Padded(tokens.attention_mask), tokens, words, need)

    def _run(self, pool: Pool, layout: Layout, tokens: TokenBatch, words: Tensor | None, need: Need) -> EncoderOutput:
        vectors_alone = need.vectors_only and not any(module.reads_tokens for module in self._modules)
        vectors, states = pool(tokens, words, layout, vectors_alone, not need.vectors_only)
        last: Any = NotMade() if states is None else states.last
        for module in self._modules:
            vectors = module(vectors, last, tokens.attention_mask)
        if states is None or need.vectors_only:
            return EncoderOutput(vectors.clone())  # a CLS vector is a view, which would hold the states of all tokens
        layers = Layers({number: states.layer(number) for number in need.layers})
        return EncoderOutput(vectors, states.last, states.layer(0), layers)


def _pool(prepared: Prepared, prompts: Prompts, subtracts: bool) -> Pool:
    pool = functools.partial(prepared.pooled, prompts)
    return WithoutTemplates(pool, prompts, prepared.backbone) if subtracts else pool


class NotMade:
    """The tokens' states for modules that do not say that they read them; one that does so is told what to do."""

    def __getattr__(self, name: str) -> NoReturn:
        raise InputError(NOT_MADE)


@dataclass(frozen=True)
class Prepared:
    """A backbone that runs as `Compute` says, with its pooling; what its family allows."""

    backbone: PreTrainedModel
    pooling: str
    """One of `sentrep.encoder.POOLINGS`."""
    packs: bool
    """Whether its batches can be packed."""
    last_layer: LastLayer | None
    """Where it may end early."""

    def pooled(
        self,
        prompts: Prompts,
        tokens: TokenBatch,
        words: Tensor | None,
        layout: Layout,
        vectors_alone: bool,
        layers: bool,
    ) -> tuple[Tensor, PoolingInput | None]:
        """Pooled vectors (B, H), and the states that they come from, where not the vectors alone are wanted."""
        mask_index = prompts.own.mask_index if tokens.prompt is None else prompts.mask_index(tokens.prompt)
        layers = layers or self.pooling in NEEDS_LAYERS
        run = functools.partial(self.backbone, **layout.inputs(tokens, words), output_hidden_states=layers)
        last = self.last_layer if self._ends_early(vectors_alone) else None
        if last is None:
            output: Any = run()
        else:
            find = READS_ONE_TOKEN[self.pooling]
            position = None if find is None else find(tokens.attention_mask, mask_index)
            output, read = last.run(run, layout, position)
            if vectors_alone:
                return output.last_hidden_state.flatten(0, 1), None
            output.last_hidden_state = last.whole(read, output.last_hidden_state)
            if layers:
                output.hidden_states = (*output.hidden_states[:-1], output.last_hidden_state)
        states = PoolingInput(
            layer=lambda number: layout.restore(output.hidden_states[number]),
            last=layout.restore(output.last_hidden_state),
            attention_mask=tokens.attention_mask,
            mask_index=mask_index,
            pooler_output=getattr(output, "pooler_output", None),
        )
        return POOLINGS[self.pooling](states), None if vectors_alone else states

    def _ends_early(self, vectors_alone: bool) -> bool:
        """Whether the last layer ends for the pooled token first; in training also where all tokens follow.

        A pooled vector then has the same dropout, to the bit, whatever the objectives read.
        """
        if self.last_layer is None or not self.last_layer.can_run:
            return False
        return vectors_alone or self.backbone.training


def prepare(backbone: PreTrainedModel, pooling: str, compute: Compute) -> Prepared:
    """Prepare a backbone to run as ``compute`` says, and decide what its family allows; a warning where it does not.

    Args:
        backbone: changed in place: its attention and dropout, hooks in its last layer.
        pooling: one of `sentrep.encoder.POOLINGS`.
        compute: how it is to run.

    Raises:
        InputError: for settings that exclude each other.
    """
    if compute.layout == "packed" and pooling == "pooler":
        raise InputError("layout packed does not go with pooling 'pooler'; leave one of them out")
    own_attention = use_attention(backbone, compute.cheap_dropout)
    if compute.cheap_dropout:
        _cheapen_dropout(backbone)
    packs = compute.layout != "padded" and own_attention and can_pack(backbone.config) and pooling != "pooler"
    if compute.layout == "packed" and not packs:
        from lightning.pytorch.utilities import rank_zero_warn  # seconds and 100 MiB that `encode` does without

        rank_zero_warn(f"{backbone.config.model_type} cannot be packed: its padding is computed")
    ends = compute.short_last_layer and own_attention and pooling in READS_ONE_TOKEN and can_end_early(backbone)
    return Prepared(backbone, pooling, packs, LastLayer(backbone) if ends else None)


def remove_recorders(backbone: PreTrainedModel) -> None:
    """Remove the hooks by which transformers records the states of layers: local functions, which no pickle holds.

    The next pass that reads layers installs them again.
    """
    for module in backbone.modules():
        for number, hook in list(module._forward_hooks.items()):
            if hook.__module__ == "transformers.utils.output_capturing":
                del module._forward_hooks[number]
        vars(module).pop("_output_capturing_hooks_installed", None)


def can_end_early(backbone: PreTrainedModel) -> bool:
    """Whether `LastLayer` works for the backbone, whose tokens must all see the same ones."""
    return backbone.config.model_type in _FAMILIES and not backbone.config.is_decoder


class LastLayer:
    """Lets a backbone that `can_end_early` says yes to compute its last layer for one token of each sentence alone.

    No token of the last layer looks at another one's output. A pooled vector of one token needs the keys and values of
    all tokens, but the query, the attention, the output projection and the feed-forward block of its own token only.
    """

    def __init__(self, backbone: PreTrainedModel) -> None:
        encoder: Any = backbone.encoder
        self._encoder, self._layer = encoder, encoder.layer[-1]
        own = self._layer.attention
        self._parts = (self._layer, own.self, own.self.query, own.output)
        self._around = (backbone, encoder, own, *self._parts)
        # once and for all: hooks that come and go would break the graph of compiled code
        self._layer.register_forward_pre_hook(_keep_arguments, with_kwargs=True)
        own.self.query.register_forward_pre_hook(_take)
        own.self.query.register_forward_hook(_spread)
        own.output.register_forward_pre_hook(_take)

    @property
    def can_run(self) -> bool:
        """Whether the hooks work in the next pass.

        They do not work in a layer that has been cut off or that the backward pass computes again
        (``gradient_checkpointing_enable``), and in compiled code (`torch.compile`, or `nn.Module.compile` of a part).
        """
        if self._encoder.layer[-1] is not self._layer or getattr(self._layer, "gradient_checkpointing", False):
            return False
        if torch.compiler.is_compiling():
            return torch.compiler.is_exporting()  # an exported graph has no graph breaks
        return all(getattr(module, "_compiled_call_impl", None) is None for module in self._around)

    @torch.compiler.disable
    def run(self, backbone: Callable[..., Any], layout: Layout, position: Tensor | None) -> tuple[Any, Read]:
        """The backbone's output within `only`, never by compiled code, which does not see what the hooks read.

        Args:
            backbone: a pass of the backbone that takes ``read``.
            layout: see `only`.
            position: see `only`.
        """
        with self.only(layout, position) as read:
            return backbone(read=read), read

    @contextmanager
    def only(self, layout: Layout, position: Tensor | None) -> Iterator[Read]:
        """Within the context the last layer computes one token of each sentence.

        Args:
            layout: of the batch.
            position: (B,) which token; None for the first.

        Yields:
            an argument of the backbone, and of `whole`.
        """
        _READ.now = Read(self._parts, layout, position)
        try:
            yield _READ.now
        finally:
            _READ.now = None

    def whole(self, read: Read, pooled: Tensor) -> Tensor:
        """The layer's output for all tokens, after `only` has computed the read ones, which stay as they are.

        The other tokens' dropout leaves torch's generator where it was: whatever runs next draws the same without them.

        Args:
            read: of `only`.
            pooled: the layer's output for the read tokens.
        """
        arguments, keywords = read.given
        with forked_draws(pooled.device):
            states = self._layer(*arguments, **keywords)
        return read.layout.put(states, read.position, pooled)


def _now_read(module: nn.Module) -> Read | None:
    read: Read | None = getattr(_READ, "now", None)
    return read if read is not None and module in read.parts else None


def _keep_arguments(module: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    """Keep what `LastLayer.whole` runs the layer with; not ``read`` itself, a circle that would keep the pass alive."""
    if (read := _now_read(module)) is not None:
        read.given.extend([arguments, {**keywords, "read": None}])


def _take(module: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    read = _now_read(module)
    return arguments if read is None else tuple([read.layout.take(states, read.position) for states in arguments])


def _spread(module: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> Tensor:
    """transformers' attention wants a query of every token."""
    read = _now_read(module)
    return output if read is None else read.layout.spread(output.flatten(0, 1), read.position)


def _cheapen_dropout(backbone: PreTrainedModel) -> None:
    """Replace the dropout of layers; `sentrep.encoder.compute.attention` has the dropout of attention."""
    for module in backbone.modules():
        for name, child in module.named_children():
            if type(child) is nn.Dropout:
                setattr(module, name, CheapDropout(child.p))
