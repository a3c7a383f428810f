"""The backbone's own masked-LM head, on the word embeddings that are being trained."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForMaskedLM, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from sentrep.encoder.loading.checks import one_sentence
from sentrep.encoder.loading.model import Opened
from sentrep.errors import InputError
from sentrep.io.configurations import quiet_transformers
from sentrep.random import own_draws


class LanguageModelHead(nn.Module):
    """Logits over the vocabulary for any hidden states, through the masked-LM head that the backbone's family has.

    It is transformers' own masked-LM model with the backbone taken out. The output matrix *is* the word embedding of
    the encoder that is trained (one parameter, which `nn.Module.parameters` lists once), unless the backbone's
    configuration says ``tie_word_embeddings: false``. It belongs to the objectives that call it, never to the encoder,
    so that exports do not hold it.

    Args:
        model: a masked-LM model; its backbone is thrown away.
        words: the encoder's word embeddings (V, W).
    """

    def __init__(self, model: PreTrainedModel, words: nn.Parameter) -> None:
        super().__init__()
        setattr(model, model.base_model_prefix, _HiddenStates())
        self.model: Any = nn.Module.to(model, words.device, words.dtype)
        if getattr(model.config, "tie_word_embeddings", True):
            output: Any = model.get_output_embeddings()
            output.weight = words
        self.train()

    def forward(self, states: Tensor) -> Tensor:
        """(..., H) hidden states → (..., V) logits; every row by itself."""
        rows = states.reshape(1, -1, states.shape[-1])
        logits: Tensor = self.model(inputs_embeds=rows).logits
        return logits.view(*states.shape[:-1], logits.shape[-1])


class _HiddenStates(nn.Module):
    """Replaces the backbone, and passes hidden states on to the head."""

    def forward(self, *args: Any, inputs_embeds: Tensor, **kwargs: Any) -> BaseModelOutput:
        return BaseModelOutput(last_hidden_state=inputs_embeds)


def language_model_head(backbone: PreTrainedModel, source: Opened, seed: int) -> LanguageModelHead:
    """The head for ``backbone``: with the weights of its source, else as the family initialises them.

    The draws depend on ``seed`` alone and leave torch's global generator as it was.

    Args:
        backbone: the transformer that is trained.
        source: where it came from; a local folder is read without the network.
        seed: of fresh weights.

    Raises:
        InputError: when the family has no masked-LM head, or one that cannot be used alone.
    """
    words: Any = backbone.get_input_embeddings().weight
    unusable = "its masked-LM head cannot be used; leave out the objectives that need it, or take another backbone"
    with one_sentence(f"{source.name}: {unusable}"), own_draws(seed, "lm_head"), quiet_transformers():
        model, missing = _made(copy.deepcopy(backbone.config), source)
        head = LanguageModelHead(model, words)
        with torch.no_grad():
            head(words.new_zeros(2, backbone.config.hidden_size))  # some heads read more than hidden states
    if missing:
        warnings.warn(
            f"{source.name} has no complete masked-LM head: its missing weights start at random",
            stacklevel=2,
        )
    _, unexpected = head.load_state_dict(source.lm_head or {}, strict=False)
    if unexpected:
        raise InputError(f"{source.name}: the checkpoint's masked-LM head does not fit, e.g. {unexpected[0]}")
    return head


def _made(config: PretrainedConfig, source: Opened) -> tuple[PreTrainedModel, bool]:
    """A masked-LM model, and whether it lacks weights of a head that its source should have."""
    if source.path is None:
        model = AutoModelForMaskedLM.from_config(config, dtype=torch.float32, trust_remote_code=source.trusted)
        return model, bool(source.training) and source.lm_head is None
    model, info = AutoModelForMaskedLM.from_pretrained(
        source.path, config=config, dtype=torch.float32, output_loading_info=True, local_files_only=True,
        trust_remote_code=source.trusted,
    )  # fmt: skip
    return model, any(not key.startswith(f"{model.base_model_prefix}.") for key in info["missing_keys"])
