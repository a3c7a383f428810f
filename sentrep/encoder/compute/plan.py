"""How a pass of the backbone runs: `Compute` holds the settings, and `Pass` follows them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel

from sentrep.encoder.compute import bert, compiled
from sentrep.encoder.compute.captured import CapturedPass
from sentrep.encoder.compute.cpu import use_cheap_dropout
from sentrep.encoder.compute.pooling import NEEDS_LAYERS, POOLINGS, READS_ONE_TOKEN, PoolingInput
from sentrep.encoder.compute.recompute import Run, some_rows_at_once
from sentrep.encoder.compute.rows import PackedRows, can_pack, first_position, row_width
from sentrep.encoder.compute.template import Prompts
from sentrep.errors import InputError
from sentrep.types import NOT_MADE, EncoderOutput, Layers, Need, TokenBatch

logger = logging.getLogger("sentrep")

_ROUNDING = {True: 0.01, False: 0.05}
"""Largest difference of compiled vectors, as a share of the largest value: in float32 (or TF32), and in 16 bits."""


@dataclass(frozen=True)
class Compute:
    """How the encoder's passes run. The result is the same, but for rounding and, with dropout, other random draws.

    Args:
        layout: ``auto`` puts several sentences into a row (`sentrep.encoder.compute.rows`), where the family allows
            it; ``padded`` gives each sentence a row of its own, as `encode` does, which sorts sentences by length.
        cheap_dropout: on a CPU, cheaper dropout masks, and attention with dropout in plain products; elsewhere torch's.
        rows_at_once: hold the activations of at most so many rows in training, all views of a sentence counted
            (GradCache): the loss and gradient of the full batch in the memory of a small one, for a second forward
            pass. None: all rows.
        compile: run the layers of training passes, and the objectives that allow it, through `torch.compile`;
            ``reduce-overhead`` adds CUDA graphs (`sentrep.encoder.compute.captured`); ``auto`` compiles on CUDA in runs
            of more than 1,000 steps. The first batch is compared with uncompiled layers. Compiled recipes of one seed
            need not share their dropout, and a step that you compile as one graph seeds nothing within
            (`sentrep.random.plugin_draws`): `sentrep fit --seeds` refuses both modes.

    Examples:
        >>> from sentrep.encoder import Compute
        >>> Compute(rows_at_once=32).rows_at_once
        32
    """

    layout: Literal["auto", "padded"] = "auto"
    cheap_dropout: bool = True
    rows_at_once: int | None = None
    compile: bool | Literal["auto", "reduce-overhead"] = "auto"

    @property
    def compiles(self) -> bool:
        """Whether training passes and objectives are compiled; not, or not yet, for ``auto``."""
        return self.compile in (True, "reduce-overhead")


class Pass:
    """Runs of one backbone, from tokens to sentence vectors.

    It is built anew where one of its parts changes.

    Args:
        backbone: the transformer, which gets the layers that ``compute`` asks for, in place.
        pooling: one of `sentrep.encoder.POOLINGS`.
        prompts: the templates around the sentences.
        subtracts: whether a prompt's own vector is taken off.
        modules: the modules after the pooling (`sentrep.encoder.SentenceModule`).
        compute: how passes run.
    """

    def __init__(
        self,
        backbone: PreTrainedModel,
        pooling: str,
        prompts: Prompts,
        subtracts: bool,
        modules: nn.ModuleList,
        compute: Compute,
    ) -> None:
        self.backbone: Any = backbone
        self.pooling, self.prompts = pooling, prompts
        self._subtracts, self._modules, self._compute = subtracts, modules, compute
        self._is_bert = bert.is_bert(backbone)
        self._packs = compute.layout != "padded" and can_pack(backbone.config, prompts.own.pad_token_id)
        if pooling == "pooler" and not self._is_bert:
            self._packs = False  # a row has one first token for several sentences
        self._first_position = first_position(backbone.config)
        self._compared = False
        if compute.cheap_dropout:
            use_cheap_dropout(backbone)
        if compute.compiles:
            compiled.compile_layers(backbone)
        captures = compute.compile == "reduce-overhead" and self._is_bert and compute.rows_at_once is None
        self._captured = CapturedPass(backbone) if captures else None

    def __call__(self, tokens: TokenBatch, words: Tensor | None, need: Need) -> EncoderOutput:
        """One pass in the way of `Compute`: see `SentenceEncoder.forward`."""
        run: Run = self._run
        if self._compute.compiles:
            if not self._compared:
                self._compare(tokens)
            run = self._run_compiled
        if self._compute.rows_at_once is None:
            return run(tokens, words, need)
        return some_rows_at_once(run, tokens, words, need, self._compute.rows_at_once)

    @torch.no_grad()
    def _compare(self, tokens: TokenBatch) -> None:
        """Compare compiled vectors of one batch with uncompiled ones, without dropout.

        Raises:
            InputError: they differ by more than rounding.
        """
        self._compared = True
        modes = {module: module.training for module in self.backbone.modules()}
        self.backbone.eval()
        found = self._run_compiled(tokens, None, Need(tokens=False)).embedding
        with torch.compiler.set_stance("force_eager"):
            wanted = self._run(tokens, None, Need(tokens=False)).embedding
        for module, training in modes.items():
            module.training = training
        apart = float((found - wanted).abs().max() / wanted.abs().max())
        if not apart < _ROUNDING[bert.computed_in(wanted).itemsize > 2]:
            raise InputError(
                f"compute: compiled vectors differ from uncompiled ones by {apart:.1e} of the largest value: leave "
                "model.encoder.compute.compile out, and report this with the versions of `sentrep --version`"
            )
        logger.info("layers are compiled; the first batch differs from uncompiled layers by %.1e", apart)

    def _run_compiled(self, tokens: TokenBatch, words: Tensor | None, need: Need) -> EncoderOutput:
        """`_run` of the batch in one width, so that compiled code sees few shapes; the new columns are cut off."""
        more = max(0, self.prompts.longest - tokens.input_ids.shape[1])
        wide = tokens.widened(more, self.prompts.own.pad_token_id)
        return self._run(wide, None if words is None else F.pad(words, (0, 0, 0, more)), need).narrowed(more)

    def _run(self, tokens: TokenBatch, words: Tensor | None, need: Need) -> EncoderOutput:
        """Run backbone, pooling and modules; outputs that nothing reads are not computed."""
        alone = need.vectors_only and not any(module.reads_tokens for module in self._modules)
        rows = self._rows(tokens)
        if alone and words is None and self._can_replay(rows):
            vectors, states = self._replayed(tokens, rows), None
        else:
            vectors, states = self._pooled(tokens, words, rows, alone, not need.vectors_only)
        if self._subtracts:
            every_length = self._runs_every_length(vectors)
            vectors = vectors - self.prompts.vectors(self._pooled, tokens, self._first_position, every_length)
        last: Any = NotMade() if states is None else states.last
        for module in self._modules:
            vectors = module(vectors, last, tokens.attention_mask)
        if states is None or need.vectors_only:
            return EncoderOutput(vectors.clone())  # a CLS vector is a view, which would hold the states of all tokens
        layers = Layers({number: states.layer(number) for number in need.layers})
        return EncoderOutput(vectors, states.last, states.layer(0), layers)

    def _can_replay(self, rows: PackedRows) -> bool:
        """Whether a pass that gives the vectors alone runs in CUDA graphs."""
        if self._captured is None or rows.visible.device.type != "cuda" or torch.compiler.is_compiling():
            return False
        return not any(getattr(layer, "gradient_checkpointing", False) for layer in self.backbone.encoder.layer)

    def _replayed(self, tokens: TokenBatch, rows: PackedRows) -> Tensor:
        """The vectors (B, H) of `_pooled`, by `CapturedPass`."""
        assert self._captured is not None
        given = {"ids": tokens.input_ids, "mask": tokens.attention_mask, "prompt": tokens.prompt}
        laid = {name: getattr(rows, name) for name in ("source", "position_ids", "segments", "places", "visible")}
        names, tensors = zip(*((k, v) for k, v in {**given, **laid}.items() if v is not None), strict=True)

        def run(inputs: Sequence[Tensor]) -> Tensor:
            found = dict(zip(names, inputs, strict=True))
            batch = TokenBatch(found.pop("ids"), found.pop("mask"), prompt=found.pop("prompt", None))
            return self._pooled(batch, None, replace(rows, **found), True, False)[0]

        return self._captured(run, tensors, (names, rows.is_full))

    def _rows(self, tokens: TokenBatch) -> PackedRows:
        """The batch in rows; one sentence a row where the lengths are known to the device alone."""
        device, packed = tokens.input_ids.device, self._packs and not torch.compiler.is_compiling()
        if packed and tokens.lengths is None and device.type == "cpu":
            tokens = replace(tokens, lengths=tokens.attention_mask.sum(1).numpy())
        if not packed or tokens.lengths is None:
            return PackedRows.one_each(tokens, self._first_position)
        width = row_width(max(self.prompts.longest, tokens.input_ids.shape[1]), device)
        return PackedRows.pack(tokens, width, self._first_position, self._compute.compiles)

    def _runs_every_length(self, pooled: Tensor) -> bool:
        """Whether prompts alone run for all lengths: where shapes are compiled, or an accelerator trains."""
        if torch.compiler.is_compiling():
            return not torch.compiler.is_exporting()
        fixed = self._compute.compiles or pooled.device.type != "cpu"
        return self.backbone.training and fixed

    def _pooled(
        self, tokens: TokenBatch, words: Tensor | None, rows: PackedRows, alone: bool, layers: bool
    ) -> tuple[Tensor, PoolingInput | None]:
        """Pooled vectors (B, H), and the states that they come from, where not the vectors alone are wanted."""
        mask_index = self.prompts.own.mask_index if tokens.prompt is None else self.prompts.mask_index(tokens.prompt)
        layers = layers or self.pooling in NEEDS_LAYERS
        if self._is_bert:
            find = READS_ONE_TOKEN.get(self.pooling)
            position = None if find is None else find(tokens.attention_mask, mask_index)
            early = self.pooling in READS_ONE_TOKEN and (alone or self.backbone.training)
            hidden, token = bert.run(self.backbone, tokens.input_ids, words, rows, position, early, alone)
            if token is not None and alone:
                return token, None
            last = rows.of_sentences(hidden[-1])
            pooler_output = self.backbone.pooler(last) if self.pooling == "pooler" else None
        else:
            output = self._run_backbone(tokens.input_ids, words, rows, layers)
            hidden, last = output.hidden_states, rows.of_sentences(output.last_hidden_state)
            pooler_output = getattr(output, "pooler_output", None)
        states = PoolingInput(
            layer=lambda number: rows.of_sentences(hidden[number]),
            last=last,
            attention_mask=tokens.attention_mask,
            mask_index=mask_index,
            pooler_output=pooler_output,
        )
        return POOLINGS[self.pooling](states), None if alone else states

    def _run_backbone(self, ids: Tensor, words: Tensor | None, rows: PackedRows, layers: bool) -> Any:
        """The output of a backbone of any other family, by its own ``forward``."""
        name, source = ("input_ids", ids) if words is None else ("inputs_embeds", words)
        arguments: dict[str, Any] = {name: rows.of_tokens(source), "attention_mask": rows.visible}
        if rows.places is not None:
            arguments["position_ids"] = rows.position_ids
            arguments["attention_mask"] = rows.bias(
                bert.computed_in(self.backbone.get_input_embeddings().get_parameter("weight"))
            )
        return self.backbone(**arguments, output_hidden_states=layers)


class NotMade:
    """The tokens' states for modules that do not say that they read them; one that does so is told what to do."""

    def __getattr__(self, name: str) -> NoReturn:
        raise InputError(NOT_MADE)


def remove_recorders(backbone: PreTrainedModel) -> None:
    """Remove the hooks by which transformers records the states of layers: local functions, which no pickle holds.

    The next pass that reads layers installs them again.
    """
    for module in backbone.modules():
        for number, hook in list(module._forward_hooks.items()):
            if hook.__module__ == "transformers.utils.output_capturing":
                del module._forward_hooks[number]
        vars(module).pop("_output_capturing_hooks_installed", None)
