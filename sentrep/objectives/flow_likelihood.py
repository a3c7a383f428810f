"""Training a flow after the encoder (BERT-flow)."""

from __future__ import annotations

from torch import Tensor

from sentrep.encoder import EncoderServices, Flow
from sentrep.errors import InputError
from sentrep.objectives.base import Objective
from sentrep.types import EncoderSpec, TextBatch, Views


class FlowLikelihood(Objective):
    """The negative log-likelihood of the sentences' vectors under a flow to N(0, I) (Li et al. 2020, BERT-flow, §3.2).

        L = −mean_i [ log N(f(x_i); 0, I) + log |det ∂f/∂x (x_i)| ]

    over the anchors; f is the `sentrep.encoder.Flow` at the end of ``model.encoder.modules``. The paper trains
    only the flow: set ``model.encoder.trainable: false``, and ``dropout: 0.0``. A projection head is ignored.

    Raises:
        InputError: if the last module is no flow.

    Examples:
        >>> from sentrep import SentenceEncoder, SentRepModule
        >>> from sentrep.encoder import Flow
        >>> from sentrep.objectives import FlowLikelihood
        >>> small = {"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> encoder = SentenceEncoder(small, tokenizer="toy", modules=[Flow(steps=2)])
        >>> module = SentRepModule(encoder, [FlowLikelihood()], head=None)
    """

    reads_tokens = False

    def build(self, spec: EncoderSpec, services: EncoderServices) -> None:
        """Find the flow; it stays the encoder's."""
        self._flow = tuple(module for module in services.modules[-1:] if isinstance(module, Flow))
        if not self._flow:
            raise InputError("FlowLikelihood trains a Flow: put one last in model.encoder.modules")

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        """Mean over this process's rows; see the class."""
        (flow,) = self._flow
        return -flow.log_likelihood(views.anchor_output.embedding).mean()
