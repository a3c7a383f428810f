"""Momentum contrast in your own file: positives and a queue of negatives come from a slow copy of the encoder (MoCo).

Run it: python moco.py
"""

import lightning
import torch
from torch import Tensor

import sentrep
from sentrep.distributed import gather, own_rows
from sentrep.encoder import EncoderServices
from sentrep.functional import info_nce
from sentrep.types import EncoderSpec, TextBatch, Views


class MomentumContrast(sentrep.Objective):
    reads_tokens = False

    def __init__(self, size: int = 64, momentum: float = 0.99, temperature: float = 0.05) -> None:
        super().__init__()
        self.size, self.momentum, self.temperature = size, momentum, temperature

    def build(self, spec: EncoderSpec, services: EncoderServices) -> None:
        self.copy = services.copy(momentum=self.momentum)  # moves once per optimiser step, and is saved
        start = torch.randn(self.size, spec.embedding_dim, generator=torch.Generator().manual_seed(spec.seed))
        self.register_buffer("queue", start)  # the same on every process; of one shape always, so that it can be read

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        self.keys = gather(self.copy.project(self.copy(batch.anchor).embedding))  # of all processes
        places = own_rows(len(batch), self.keys.device)
        return info_nce(views.anchor, self.keys, temperature=self.temperature, positives=places, negatives=self.queue)

    def after_step(self, views: Views) -> None:
        self.queue = torch.cat([self.keys.to(self.queue), self.queue])[: self.size]


if __name__ == "__main__":
    small = {
        "model_type": "bert", "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 2,
    }  # fmt: skip
    module = sentrep.SentRepModule(sentrep.SentenceEncoder(small, tokenizer="toy"), [MomentumContrast()])
    lightning.Trainer(max_steps=20).fit(module, sentrep.SentRepDataModule(train="toy"))
