"""A backbone with cheap dropout on a CPU, where torch draws one number per element on one thread."""

from __future__ import annotations

from torch import Tensor, nn
from transformers import PreTrainedModel

from sentrep.functional.dropout import dropout


class CheapDropout(nn.Dropout):
    """``nn.Dropout`` as `sentrep.functional.dropout` has it."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape; the input itself in evaluation mode."""
        return dropout(input, self.p) if self.training else input


def use_cheap_dropout(backbone: PreTrainedModel) -> None:
    """Replace every dropout of a backbone; that of its attention is in `sentrep.encoder.compute.attention`."""
    for module in backbone.modules():
        for name, child in module.named_children():
            if type(child) is nn.Dropout:
                setattr(module, name, CheapDropout(child.p))
