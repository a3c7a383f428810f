"""Your own objective in your own file: hinge loss on the hardest in-batch negative (as in VSE++).

Run it from this folder, by its class path in the configuration:

    sentrep fit --config ../configs/quickstart.yaml \
        --model.objectives.simcse null \
        --model.objectives.hinge custom_objective.HardestNegative --model.objectives.hinge.margin 0.3

or in Python, as below: python custom_objective.py
"""

import lightning
from torch import Tensor

import sentrep
from sentrep.distributed import gather, own_rows
from sentrep.functional import cosine_similarity_matrix
from sentrep.types import TextBatch, Views


class HardestNegative(sentrep.Objective):
    """mean_i max(0, margin + max_{j≠i} cos(h_i, h_j⁺) − cos(h_i, h_i⁺))."""

    def __init__(self, margin: float = 0.2) -> None:
        super().__init__()
        self.margin = margin

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        cosine = cosine_similarity_matrix(views.anchor, gather(views.positive))  # of all processes
        own = own_rows(len(cosine), cosine.device)[:, None]
        hardest = cosine.scatter(1, own, -1).amax(1)
        return (self.margin + hardest - cosine.gather(1, own)[:, 0]).clamp_min(0).mean()


if __name__ == "__main__":
    small = {
        "model_type": "bert", "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 2,
    }  # fmt: skip
    encoder = sentrep.SentenceEncoder(small, pooling="mean", tokenizer="toy")
    module = sentrep.SentRepModule(encoder, [HardestNegative(margin=0.3)])
    data = sentrep.SentRepDataModule(train="toy", val=["toy-dev"])
    lightning.Trainer(max_steps=20, val_check_interval=20, check_val_every_n_epoch=None).fit(module, data)
