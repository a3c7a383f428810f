"""`SentenceEncoder`: a transformer, a pooling and how text becomes tokens, in one object."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sentrep.config import Configurable
from sentrep.encoder import encode as encoding
from sentrep.encoder.arguments import check_arguments
from sentrep.encoder.compute import compiled, forward
from sentrep.encoder.compute.attention import use_own_attention
from sentrep.encoder.compute.dropout import use_fast_dropout
from sentrep.encoder.compute.last_layer import LastLayer, can_leave_out
from sentrep.encoder.compute.packed import one_row
from sentrep.encoder.compute.passes import training_pass
from sentrep.encoder.heads import ProjectionHead, check_kept
from sentrep.encoder.loading import folders, sources
from sentrep.encoder.loading.checks import check_tokenizer
from sentrep.encoder.loading.lm_head import HeadOrigin
from sentrep.encoder.loading.tokenizers import load_tokenizer
from sentrep.encoder.specification import specification
from sentrep.encoder.text.tokenizer import TextTokenizer
from sentrep.functional import cosine_similarity_matrix
from sentrep.functional.similarity import unit
from sentrep.types import EncoderOutput, EncoderSpec, TokenBatch


class SentenceEncoder(Configurable, nn.Module):
    """Encodes sentences as vectors with any transformers encoder.

    Args:
        backbone: a hub id; a folder (transformers, sentence-transformers or ours); a checkpoint of `sentrep fit`; or a
            transformers configuration as a dict with ``model_type``, for random weights.
        pooling: one of `sentrep.encoder.POOLINGS`.
        prompt: a template such as ``"[X]" means [MASK].`` (quotes included), or None. Needed by pooling ``mask``.
        subtract_template: take off the vector of the prompt alone (PromptBERT); costs a pass over a row per length.
        max_length: longest sequence in training, in tokens; with a prompt, the length of the text alone.
        max_seq_length: the same for `encode`; None means the model's own limit.
        pretrained: False takes the architecture with random weights.
        tokenizer: folder or hub id of another tokenizer than the backbone's; ``toy`` is the embedded one.
        dropout: replaces every dropout rate of the backbone; None keeps its own.
        normalize: scale vectors to length 1 in `encode`.
        chunks: groups of like length in which a batch is computed (`encoder.compute.layouts`), for less padding and the
            same result. None: 8 on a CPU, or 4 where every layer has to run group by group; 1 elsewhere.
        packed: compute no padding at all (`encoder.compute.packed`), where the family allows it; the same result.
        fast_dropout: on a CPU, cheaper dropout masks and attention (`encoder.compute.dropout`); elsewhere torch's.
        pooled_token_only: where nothing reads the other tokens, end the last layer for the pooled token alone.
        revision: branch, tag or commit on the hub.
        trust_remote_code: let the hub's model run its own code.

    Raises:
        InputError: for anything that cannot be found or does not fit together.
    """

    def __init__(
        self,
        backbone: str | dict[str, Any],
        pooling: str = "cls",
        prompt: str | None = None,
        max_length: int = 32,
        max_seq_length: int | None = None,
        pretrained: bool = True,
        tokenizer: str | None = None,
        dropout: float | None = None,
        normalize: bool = False,
        chunks: int | None = None,
        fast_dropout: bool = True,
        pooled_token_only: bool = True,
        revision: str | None = None,
        trust_remote_code: bool = False,
        subtract_template: bool = False,
        packed: bool = False,
    ) -> None:
        super().__init__()
        check_arguments(self.init_args)
        source = sources.open_source(backbone, revision, trust_remote_code)
        self.backbone = sources.load_backbone(source, pretrained, dropout, pooler=pooling == "pooler")
        self.last_layer = LastLayer(self.backbone) if can_leave_out(self.backbone) else None
        own_attention = use_own_attention(self.backbone)
        if fast_dropout:
            use_fast_dropout(self.backbone)
        own = load_tokenizer(source, tokenizer)
        check_tokenizer(own, self.vocab_size, source.name)
        self.tokenize = TextTokenizer(own, prompt, sources.position_limit(self.backbone))
        self.pooling, self.prompt, self.subtract_template = pooling, prompt, subtract_template
        self.max_length, self.max_seq_length = max_length, max_seq_length
        self.normalize, self.chunks, self.pooled_token_only = normalize, chunks, pooled_token_only
        self.cache_gradients(None)
        self.compile_mode: compiled.Mode | None = None
        self.compiles_encoding = False
        self.packed, self.joins_groups = one_row(self, own_attention, packed)
        self.head: ProjectionHead | None = None
        self._lm_head_origin = HeadOrigin.of(source, pretrained)
        if pretrained and source.state is not None:
            folders.restore(self, source)
        self.train()  # Lightning leaves from_pretrained's eval mode: SimCSE would see no dropout

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
        """D, the width of what `encode` gives: that of a head that is kept, else H."""
        return self.hidden_size if self.head is None or not self.head.keep else self.head.dense.out_features

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

    def attach_head(self, head: ProjectionHead | None) -> None:
        """Put a projection head behind the pooling (`project`). One that is kept is a `ProjectionHead` itself."""
        if head is not None:
            check_kept(head)
            head.build(self.hidden_size, getattr(self.backbone.config, "initializer_range", 0.02))
            head.to(self.device)
        self.head = head

    def spec(self, seed: int) -> EncoderSpec:
        """What objectives need to know when they create their tensors."""
        return specification(self, self._lm_head_origin, seed)

    def forward(self, tokens: TokenBatch, word_embeddings: Tensor | None = None) -> EncoderOutput:
        """One pass over B sentences: pooled vector (B, H), token states (B, L, H), embedding-layer output (B, L, E).

        ``word_embeddings`` (B, L, W), where given, take the place of looking the tokens up (`look_up`).
        """
        return training_pass(self, tokens, word_embeddings)

    def cache_gradients(self, chunk: int | None, keep_tokens: bool = True) -> None:
        """Run with the activations of at most ``chunk`` rows at a time (`sentrep.encoder.compute.chunks`) from now on.

        Args:
            chunk: rows, all views of a sentence counted; None for the plain pass.
            keep_tokens: whether token states and embedding-layer output are still wanted.
        """
        self.grad_cache_chunk = chunk
        self.keeps_tokens = keep_tokens

    def compile_training(self, mode: compiled.Mode) -> None:
        """From now on run `forward` through `torch.compile` (`sentrep.encoder.compute.compiled`); not `encode`."""
        compiled.check_encoder(self)
        self.compile_mode = mode

    def compile_encoding(self) -> None:
        """From now on run `encode` through `torch.compile`; worth it for text that takes many minutes on a GPU."""
        compiled.check_encoder(self)
        self.compiles_encoding = True

    def look_up(self, tokens: TokenBatch) -> Tensor:
        """Word embeddings (B, L, W) of the tokens, before positions, normalisation and dropout."""
        return self.backbone.get_input_embeddings()(tokens.input_ids)

    def pool(self, tokens: TokenBatch) -> Tensor:
        """Pooled vectors (B, H) alone, without keeping the states of every layer."""
        return forward.pooled_alone(self, tokens)

    def project(self, embedding: Tensor) -> Tensor:
        """The projection head on pooled vectors, (B, H) → (B, D); the vectors themselves where there is no head."""
        return embedding if self.head is None else self.head(embedding)

    def encode(
        self,
        sentences: str | Sequence[str],
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
    ) -> np.ndarray | Tensor | list[Tensor]:
        """Vectors of sentences, in evaluation mode; names and defaults as in sentence-transformers.

        Args:
            sentences: one sentence, or any number of them.
            batch_size: sentences of average length in one forward pass; of shorter ones there are more.
            show_progress_bar: None shows it when logging is at INFO or below.
            convert_to_numpy: return one numpy array.
            convert_to_tensor: return one tensor on the encoder's device; takes precedence.
            normalize_embeddings: scale every vector to length 1.
            truncate_dim: keep the first so many dimensions (before scaling).

        Returns:
            (n, D) float32; (D,) for a single sentence; a list of n tensors when neither conversion is wanted.

        Raises:
            InputError: for anything in ``sentences`` that is not a string, or is no valid Unicode.
        """
        single = isinstance(sentences, str)
        vectors = encoding.encode(self, encoding.as_list(sentences), batch_size, show_progress_bar)
        if truncate_dim is not None:
            vectors = vectors[:, :truncate_dim]
        if normalize_embeddings or self.normalize:
            vectors = unit(vectors)
        found = vectors[0] if single else vectors
        if convert_to_tensor:
            return found.to(self.device)
        if convert_to_numpy:
            return found.numpy()
        return found if single else list(vectors)

    def pairwise_cosine(
        self, first: Sequence[str], second: Sequence[str], batch_size: int = 32, show_progress_bar: bool | None = None
    ) -> Tensor:
        """Cosine of P sentence pairs, (P,) float32 on the CPU; every distinct sentence is encoded once."""
        return encoding.pairwise_cosine(
            lambda distinct: encoding.encode(self, distinct, batch_size, show_progress_bar), first, second
        )

    def similarity(self, embeddings1: np.ndarray | Tensor, embeddings2: np.ndarray | Tensor) -> Tensor:
        """Cosine of all pairs: (n, D), (m, D) → (n, m)."""
        return cosine_similarity_matrix(torch.as_tensor(embeddings1), torch.as_tensor(embeddings2))

    def similarity_pairwise(self, embeddings1: np.ndarray | Tensor, embeddings2: np.ndarray | Tensor) -> Tensor:
        """Cosine of row i with row i: (n, D), (n, D) → (n,)."""
        return (unit(torch.as_tensor(embeddings1)) * unit(torch.as_tensor(embeddings2))).sum(-1)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a folder that sentrep, transformers and sentence-transformers load, or the last refuses."""
        folders.save(self, Path(folder))

    def push_to_hub(self, repo_id: str, *, private: bool | None = None, token: str | None = None) -> str:
        """Upload the folder that `save_pretrained` writes; returns the address of the model."""
        return folders.push(self, repo_id, private=private, token=token)

    @classmethod
    def from_pretrained(cls, name: str | Path, **overrides: Any) -> SentenceEncoder:
        """Load an encoder, pooling and prompt included, in evaluation mode.

        ``name`` is what the constructor takes as ``backbone``; ``overrides`` replace arguments that are stored there.
        """
        return folders.load(cls, str(name), overrides).eval()
