"""Masked tokens, predicted from the sentence vector and a lower layer (InfoCSE)."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from sentrep import checks
from sentrep.encoder import EncoderServices
from sentrep.objectives.base import Objective, between, draw_weights
from sentrep.objectives.masked_language_modeling import KEY, MaskedLanguageModeling
from sentrep.random import own_draws
from sentrep.types import EncoderOutput, EncoderSpec, TextBatch, TokenBatch, Views


class InformationReconstruction(Objective):
    """Masked language modelling that needs the sentence vector (InfoCSE, Wu et al. 2022).

        L = −(1/m) Σ_k log p(x_k | h, S^l(x̂)),   p = softmax(head(Aux([h, sg S^l_2(x̂), …, sg S^l_L(x̂)])_k))

    Wu, Gao, Lin, Han, Wang, Hu: InfoCSE: Information-aggregated Contrastive Learning of Sentence Embeddings, EMNLP
    2022. x̂ is the sentence x with a share of its tokens masked (`MaskedLanguageModeling`), S^l the states of the
    encoder's l-th layer and h the vector of the whole sentence, in the first token's place. Aux is a Transformer of a
    few post-norm layers, trained with the masked-LM head. It is so small that it needs h, and sg stops the
    gradient: the encoder is trained only through h (and the word embeddings, which the head shares). Add it to
    `Contrastive` with a small weight.

    **Departures.** In the paper h is the [CLS] state; here it is the anchor's pooled vector before the projection
    head, for any pooling. The authors' code starts Aux from Condenser's trained layers, and encodes x̂ by a second,
    frozen BERT of 6 layers; here Aux starts from random weights, and S^l are states of the trained encoder, in the
    shared pass.

    Metrics: ``accuracy``, the share of the masked tokens that are predicted correctly.

    Args:
        layer: l, from 0, the embedding layer; None for the middle layer, as the paper's 6 of 12.
        layers: of Aux; the authors' code has 2.
        heads: attention heads of Aux.
        feed_forward: width of its hidden layers.
        dropout: of Aux.
        probability: share of the tokens that are masked, in (0, 1); 0.4 in the authors' code.

    Raises:
        InputError: for values out of range, for heads that do not divide the width, for a layer that the encoder does
            not have, and for a tokenizer without a mask token.

    Examples:
        >>> from sentrep import SentenceEncoder, SentRepModule
        >>> from sentrep.objectives import InformationReconstruction
        >>> small = {"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> module = SentRepModule(SentenceEncoder(small, tokenizer="toy"), [InformationReconstruction(heads=2)])
        >>> sorted(module.objectives.terms)
        ['informationreconstruction']
    """

    reads_tokens = False

    def __init__(
        self,
        layer: int | None = None,
        layers: int = 2,
        heads: int = 12,
        feed_forward: int = 3072,
        dropout: float = 0.1,
        probability: float = 0.4,
    ) -> None:
        super().__init__()
        checks.at_least(self, 0, **checks.given(layer=layer))
        checks.at_least(self, 1, layers=layers, heads=heads)
        checks.share(self, dropout=dropout)
        checks.within(self, 0, 1 - 1e-9, open_below=True, probability=probability)
        self.masking = MaskedLanguageModeling(probability)

    def build(self, spec: EncoderSpec, services: EncoderServices) -> None:
        """Create the auxiliary network, and take the encoder's masked-LM head."""
        width, settings = spec.hidden_size, self.init_args
        checks.divides(self, width, "the encoder's width", heads=settings["heads"])
        self.reads_layers = (spec.layers // 2 if settings["layer"] is None else settings["layer"],)
        self.masking.build(spec, services)
        with own_draws(spec.seed, spec.name, "information_reconstruction"):
            self.enter = between(spec.vector_dim, width)
            layers = [
                nn.TransformerEncoderLayer(
                    width, settings["heads"], settings["feed_forward"], settings["dropout"], "gelu", batch_first=True
                )
                for _ in range(settings["layers"])
            ]
            self.auxiliary = nn.ModuleList(layers)
            draw_weights(self.auxiliary)

    def extra_inputs(self, batch: TextBatch) -> dict[str, TokenBatch]:
        """The anchors with masked tokens."""
        return self.masking.extra_inputs(batch)

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        """The mean over the masked tokens of all processes; see the class."""
        masked, padding = views.extra[KEY], batch.anchor.attention_mask == 0
        lower = masked.layers[self.reads_layers[0]][:, : padding.shape[1]].detach()
        states = torch.cat([self.enter(views.anchor_output.embedding)[:, None], lower[:, 1:]], dim=1)
        for layer in self.auxiliary:
            states = layer(states, src_key_padding_mask=padding)
        output = EncoderOutput(masked.embedding, states)
        loss: Tensor = self.masking(replace(views, extra={KEY: output}), batch)
        self.metrics = self.masking.metrics
        return loss
