"""`SentenceEncoder`: a transformer, a pooling and how text becomes tokens, in one object."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sentrep.config import Configurable
from sentrep.encoder import adapters
from sentrep.encoder.adapters import Lora
from sentrep.encoder.arguments import check_arguments
from sentrep.encoder.compute.compiled import check_compiler
from sentrep.encoder.compute.plan import Compute, Readout, plan
from sentrep.encoder.compute.template import Template
from sentrep.encoder.copies import copier
from sentrep.encoder.encode import TextEncoder
from sentrep.encoder.freezing import freeze
from sentrep.encoder.heads import ProjectionHead
from sentrep.encoder.loading import folders, sources
from sentrep.encoder.loading.lm_head import HeadOrigin, language_model_head
from sentrep.encoder.loading.pooler import pooler_weights
from sentrep.encoder.loading.soundness import check_tokenizer
from sentrep.encoder.loading.sources import Hub
from sentrep.encoder.loading.tokenizers import load_tokenizer
from sentrep.encoder.loading.trained import Trained
from sentrep.encoder.modules import Normalize, SentenceModule, chain, described
from sentrep.encoder.text.tokenizer import Prompt, TextTokenizer
from sentrep.errors import InputError
from sentrep.types import EncoderOutput, EncoderSpec, Need, TokenBatch


class SentenceEncoder(Configurable, TextEncoder, nn.Module):
    """Encodes sentences as vectors with any transformers encoder.

    Args:
        backbone: a hub id; a folder (transformers, sentence-transformers or ours); a checkpoint of `sentrep fit`; or a
            transformers configuration as a dict with ``model_type``, for random weights.
        pooling: one of `sentrep.encoder.POOLINGS`.
        prompt: a template such as ``"[X]" means [MASK].`` (quotes included), a `Prompt`, or None. Needed by pooling
            ``mask``.
        max_length: longest sequence in training, in tokens; with a prompt, the length of the text alone.
        max_seq_length: the same for `encode`; None means the model's own limit.
        pretrained: False takes the architecture with random weights.
        tokenizer: folder or hub id of another tokenizer than the backbone's; ``toy`` is the embedded one.
        dropout: replaces every dropout rate of the backbone; None keeps its own.
        hub: revision of a hub's model, and whether its code is trusted (`Hub`).
        compute: how passes run (`Compute`): layout, GradCache, compilation.
        trainable: which parameters of the backbone are trained: True for all (with an adapter, for that alone), False
            for none, or patterns of their names as ``encoder.layer.1[01].*``, trained beside an adapter. Frozen parts
            keep their dropout in training.
        adapter: trains low-rank matrices beside the backbone's own (`Lora`); None for none. A folder holds the merged
            weights, a checkpoint both; another adapter than the checkpoint's begins beside the merged ones.
        modules: what follows the pooling and belongs to the model, in this order (`sentrep.encoder.SentenceModule`).
            None: where ``backbone`` is a checkpoint, what it has; else nothing.

    Attributes:
        prompts: what stands before a text, by name, as in sentence-transformers: ``query`` for `encode_query`,
            ``document`` (or ``passage``, ``corpus``) for `encode_document`. Training and `encode` take none. They come
            with a model, and may be set.

    Raises:
        InputError: for anything that cannot be found or does not fit together.
    """

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
        hub: Hub = Hub(),
        compute: Compute = Compute(),
        trainable: bool | list[str] = True,
        adapter: Lora | None = None,
        modules: list[SentenceModule] | None = None,
    ) -> None:
        super().__init__()
        check_arguments(self.init_args)
        source = sources.open_source(backbone, hub)
        self.backbone = sources.load_backbone(source, pretrained, dropout, pooler=pooling == "pooler")
        self.spare_pooler = source.pooler
        self.adapter = adapter
        if adapter is not None:
            adapters.inject(self.backbone, adapter)
        freeze(self.backbone, trainable, adapter is not None)
        own = load_tokenizer(source, tokenizer)
        check_tokenizer(own, self.vocab_size, source.name)
        template = prompt.template if isinstance(prompt, Prompt) else prompt
        self.tokenize = TextTokenizer(own, template, sources.position_limit(self.backbone))
        self.prompt = template
        self.prompts: dict[str, str] = {}
        self.max_length, self.max_seq_length = max_length, max_seq_length
        self.trained: Trained | None = None  # of a checkpoint that it was loaded from
        subtracts = isinstance(prompt, Prompt) and prompt.subtract
        self._pass = plan(self.backbone, self._readout(pooling, subtracts), compute)
        if modules is None:
            modules = folders.modules_of(source, hub.trust_remote_code) if pretrained else []
        self.set_modules(chain(modules, self.hidden_size, self._initial_std))
        self.head: ProjectionHead | None = None
        self._head_origin = HeadOrigin.of(source, pretrained)
        if pretrained and source.state is not None:
            folders.restore(self, source)
        self.train()  # Lightning leaves from_pretrained's eval mode: SimCSE would see no dropout

    @property
    def pooling(self) -> str:
        """One of `sentrep.encoder.POOLINGS`."""
        return self._pass.readout.pooling

    @property
    def subtract_template(self) -> bool:
        """Whether the prompt's own vector is taken off."""
        return self._pass.readout.subtracts

    @property
    def compute(self) -> Compute:
        """How passes run."""
        return self._pass.compute

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
        """D, the width of what `encode` gives: that of the last module, or H."""
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
        return len(self.backbone.get_input_embeddings().weight)  # type: ignore[arg-type]

    @property
    def has_dropout(self) -> bool:
        """Whether two passes over one sentence can differ in training."""
        rates = [module.p for module in self.backbone.modules() if isinstance(module, nn.Dropout)]
        attention = getattr(self.backbone.config, "attention_probs_dropout_prob", 0.0)
        return max([*rates, attention or 0.0]) > 0

    def set_modules(self, modules: Iterable[SentenceModule]) -> None:
        """Let modules that are built already follow the pooling, in the place of those that do.

        Raises:
            InputError: for one that is made for another vocabulary.
        """
        self.sentence_modules = nn.ModuleList(modules).to(self.device)
        for module in self.sentence_modules:
            if module.vocabulary not in (None, self.vocab_size):
                known = f"vocabulary {module.vocabulary}, and the model has {self.vocab_size} tokens"
                raise InputError(f"encoder.modules: {type(module).__name__} is made for a {known}")
        self._pass.modules = self.sentence_modules
        self.init_args["modules"] = list(self.sentence_modules)  # for checkpoints, which build it again

    def attach_head(self, head: ProjectionHead | None) -> None:
        """Put a projection head for training behind the vectors (`project`).

        Raises:
            InputError: for one of kind ``pooler`` where the model has no trained pooler.
        """
        if head is not None:
            head.build(self.embedding_dim, self._initial_std)
            weights = pooler_weights(self._head_origin, self.embedding_dim) if head.kind == "pooler" else None
            if weights is not None:
                head.dense.load_state_dict(weights)
            head.to(self.device)
        self.head = head

    def spec(self, seed: int) -> EncoderSpec:
        """What objectives need to know when they create their tensors; the masked-LM head is made when first asked for.

        Args:
            seed: of the run.
        """
        tokenizer = self.tokenize.tokenizer
        return EncoderSpec(
            embedding_dim=self.embedding_dim if self.head is None else self.head.dense.out_features,
            hidden_size=self.hidden_size,
            vector_dim=self.embedding_dim,
            modules=tuple(self.sentence_modules),
            input_embedding_dim=self.hidden_size,
            vocab_size=self.vocab_size,
            pad_token_id=self.tokenize.pad_token_id,
            mask_token_id=tokenizer.mask_token_id,
            special_token_ids=tuple(tokenizer.all_special_ids),
            vocabulary=self.tokenize.vocabulary,
            seed=seed,
            frame=(len(self.tokenize.prefix), len(self.tokenize.suffix)),
            longest=self._longest,
            rows_at_once=self.compute.rows_at_once,
            layers=self.backbone.config.num_hidden_layers,
            backbone_parameters=self.backbone.parameters,
            word_starts=lambda: self.tokenize.word_starts(self.vocab_size),
            lm_head=functools.cache(lambda: language_model_head(self.backbone, self._head_origin, seed)),
            project=self.project,
            copy_encoder=copier(self),
            add_prompt=self._add_prompt,
        )

    def forward(self, tokens: TokenBatch, word_embeddings: Tensor | None = None, need: Need = Need()) -> EncoderOutput:
        """One pass over B sentences.

        Args:
            tokens: (B, L).
            word_embeddings: (B, L, W) in place of looking the tokens up (`look_up`), or None.
            need: what is read of the output beside the vectors (B, D); nothing else is made.
        """
        return self._pass(tokens, word_embeddings, need)

    def compile_encoding(self) -> None:
        """From now on run `encode` through `torch.compile`; worth it for text that takes many minutes on a GPU."""
        check_compiler(self.device.type)
        self._pass.compute = replace(self.compute, compile="encode")

    def own(self, tokens: TokenBatch) -> Tensor:
        """(B, L) bool, the tokens of the sentences themselves, whichever of its prompts they stand in."""
        return self._pass.readout.own(tokens)

    def look_up(self, tokens: TokenBatch) -> Tensor:
        """Word embeddings (B, L, W) of the tokens, before positions, normalisation and dropout."""
        return self.backbone.get_input_embeddings()(tokens.input_ids)

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """See `TextEncoder.evaluating`; setting a mode that is on, twice, would cost a fifth of one sentence."""
        was_training = self.training
        if not any(module.training for module in self.modules()):
            yield
            return
        self.eval()
        try:
            yield
        finally:
            self.train(was_training)

    def embed(self, tokens: TokenBatch) -> Tensor:
        """See `TextEncoder.embed`; no states of a layer are kept."""
        return self._pass.embed(tokens)

    def project(self, embedding: Tensor) -> Tensor:
        """The projection head on vectors, (B, D) → (B, D'); the vectors themselves where there is no head."""
        return embedding if self.head is None else self.head(embedding)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a folder that sentrep, transformers and sentence-transformers load, or the last refuses.

        Raises:
            InputError: the folder cannot be one, or the encoder holds code that no folder holds.
        """
        check_storable(self)
        folders.save(self, Path(folder))

    def push_to_hub(self, repo_id: str, *, private: bool | None = None, token: str | None = None) -> str:
        """Upload the folder that `save_pretrained` writes; returns the address of the model."""
        check_storable(self)
        return folders.push(self, repo_id, private=private, token=token)

    @classmethod
    def from_pretrained(
        cls, name: str | Path, *, revision: str | None = None, trust_remote_code: bool = False, **overrides: Any
    ) -> SentenceEncoder:
        """Load an encoder, pooling and prompt included, in evaluation mode.

        Args:
            name: what the constructor takes as ``backbone``.
            revision: see `Hub`.
            trust_remote_code: see `Hub`.
            overrides: replace arguments of the constructor that are stored there.
        """
        return folders.load(cls, str(name), Hub(revision, trust_remote_code), overrides).eval()

    def _readout(self, pooling: str, subtracts: bool) -> Readout:
        """What is read of the backbone's states."""
        ids = self.tokenize
        return Readout(
            pooling=pooling,
            prompts=(Template(ids.prefix, ids.suffix, ids.pad_token_id, ids.mask_index),),
            subtracts=subtracts,
            pad_token_id=ids.pad_token_id,
            longest=self._longest,
        )

    @property
    def _longest(self) -> int:
        """Tokens of the longest training sequence."""
        ids = self.tokenize
        longest = self.max_length + (len(ids.prefix) + len(ids.suffix) if self.prompt is not None else 0)
        return longest if ids.limit is None else min(longest, ids.limit)

    def _add_prompt(self, template: str) -> Callable[[TokenBatch], TokenBatch]:
        """See `EncoderSpec.add_prompt`.

        Raises:
            InputError: for an encoder without a prompt of its own, a template without its slots, or one that leaves a
                sentence of training no room.
        """
        own, ids, readout = self.tokenize, TextTokenizer(self.tokenize.tokenizer, template), self._pass.readout
        if self.prompt is None:
            raise InputError(
                f"prompt {template!r} of some views needs another of the encoder's own: set model.encoder.prompt, by "
                "which the model is used after training"
            )
        frame = (len(own.prefix), len(own.suffix))
        longest = self._longest + len(ids.prefix) + len(ids.suffix) - sum(frame)
        if own.limit is not None and longest > own.limit:
            raise InputError(
                f"prompt {template!r} makes sentences of up to {longest} tokens, and the model reads at most "
                f"{own.limit}: lower model.encoder.max_length"
            )
        added = Template(ids.prefix, ids.suffix, ids.pad_token_id, ids.mask_index)
        prompts = readout.prompts if added in readout.prompts[1:] else (*readout.prompts, added)
        self._pass.readout = replace(readout, prompts=prompts, longest=max(longest, readout.longest))
        return functools.partial(added.enclose, frame=frame, number=prompts.index(added, 1))


def check_storable(encoder: SentenceEncoder) -> None:
    """Refuse an encoder, before it is trained or exported, of which settings and weights are not everything.

    Raises:
        InputError: for a class of its own, or a module with arguments that cannot be written down.
    """
    if type(encoder) is not SentenceEncoder:
        raise InputError(
            f"{type(encoder).__name__} is a subclass of SentenceEncoder, whose code no checkpoint or folder holds: it "
            "would come back as another encoder; compose instead (pooling, head, objectives, views)"
        )
    described(encoder.sentence_modules)
