"""No views at all, for objectives that bring their own inputs."""

from __future__ import annotations

from collections.abc import Mapping

from sentrep.encoder import SentenceEncoder
from sentrep.errors import InputError
from sentrep.types import Need, TextBatch, TokenBatch, Views
from sentrep.views.base import ViewMaker


class ExtraInputsOnly(ViewMaker):
    """Encode only the extra inputs of the objectives, for example the masked sentences of pre-training.

    Without a contrastive term this saves two thirds of a step. Anchor and positive are both the vectors of
    the first extra input, for the run's statistics only; no other objective should train on
    them.

    Raises:
        InputError: when no objective adds an input.

    Examples:
        >>> from sentrep import SentenceEncoder, SentRepModule
        >>> from sentrep.objectives import MaskedLanguageModeling
        >>> from sentrep.views import ExtraInputsOnly
        >>> small = {"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> encoder = SentenceEncoder(small, tokenizer="toy")
        >>> module = SentRepModule(encoder, [MaskedLanguageModeling()], views=ExtraInputsOnly())
    """

    def forward(
        self, encoder: SentenceEncoder, batch: TextBatch, extra: Mapping[str, TokenBatch], need: Need = Need()
    ) -> Views:
        """See `ViewMaker.forward`."""
        if not extra:
            raise InputError(
                "ExtraInputsOnly needs an objective with inputs of its own, such as MaskedLanguageModeling; "
                "the others need EncodedViews"
            )
        tokens = TokenBatch.concatenate([*extra.values()], encoder.tokenize.pad_token_id)
        outputs = encoder(tokens, need=need).split(0, extra)
        first = next(iter(outputs.values()))
        vectors = encoder.project(first.embedding)
        return Views(vectors, vectors, None, first, first, outputs)
