"""An objective that holds another: the same loss on the first dimensions of the vectors (Matryoshka).

sentrep has `Matryoshka`, with a copy of the objective for every width; this is the idea in your own file. In YAML the
objective that is held is an argument: `objective: {class_path: Contrastive}`. Run it: python matryoshka.py
"""

from dataclasses import replace

import lightning
from torch import Tensor

import sentrep
from sentrep.encoder import EncoderServices
from sentrep.objectives import Contrastive
from sentrep.types import EncoderSpec, TextBatch, Views


class OnFirstDimensions(sentrep.Objective):
    def __init__(self, objective: sentrep.Objective, dims: list[int]) -> None:
        super().__init__()
        self.objective, self.dims = objective, dims
        self.reads_tokens = objective.reads_tokens  # what the pass must keep is what the held objective reads

    def build(self, spec: EncoderSpec, services: EncoderServices) -> None:
        self.objective.build(spec, services)

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        cut = [replace(views, anchor=views.anchor[:, :d], positive=views.positive[:, :d]) for d in self.dims]
        return sum(self.objective(part, batch) for part in cut)


if __name__ == "__main__":
    small = {
        "model_type": "bert", "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 2,
    }  # fmt: skip
    module = sentrep.SentRepModule(
        sentrep.SentenceEncoder(small, tokenizer="toy"), [OnFirstDimensions(Contrastive(), [64, 16])]
    )
    lightning.Trainer(max_steps=20).fit(module, sentrep.SentRepDataModule(train="toy"))
    print(module.encoder.encode("a dog runs", truncate_dim=16).shape)
