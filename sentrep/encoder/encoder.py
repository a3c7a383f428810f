"""`SentenceEncoder`: a transformer, a pooling and a tokenizer in one object."""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal, overload

from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import Tensor, nn

from sentrep import checks
from sentrep.config import Configurable
from sentrep.encoder.adapters import Lora
from sentrep.encoder.compute.plan import Compute, Pass, remove_recorders
from sentrep.encoder.compute.pooling import POOLINGS
from sentrep.encoder.compute.template import Prompts
from sentrep.encoder.encode import TextEncoder
from sentrep.encoder.freezing import make_trainable
from sentrep.encoder.graph import GraphEncoder
from sentrep.encoder.heads import ProjectionHead
from sentrep.encoder.loading import folders
from sentrep.encoder.loading.checks import check_rebuilds, check_tokenizer
from sentrep.encoder.loading.lm_head import LanguageModelHead, language_model_head
from sentrep.encoder.loading.model import Opened, open_model
from sentrep.encoder.modules import SentenceModule, chain, described
from sentrep.encoder.st_modules import (
    PromptedTransformer,
    assembled,
    check_pooling,
    from_modules,
    pooling_name,
    to_modules,
)
from sentrep.encoder.text.tokenizer import MASK_SLOT, Prompt, TextTokenizer, position_limit
from sentrep.errors import InputError
from sentrep.io.checkpoint_file import below
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
        prompt: a template such as ``"[X]" means [MASK].`` (quotes included), a `Prompt`, or None. Pooling ``mask``
            needs one with ``[MASK]``.
        max_length: longest sequence in training, in tokens; with a prompt, the length of the text alone.
        max_seq_length: the same for `encode`; None means the model's own limit.
        pretrained: False uses the architecture with random weights.
        tokenizer: folder or hub id of another tokenizer than the backbone's; ``toy`` is the embedded one.
        dropout: replaces every dropout rate of the backbone; None keeps its own.
        compute: how passes run (`Compute`): layout, GradCache, compilation.
        trainable: the trained part of the backbone: True for all of it, False for nothing, patterns of its parameters'
            names such as ``encoder.layer.1[01].*``, or low-rank matrices beside it (`Lora`). Frozen parts keep their
            dropout in training. A folder or checkpoint as ``backbone`` has its adapters merged.
        modules: modules of the model after the pooling, in this order (`sentrep.encoder.SentenceModule`). A module
            has the weights of an equal one in the same place of a checkpoint ``backbone``; else it is new.
            None: the modules of the checkpoint, or none.

    Attributes:
        model: the `SentenceTransformer` inside, whose own are prompts, `encode`, similarities, lengths and folders.

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
    _pass: Pass | None

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
        check_pooling(pooling)
        if pooling == "mask" and (template is None or MASK_SLOT not in template):
            raise InputError("pooling 'mask' needs a prompt with a [MASK], for example '\"[X]\" means [MASK].'")
        whole = isinstance(backbone, Opened)
        options: Any = {"tokenizer": tokenizer, "pretrained": pretrained, "dropout": dropout}
        options |= {"pooler": pooling == "pooler", "behind": modules is None}
        opened: Opened = backbone if whole else open_model(backbone, **options)  # type: ignore[assignment]
        self._st = (opened.model,)
        transformer, behind = _parts(opened.model)
        self.backbone: Any = transformer.auto_model
        pooler = getattr(self.backbone, "pooler", None)
        if pooler is None and pooling == "pooler":
            raise InputError(f"{opened.name} has no trained pooler; choose another pooling, or head.kind mlp")
        if pooler is not None and pooling != "pooler":
            pooler.requires_grad_(False)  # it stays with the model, and DDP waits for every trained parameter
        self.adapter = trainable if isinstance(trainable, Lora) else None
        if trainable is not True:  # some families have tables that are never trained
            make_trainable(self.backbone, trainable)
        tokens: Any = transformer.tokenizer
        check_tokenizer(tokens, self.vocab_size, opened.name, self.backbone)
        self.prompt = template
        self.tokenize = TextTokenizer(tokens, self.prompt, position_limit(self.backbone.config))
        self.max_length = max_length
        stored, limit = opened.model.max_seq_length, self.tokenize.limit
        if max_seq_length is not None:
            self.max_seq_length = max_seq_length
        elif limit is not None and (stored is None or stored > limit):  # RoBERTa's positions begin at 2
            self.max_seq_length = limit
        self.subtract_template = isinstance(prompt, Prompt) and prompt.subtract
        self.pooling, self.compute = pooling, compute
        self._around = Prompts(self.tokenize.template, self.longest)
        if modules is not None:
            found = _with_weights(chain(modules, self._pooled_size, self._initial_std), opened.state)
        else:
            found = from_modules(behind if whole or opened.training else [], self._pooled_size)
        self.set_modules(found)
        self.head: ProjectionHead | None = None
        self._source = replace(opened, state={})
        self.train()  # Lightning leaves from_pretrained's eval mode: SimCSE would see no dropout

    def __init_subclass__(cls) -> None:
        raise InputError(
            f"{cls.__name__} is a subclass of SentenceEncoder, whose code no checkpoint or folder would hold; compose "
            "instead (pooling, modules, head, objectives, views)"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse an attribute that later passes would not follow."""
        if name in _FIXED and hasattr(self, name):
            raise InputError(f"encoder.{name} cannot be set; {_FIXED[name]}")
        super().__setattr__(name, value)

    @property
    def include_prompt(self) -> bool:
        """Whether the pooling reads the tokens of a prompt."""
        model = self._st[0]
        return getattr(model[1], "include_prompt", True) if len(model) > 1 else True

    @property
    def training_settings(self) -> dict[str, Any]:
        """The settings that only training reads, which no folder has."""
        return {"max_length": self.max_length, "adapter": None if self.adapter is None else asdict(self.adapter)}

    @property
    def hidden_size(self) -> int:
        """H, the width of the token states and of the pooled vector."""
        return self.backbone.config.hidden_size

    @property
    def embedding_dim(self) -> int:
        """D, the width of `encode`'s vectors: the width of the last module, or H."""
        modules: Any = self.sentence_modules
        return modules[-1].out_features if len(modules) else self._pooled_size

    @property
    def _pooled_size(self) -> int:
        return self.hidden_size * len(self.pooling.split("+"))

    @property
    def _initial_std(self) -> float:
        return getattr(self.backbone.config, "initializer_range", 0.02)

    @property
    def vocab_size(self) -> int:
        """Number of word embeddings."""
        return len(self.backbone.get_input_embeddings().get_parameter("weight"))

    def set_modules(self, modules: Iterable[SentenceModule]) -> None:
        """Replace the modules after the pooling by other built modules."""
        former = self._st[0]
        self._pass = None
        super().__setattr__("sentence_modules", nn.ModuleList(modules).to(former.device))
        inside = to_modules(
            _parts(former)[0], self.pooling, self.include_prompt, self.prompt, self.subtract_template,
            list(self.sentence_modules),
        )  # fmt: skip
        self._st = (assembled(inside, former, str(former.device)),)
        self.init_args["modules"] = list(self.sentence_modules)  # for checkpoints, which build it again

    def attach_head(self, head: ProjectionHead | None) -> None:
        """Add a projection head for training after the vectors (`project`).

        Raises:
            InputError: for the kind ``pooler`` if the model has no trained pooler.
        """
        if head is not None:
            head.build(self.embedding_dim, self._initial_std)
            dense = self._trained_pooler()
            if head.kind.startswith("pooler") and dense is not None:
                head.dense.load_state_dict(dense)
            elif head.kind == "pooler" and not self._source.is_random:
                raise InputError(f"{self._source.name} has no trained pooler to start from; choose head.kind mlp")
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
        return self.plan()(tokens, word_embeddings, need)

    def set_compute(self, compute: Compute) -> None:
        """Run later passes in another way; changes of the backbone itself stay."""
        super().__setattr__("compute", compute)  # type: ignore[arg-type]
        self._pass = None

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
        """See `TextEncoder.evaluating`: in training, or with compiled layers, a copy with the same tensors.

        Another thread may train the encoder meanwhile, and each length of `encode` would compile the layers again.
        """
        # to ask every module for its mode would take 1 % of the time of one sentence
        if not (self.compute.compiles or self.training or self.backbone.training):
            return self
        words = self.tokenize
        shared = (words, words.tokenizer, self._source, *self.parameters(), *self.buffers())
        return copy.deepcopy(self, {id(part): part for part in shared}).eval()

    def project(self, embedding: Tensor) -> Tensor:
        """The projection head on vectors, (B, D) → (B, D'); without a head, the vectors themselves."""
        return embedding if self.head is None else self.head(embedding)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a folder for sentence-transformers, transformers and sentrep (`SentenceTransformer.save_pretrained`).

        Raises:
            InputError: the folder cannot be written, or would not describe the encoder.
        """
        check_writable(self)
        folders.write(self.model, Path(folder))

    def push_to_hub(self, repo_id: str, **options: Any) -> str:
        """Upload the folder that `save_pretrained` writes: `SentenceTransformer.push_to_hub`."""
        check_writable(self)
        return folders.merged(self.model).push_to_hub(repo_id, **options)

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
        if backend == "onnx":
            if revision is not None or overrides:
                fixed = ", ".join([*checks.given(revision=revision), *overrides])
                raise InputError(f"backend onnx runs the graph of a folder, which is fixed; leave out {fixed}")
            return GraphEncoder(cls.from_pretrained(name, trust_remote_code=trust_remote_code), name)
        backbone = {"name": str(name), "revision": revision, "trust_remote_code": trust_remote_code}
        read = {key: overrides.pop(key) for key in ("tokenizer", "dropout") if key in overrides}
        opened: Any = open_model(backbone, **read, behind=overrides.get("modules") is None)
        if not opened.pooled and "pooling" not in overrides:
            warnings.warn(f"{name}: a plain transformers model, which carries no pooling; taking 'cls'", stacklevel=2)
        encoder = cls(opened, **{**_stored_arguments(opened), **overrides})
        encoder.init_args.update(backbone=backbone, **read)  # for checkpoints, which hold plain data
        return encoder.eval()

    @classmethod
    def around(cls, model: SentenceTransformer, **arguments: Any) -> SentenceEncoder:
        """An encoder that trains a `SentenceTransformer`: the parameters are the same.

        Args:
            model: a Transformer, a Pooling, then Dense and Normalize.
            arguments: of the constructor, instead of the model's own.

        Raises:
            InputError: sentrep cannot train one of its modules.
        """
        transformer, _ = _parts(model)
        backbone: Any = transformer.auto_model
        name: str = backbone.config.name_or_path
        opened: Any = Opened(name, model, name or None, trusted=model.trust_remote_code)
        encoder = cls(opened, **{**_stored_arguments(opened), **arguments})
        encoder.init_args["backbone"] = name  # for checkpoints, which hold plain data
        return encoder

    def _trained_pooler(self) -> dict[str, Tensor] | None:
        """``weight`` (D, D) and ``bias`` (D,) of the layer before the pooler's tanh; None where there is none.

        A checkpoint of `sentrep fit` has the trained projection head's layer, or else its backbone's.
        """
        pooler = getattr(self.backbone, "pooler", None)
        dense = self._source.head or ({} if pooler is None or self._source.is_random else pooler.dense.state_dict())
        width = self.embedding_dim
        return dense if "weight" in dense and dense["weight"].shape == (width, width) else None

    def plan(self) -> Pass:
        """The pass of the present settings and modules, which is built when it is first asked for: `encode` needs none.

        Raises:
            InputError: for a pooling that sentrep cannot train.
        """
        if self._pass is None:
            if self.pooling not in POOLINGS:
                raise InputError(f"sentrep cannot train with the pooling {self.pooling!r}; name one pooling")
            self._pass = Pass(
                self.backbone, self.pooling, self._around, self.subtract_template, self.sentence_modules, self.compute
            )
        return self._pass

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
        if self.pooling == "mask" and ids.mask_index is None:
            raise InputError(f"prompt {template!r} of some views needs {MASK_SLOT}, which the pooling reads")
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
        added = ids.template
        self._around = self._around.adding(added, longest)
        self._pass = None
        return functools.partial(added.enclose, frame=frame, number=self._around.others.index(added) + 1)

    def language_model_head(self, seed: int) -> LanguageModelHead:
        """A new masked-LM head on this encoder's word embeddings (`EncoderServices.lm_head`).

        Args:
            seed: of weights that the model's source does not have.

        Raises:
            InputError: the backbone has no masked-LM head that can be used alone.
        """
        return language_model_head(self.backbone, self._source, seed)


def _parts(model: SentenceTransformer) -> tuple[Transformer, list[nn.Module]]:
    """The transformer, and the modules after the pooling.

    Raises:
        InputError: for a model that does not begin so.
    """
    first, *rest = model.children()
    if isinstance(first, PromptedTransformer):
        return first.transformer, rest
    if not isinstance(first, Transformer) or not rest or not isinstance(rest[0], Pooling):
        kinds = ", ".join(type(module).__name__ for module in model.children())
        raise InputError(f"the modules of the model are {kinds}; sentrep needs a Transformer and a Pooling first")
    return first, rest[1:]


def _with_weights(modules: list[SentenceModule], state: dict[str, Tensor]) -> list[SentenceModule]:
    """The modules, each with the weights of an equal module of a checkpoint at the same place."""
    for place, module in enumerate(modules):
        weights, own = below(f"sentence_modules.{place}.", state), module.state_dict()
        if {key: x.shape for key, x in weights.items()} == {key: x.shape for key, x in own.items()}:
            module.load_state_dict(weights)
    return modules


def _stored_arguments(opened: Opened) -> dict[str, Any]:
    """The arguments of `SentenceEncoder` that came with a model, but for the modules."""
    _parts(opened.model)
    first, found = opened.model[0], dict[str, Any]()
    if isinstance(first, PromptedTransformer):
        found["pooling"] = first.pooling
        found["prompt"] = None if first.prompt is None else Prompt(first.prompt, first.subtract_template)
    else:
        pooling: Any = opened.model[1]
        found["pooling"] = pooling_name(pooling)
    if opened.training:
        found["max_length"] = opened.training["max_length"]
    return found


def check_writable(encoder: SentenceEncoder) -> None:
    """Refuse an encoder that its files would not describe completely, before training or export.

    Raises:
        InputError: for a tokenizer that has changed, a module whose arguments are not plain data, or a weight of the
            backbone without a place in its configuration.
    """
    encoder.tokenize.check_unchanged()
    described(encoder.sentence_modules)
    if not encoder._source.trusted:
        check_rebuilds(encoder.backbone, encoder.adapter is not None)
