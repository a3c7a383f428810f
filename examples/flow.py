"""A flow behind a frozen backbone, in your own file: its output is what is trained, scored, saved and exported.

The idea of BERT-flow with additive couplings (NICE), which keep volumes: −log N(z; 0, 1) of its output is the loss.
Run it: python flow.py
"""

import lightning
import torch
from torch import Tensor, nn

import sentrep
from sentrep.encoder import SentenceModule
from sentrep.types import TextBatch, Views


class Coupling(SentenceModule):
    """(a, b) → (b + f(a), a)."""

    def build(self, width: int, std: float) -> None:
        super().build(width, std)
        half = width // 2
        self.net = nn.Sequential(nn.Linear(half, width), nn.Tanh(), nn.Linear(width, half))

    def forward(self, embedding: Tensor, token_states: Tensor, mask: Tensor) -> Tensor:
        first, second = embedding.chunk(2, -1)
        return torch.cat([second + self.net(first), first], -1)


class Likelihood(sentrep.Objective):
    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        return views.anchor.square().sum(1).mean() / 2


if __name__ == "__main__":
    small = {
        "model_type": "bert", "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 2,
    }  # fmt: skip
    flow = [Coupling(), Coupling(), Coupling()]
    encoder = sentrep.SentenceEncoder(small, pooling="mean", tokenizer="toy", trainable=False, modules=flow)
    lightning.Trainer(max_steps=20).fit(
        sentrep.SentRepModule(encoder, [Likelihood()]), sentrep.SentRepDataModule(train="toy")
    )
