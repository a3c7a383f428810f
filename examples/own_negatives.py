"""Your own negatives: points between an anchor's nearest other sentences of the batch, harder than any of them.

The idea of MoCHi (Kalantidis et al. 2020), for sentences: of the k keys of others that are nearest to an anchor two are
mixed, h = unit(λ h_a + (1 − λ) h_b) with λ uniform. In MixedNegatives, one of the two is the anchor's own positive.

Run it: python own_negatives.py
On a real model, over any recipe, with this file in the current folder (in YAML it goes to the same place):
    sentrep fit -c simcse/minilm --model.objectives.simcse.negatives '{between: own_negatives.BetweenNeighbours}'
"""

from functools import partial

import lightning
import torch
from torch import Tensor

import sentrep
from sentrep.functional import cosine_similarity_matrix
from sentrep.objectives import Contrastive


class BetweenNeighbours(sentrep.NegativeSampler):
    """(N, per_anchor, D): mixtures for each anchor alone, which only that anchor is pushed away from."""

    def __init__(self, k: int = 8, per_anchor: int = 4, weight: float = 1.0) -> None:
        super().__init__(weight)
        self.k, self.per_anchor = k, per_anchor

    def sample(self, anchors: Tensor, keys: Tensor) -> Tensor:
        keys = torch.nn.functional.normalize(keys.float(), dim=1)
        others = cosine_similarity_matrix(anchors.float(), keys).fill_diagonal_(-2)  # row i has key i for its positive
        near = others.topk(min(self.k, len(keys) - 1)).indices  # (N, k)
        if near.shape[1] < 2:
            return keys.new_zeros(len(keys), 0, keys.shape[1])
        draw = self.generator(keys.device)  # by seed, name and step: the same on every process, after a resume too
        size, device = (len(keys), self.per_anchor), keys.device
        first = torch.randint(near.shape[1], size, generator=draw, device=device)
        second = (first + torch.randint(1, near.shape[1], size, generator=draw, device=device)) % near.shape[1]
        share = torch.rand(*size, 1, generator=draw, device=device)
        mixed = share * keys[near.gather(1, first)] + (1 - share) * keys[near.gather(1, second)]
        return torch.nn.functional.normalize(mixed, dim=2)


if __name__ == "__main__":
    small = {
        "model_type": "bert", "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 2,
    }  # fmt: skip
    objective = Contrastive(temperature=0.1, negatives={"between": BetweenNeighbours()})
    encoder = sentrep.SentenceEncoder(small, pooling="mean", tokenizer="toy")
    module = sentrep.SentRepModule(encoder, [objective], optimizer=partial(torch.optim.AdamW, lr=1e-3))
    data = sentrep.SentRepDataModule(train="toy", val=["toy-dev"], batch_size=64)
    trainer = lightning.Trainer(
        max_steps=40, val_check_interval=20, check_val_every_n_epoch=None, use_distributed_sampler=False, logger=False
    )
    (before,) = trainer.validate(module, data, verbose=False)
    trainer.fit(module, data)
    print(f"toy-dev: {before['val/sts']:.1f} before, {trainer.callback_metrics['val/sts']:.1f} after")
