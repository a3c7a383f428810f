"""`SentenceEncoder`: a transformer, a pooling and a tokenizer in one object."""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, overload

import torch
from torch import Tensor, nn

from sentrep import checks
from sentrep.config import Configurable
from sentrep.encoder.adapters import Lora
from sentrep.encoder.compute.cpu import use_cheap_dropout
from sentrep.encoder.compute.plan import Compute, Pass, remove_recorders
from sentrep.encoder.compute.rows import position_limit
from sentrep.encoder.compute.template import Prompts, Template
from sentrep.encoder.encode import TextEncoder
from sentrep.encoder.freezing import make_trainable
from sentrep.encoder.graph import GraphEncoder
from sentrep.encoder.heads import ProjectionHead
from sentrep.encoder.loading import backbones, folders, sources, weights
from sentrep.encoder.loading.lm_head import LanguageModelHead, language_model_head
from sentrep.encoder.loading.settings import Settings
from sentrep.encoder.loading.soundness import check_tokenizer
from sentrep.encoder.loading.tokenizers import load_tokenizer
from sentrep.encoder.loading.trained import Trained
from sentrep.encoder.modules import Normalize, SentenceModule, chain, described
from sentrep.encoder.text.tokenizer import Prompt, TextTokenizer
from sentrep.errors import InputError
from sentrep.types import EncoderOutput, EncoderSpec, Need, TokenBatch

_ANOTHER = "build another encoder, for example with SentenceEncoder.from_pretrained"
_FIXED = {
    **dict.fromkeys(("backbone", "pooling", "prompt", "subtract_template", "tokenize", "adapter"), _ANOTHER),
    "compute": "call set_compute",
    "sentence_modules": "call set_modules",
}
"""Attributes that a pass is built from, and the way to change each of them."""


class SentenceEncoder(Configurable, TextEncoder, nn.Module):
    """Encodes sentences as vectors with any transformers encoder.

    Args:
        backbone: a hub id; a folder (transformers, sentence-transformers or ours); a checkpoint of `sentrep fit`; or a
            dict: one of these as ``name``, with ``revision`` (branch, tag or commit of the hub) or
            ``trust_remote_code: true`` (the model may run its own code), or a transformers configuration with
            ``model_type``, for random weights.
        pooling: one of `sentrep.encoder.POOLINGS`.
        prompt: a template such as ``"[X]" means [MASK].`` (quotes included), a `Prompt`, or None. Needed by pooling
            ``mask``.
        max_length: longest sequence in training, in tokens; with a prompt, the length of the text alone.
        max_seq_length: the same for `encode`; None means the model's own limit.
        pretrained: False uses the architecture with random weights.
        tokenizer: folder or hub id of another tokenizer than the backbone's; ``toy`` is the embedded one.
        dropout: replaces every dropout rate of the backbone; None keeps its own.
        compute: how passes run (`Compute`): layout, GradCache, compilation.
        trainable: the trained part of the backbone: True for all of it, False for nothing, patterns of its parameters'
            names such as ``encoder.layer.1[01].*``, or low-rank matrices beside it (`Lora`). Frozen parts keep their
            dropout in training. A folder holds merged weights, a checkpoint both parts. An adapter that differs from
            the checkpoint's starts beside the merged weights.
        modules: modules of the model after the pooling, in this order (`sentrep.encoder.SentenceModule`).
            None: the modules of a checkpoint ``backbone``; else none.

    Attributes:
        prompts: texts before a sentence, by name, as in sentence-transformers: ``query`` for `encode_query`,
            ``document`` (or ``passage``, ``corpus``) for `encode_document`. Training uses none. A model folder may
            have prompts, and you may set them.
        default_prompt_name: name of the prompt of `encode`; None for none.
        similarity_fn_name: what `similarity` computes: cosine, dot, euclidean or manhattan.
        truncate_dim: dimensions that `encode` keeps; None for all.
        include_prompt: whether the pooling reads the tokens of a prompt.

    Raises:
        InputError: for anything that cannot be found or does not fit together.

    Examples:
        >>> from sentrep import SentenceEncoder
        >>> small = {"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> encoder = SentenceEncoder(small, pooling="mean", tokenizer="toy")
        >>> encoder.encode(["A dog barks.", "It rains."]).shape
        (2, 16)
    """

    compute: Compute
    sentence_modules: nn.ModuleList

    def __init__(
        self,
        backbone: str | dict[str, Any],
        pooling: str = "cls",
        prompt: str | Prompt | None = None,
        max_length: int = 32,
        max_seq_length: int | None = None,
        pretrained: bool = True,
        tokenizer: str | None = None,
        dropout: float | None = None,
        compute: Compute = Compute(),
        trainable: bool | list[str] | Lora = True,
        modules: list[SentenceModule] | None = None,
    ) -> None:
        super().__init__()
        template = prompt.template if isinstance(prompt, Prompt) else prompt
        Settings(pooling, template, max_length=max_length, max_seq_length=max_seq_length)  # validates the arguments
        checks.text("encoder", **checks.given(tokenizer=tokenizer))
        checks.share("encoder", **checks.given(dropout=dropout))
        checks.flag("encoder", pretrained=pretrained)
        checks.each("encoder", SentenceModule, modules=modules or [])
        checks.instance("encoder", Compute, compute=compute)
        checks.instance("encoder", (bool, list, Lora), trainable=trainable)
        checks.each("encoder", str, trainable=trainable if isinstance(trainable, list) else [])
        source = sources.open_source(backbone)
        tokens = load_tokenizer(source, tokenizer)
        source = source if pretrained else source.without_weights()
        self.backbone = backbones.load_backbone(source, dropout, pooler=pooling == "pooler")
        self.adapter = trainable if isinstance(trainable, Lora) else None
        make_trainable(self.backbone, trainable)
        check_tokenizer(tokens, self.vocab_size, source.name, self.backbone)
        self.prompt = template
        self.tokenize = TextTokenizer(tokens, self.prompt, position_limit(self.backbone.config))
        stored = source.settings or Settings()
        self.prompts, self.default_prompt_name = dict(stored.prompts), stored.default_prompt_name
        self.similarity_fn_name, self.truncate_dim = stored.similarity_fn_name, stored.truncate_dim
        self.include_prompt = stored.include_prompt
        self.max_length, self.max_seq_length = max_length, max_seq_length
        self.trained = Trained()  # of a checkpoint that `from_pretrained` loaded
        self.subtract_template = isinstance(prompt, Prompt) and prompt.subtract
        self.pooling, self.compute = pooling, compute
        if compute.cheap_dropout:
            use_cheap_dropout(self.backbone)
        self._around = Prompts(_template(self.tokenize), self.longest)
        if modules is None:
            modules = weights.built(stored.modules, source.name, source.trusted)
        self.set_modules(chain(modules, self.hidden_size, self._initial_std))
        self.head: ProjectionHead | None = None
        if pretrained:
            weights.restore(self, self.adapter, self.sentence_modules, source)
        self._source = replace(source, state=None, modules={})
        self.train()  # Lightning leaves from_pretrained's eval mode: SimCSE would see no dropout

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse an attribute that later passes would not follow."""
        if name in _FIXED and hasattr(self, name):
            raise InputError(f"encoder.{name} cannot be set; {_FIXED[name]}")
        self._set(name, value)

    def _set(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)

    @property
    def settings(self) -> Settings:
        """What makes this encoder of its transformer; it travels with the model."""
        return Settings(
            self.pooling, self.prompt, self.subtract_template, self.max_length, self.max_seq_length, self.adapter,
            dict(self.prompts), self.default_prompt_name, described(self.sentence_modules), self.similarity_fn_name,
            self.truncate_dim, self.include_prompt,
        )  # fmt: skip

    @property
    def spare_pooler(self) -> dict[str, Tensor]:
        """Weights of the start model's trained pooler, which the pooling does not read; exports hold it."""
        return self._source.pooler

    @property
    def runs_own_code(self) -> bool:
        """Whether the user lets the model run its own code."""
        return self._source.trusted

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return next(self.parameters()).device

    @property
    def hidden_size(self) -> int:
        """H, the width of the token states and of the pooled vector."""
        return self.backbone.config.hidden_size

    @property
    def embedding_dim(self) -> int:
        """D, the width of `encode`'s vectors: the width of the last module, or H."""
        modules: Any = self.sentence_modules
        return modules[-1].out_features if len(modules) else self.hidden_size

    @property
    def normalizes(self) -> bool:
        """Whether the last module scales vectors to length 1."""
        return len(self.sentence_modules) > 0 and isinstance(self.sentence_modules[-1], Normalize)

    @property
    def _initial_std(self) -> float:
        return getattr(self.backbone.config, "initializer_range", 0.02)

    @property
    def vocab_size(self) -> int:
        """Number of word embeddings."""
        return len(self.backbone.get_input_embeddings().get_parameter("weight"))

    def set_modules(self, modules: Iterable[SentenceModule]) -> None:
        """Replace the modules after the pooling by other built modules."""
        self._set("sentence_modules", nn.ModuleList(modules).to(self.device))
        self._plan()
        self.init_args["modules"] = list(self.sentence_modules)  # for checkpoints, which build it again

    def attach_head(self, head: ProjectionHead | None) -> None:
        """Add a projection head for training after the vectors (`project`).

        Raises:
            InputError: for the kind ``pooler`` if the model has no trained pooler.
        """
        if head is not None:
            head.build(self.embedding_dim, self._initial_std)
            own = head.kind.startswith("pooler")
            dense = self._source.trained_pooler(self.embedding_dim, head.kind == "pooler") if own else None
            if dense is not None:
                head.dense.load_state_dict(dense)
            head.to(self.device)
        self.head = head

    def spec(self, seed: int) -> EncoderSpec:
        """The encoder's description for `Objective.build`.

        Args:
            seed: of the run.
        """
        return EncoderSpec(
            embedding_dim=self.embedding_dim if self.head is None else self.head.dense.out_features,
            vector_dim=self.embedding_dim,
            hidden_size=self.hidden_size,
            layers=self.backbone.config.num_hidden_layers,
            vocab_size=self.vocab_size,
            pad_token_id=self.tokenize.pad_token_id,
            mask_token_id=self.tokenize.tokenizer.mask_token_id,
            frame=(len(self.tokenize.prefix), len(self.tokenize.suffix)),
            seed=seed,
        )

    def forward(self, tokens: TokenBatch, word_embeddings: Tensor | None = None, need: Need = Need()) -> EncoderOutput:
        """One pass over B sentences.

        Args:
            tokens: (B, L).
            word_embeddings: (B, L, W) in place of looking the tokens up (`look_up`), or None.
            need: outputs to compute beside the vectors (B, D).
        """
        return self._pass(tokens, word_embeddings, need)

    def set_compute(self, compute: Compute) -> None:
        """Run later passes in another way; changes of the backbone itself stay."""
        self._set("compute", compute)
        self._plan()

    def own(self, tokens: TokenBatch) -> Tensor:
        """(B, L) bool, the sentences' own tokens, without special tokens and the words of any prompt."""
        return self._around.own_tokens(tokens)

    def look_up(self, tokens: TokenBatch) -> Tensor:
        """Word embeddings (B, L, W) of the tokens, before positions, normalisation and dropout."""
        return self.backbone.get_input_embeddings()(tokens.input_ids)

    def __getstate__(self) -> dict[str, Any]:
        """For pickle, without the hooks of transformers, which makes them again."""
        remove_recorders(self.backbone)
        return dict(vars(self))

    def __deepcopy__(self, memo: dict[int, Any]) -> SentenceEncoder:
        """With these hooks: another thread may be in a pass."""
        memo[id(self)] = other = type(self).__new__(type(self))
        vars(other).update(copy.deepcopy(vars(self), memo))
        return other

    def evaluating(self) -> SentenceEncoder:
        """See `TextEncoder.evaluating`: in training a copy with the same tensors, since another thread may train."""
        if not any(module.training for module in self.modules()):
            return self
        shared = (self.tokenize, self._source, *self.parameters(), *self.buffers())
        return copy.deepcopy(self, {id(part): part for part in shared}).eval()

    def embed(self, tokens: TokenBatch) -> Tensor:
        """See `TextEncoder.embed`; no states of a layer are kept."""
        return self._pass.embed(tokens)

    def project(self, embedding: Tensor) -> Tensor:
        """The projection head on vectors, (B, D) → (B, D'); without a head, the vectors themselves."""
        return embedding if self.head is None else self.head(embedding)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a folder for sentrep, transformers and sentence-transformers (which refuses parts that it lacks).

        Raises:
            InputError: the folder cannot be written, or the encoder has code that no folder can hold.
        """
        check_storable(self)
        folders.write(self, Path(folder))

    def push_to_hub(self, repo_id: str, *, private: bool | None = None, token: str | None = None) -> str:
        """Upload the folder that `save_pretrained` writes; returns the address of the model."""
        check_storable(self)
        return folders.push(self, repo_id, private=private, token=token)

    @overload
    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        revision: str | None = None,
        trust_remote_code: bool = False,
        backend: Literal["torch"] = "torch",
        **overrides: Any,
    ) -> SentenceEncoder: ...

    @overload
    @classmethod
    def from_pretrained(
        cls, name: str | Path, *, trust_remote_code: bool = False, backend: Literal["onnx"]
    ) -> GraphEncoder: ...

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        revision: str | None = None,
        trust_remote_code: bool = False,
        backend: Literal["torch", "onnx"] = "torch",
        **overrides: Any,
    ) -> SentenceEncoder | GraphEncoder:
        """Load an encoder, pooling and prompt included, in evaluation mode.

        Args:
            name: as the constructor's ``backbone``.
            revision: branch, tag or commit of a hub's model; None for the main one.
            trust_remote_code: let the model run its own code.
            backend: ``onnx`` runs the graph of ``sentrep export --format onnx`` by onnxruntime on the CPU
                (`GraphEncoder`); it is fixed, and is for `encode`, not for training.
            overrides: constructor arguments that replace the stored ones.

        Raises:
            InputError: ``backend`` is ``onnx``, and the folder has no graph, or arguments would change the graph.
        """
        checks.one_of("from_pretrained", ("torch", "onnx"), backend=backend)
        if backend == "onnx":
            if revision is not None or overrides:
                fixed = ", ".join([*checks.given(revision=revision), *overrides])
                raise InputError(f"backend onnx runs the graph of a folder, which is fixed; leave out {fixed}")
            return GraphEncoder(name, trust_remote_code)
        backbone = {"name": str(name), "revision": revision, "trust_remote_code": trust_remote_code}
        source: Any = sources.open_source(backbone, whole=True)
        if source.settings is None and "pooling" not in overrides:
            warnings.warn(f"{name}: a plain transformers model, which carries no pooling; taking 'cls'", stacklevel=2)
        encoder = cls(source, **{**(source.settings or Settings()).arguments(), **overrides})
        encoder.init_args["backbone"] = backbone  # for checkpoints, which hold plain data
        encoder.trained = source.trained
        return encoder.eval()

    def _plan(self) -> None:
        """Build the pass of the present settings and modules."""
        self._pass = Pass(
            self.backbone, self.pooling, self._around, self.subtract_template, self.sentence_modules, self.compute
        )

    @property
    def longest(self) -> int:
        """Tokens of the longest training sequence."""
        ids = self.tokenize
        longest = self.max_length + (len(ids.prefix) + len(ids.suffix) if self.prompt is not None else 0)
        return longest if ids.limit is None else min(longest, ids.limit)

    def add_prompt(self, template: str) -> Callable[[TokenBatch], TokenBatch]:
        """See `EncoderServices.add_prompt`.

        Raises:
            InputError: for an encoder without a prompt of its own, a template without its slots, or one that leaves a
                sentence of training no room.
        """
        own, ids = self.tokenize, TextTokenizer(self.tokenize.tokenizer, template)
        if self.prompt is None:
            raise InputError(
                f"prompt {template!r} of some views needs another of the encoder's own: set model.encoder.prompt, by "
                "which the model is used after training"
            )
        frame = (len(own.prefix), len(own.suffix))
        longest = self.longest + len(ids.prefix) + len(ids.suffix) - sum(frame)
        if own.limit is not None and longest > own.limit:
            raise InputError(
                f"prompt {template!r} makes sentences of up to {longest} tokens, and the model reads at most "
                f"{own.limit}: lower model.encoder.max_length"
            )
        added = _template(ids)
        self._around = self._around.adding(added, longest)
        self._plan()
        return functools.partial(added.enclose, frame=frame, number=self._around.others.index(added) + 1)

    def language_model_head(self, seed: int) -> LanguageModelHead:
        """A new masked-LM head on this encoder's word embeddings (`EncoderServices.lm_head`).

        Args:
            seed: of weights that the model's source does not have.

        Raises:
            InputError: the backbone has no masked-LM head that can be used alone.
        """
        return language_model_head(self.backbone, self._source, seed)


def _template(ids: TextTokenizer) -> Template:
    """The special tokens around a sentence."""
    return Template(ids.prefix, ids.suffix, ids.pad_token_id, ids.mask_index)


def check_storable(encoder: SentenceEncoder) -> None:
    """Refuse an encoder that settings and weights do not describe completely, before training or export.

    Raises:
        InputError: for a foreign class, or a module whose arguments are not plain data.
    """
    if type(encoder) is not SentenceEncoder:
        raise InputError(
            f"{type(encoder).__name__} is a subclass of SentenceEncoder, whose code no checkpoint or folder holds: it "
            "would come back as another encoder; compose instead (pooling, head, objectives, views)"
        )
    encoder.tokenize.check_unchanged()
    described(encoder.sentence_modules)
