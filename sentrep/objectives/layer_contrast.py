"""The sentence vector, contrasted with the layers of the encoder that training began with (SG-OPT)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sentrep import checks, distributed
from sentrep.encoder import EncoderServices
from sentrep.errors import InputError
from sentrep.functional.similarity import at_least_float32, unit
from sentrep.objectives.base import Objective, between, draw_weights
from sentrep.random import own_draws
from sentrep.types import EncoderSpec, Need, TextBatch, TokenBatch, Views


class LayerContrast(Objective):
    """Self-guided contrast (SG-OPT, Kim et al. 2021): a vector should be near a frozen copy's layers.

        ℓ_ik = −log  φ(c_i, h_ik) / ( φ(c_i, h_ik) + Σ_{j≠i} Σ_l φ(c_i, h_jl) ),   φ(x, y) = exp(cos(f(x), f(y)) / τ)

        L = mean_ik ℓ_ik + λ ‖θ_T − θ_F‖²

    Kim, Yoo, Lee: Self-Guided Contrastive Learning for BERT Sentence Representations, ACL 2021. c_i is the anchor's
    pooled vector before any projection head of the model. h_ik is the mean of the token states (special tokens
    included) after layer k of BERT_F, a frozen copy of the start encoder without dropout; k = 0
    is the embedding layer. j runs over the sentences of all processes. f is a separate projection of two layers with
    GELU. θ are all weights of both BERTs.

    This is the paper's optimised loss. Unlike NT-Xent, it does not push sentence vectors from each other, layer states
    from anything, or the layers of one sentence apart. It uses all layers instead of sampling one per sentence.

    Metrics: ``distance``, ‖θ_T − θ_F‖².

    Args:
        temperature: τ > 0.
        regularisation: λ ≥ 0.
        projection: width of both layers of f.

    Raises:
        InputError: for values out of range, and for a batch of one sentence.

    Examples:
        >>> from sentrep import SentenceEncoder, SentRepModule
        >>> from sentrep.objectives import LayerContrast
        >>> small = {"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> module = SentRepModule(SentenceEncoder(small, tokenizer="toy"), [LayerContrast(projection=8)])
        >>> sorted(module.objectives.terms)
        ['layercontrast']
    """

    reads_tokens = False

    def __init__(self, temperature: float = 0.01, regularisation: float = 0.1, projection: int = 4096) -> None:
        super().__init__()
        checks.positive(self, temperature=temperature)
        checks.not_negative(self, regularisation=regularisation)
        self.temperature = temperature
        self.regularisation = regularisation
        self.projection = projection

    def build(self, spec: EncoderSpec, services: EncoderServices) -> None:
        """Copy the encoder, and create the projection."""
        self.guide: Any = services.copy()
        self.layers = tuple(range(spec.layers + 1))
        self.backbone_parameters = services.backbone_parameters
        self.rows = services.rows_at_once
        with own_draws(spec.seed, spec.name, "layer_contrast"):
            self.enter = between(spec.vector_dim, spec.hidden_size)
            first, second = nn.Linear(spec.hidden_size, self.projection), nn.Linear(self.projection, self.projection)
            self.project = nn.Sequential(first, nn.GELU(), second, nn.GELU())
            draw_weights(self.project)

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        """See the class; the mean is over this process's sentences."""
        parts = [batch.anchor] if self.rows is None else batch.anchor.split(self.rows)
        guides = distributed.gather(self.project(torch.cat([self._layers(part) for part in parts])))
        if len(guides) == 1:
            raise InputError("a batch of one sentence has nothing to contrast with: raise data.batch_size")
        vectors = self.project(self.enter(views.anchor_output.embedding))
        with torch.autocast(vectors.device.type, enabled=False):
            similar = torch.einsum("bd,nkd->bnk", unit(vectors), unit(guides)) / self.temperature
        own = distributed.own_rows(len(similar), similar.device)[:, None, None].expand(-1, 1, similar.shape[2])
        near = similar.gather(1, own).squeeze(1)
        far = similar.scatter(1, own, -torch.inf).flatten(1).logsumexp(1, keepdim=True)
        pairs = zip(self.backbone_parameters(), self.guide.encoder.backbone.parameters(), strict=True)
        moves = [at_least_float32(now - before) for now, before in pairs]
        distance = torch.stack([move.square().sum() for move in moves]).sum()
        self.metrics = {"distance": distance.detach()}
        return F.softplus(far - near).mean() + self.regularisation * distance

    def _layers(self, tokens: TokenBatch) -> Tensor:
        """(B, K, H), the mean state of each sentence behind each layer of the guide."""
        real = tokens.attention_mask[:, :, None]
        layers = self.guide(tokens, need=Need(False, self.layers)).layers.values()
        return torch.stack([(states * real).sum(1) / real.sum(1) for states in layers], dim=1)
