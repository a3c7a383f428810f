"""Cosines of positives and of in-batch negatives at the first and the last step (DCLR, figure 1), by a callback.

Run it: python cosines.py
On a real model, over any recipe, with this file in the current folder:
    sentrep fit -c simcse/minilm --trainer.callbacks '{class_path: cosines.Cosines}'
"""

import lightning
import numpy as np
import torch
from torch import Tensor

import sentrep
from sentrep.distributed import gather
from sentrep.evaluation.plots import legend_below, new_figure, save_figure, styled
from sentrep.functional import cosine_similarity_matrix
from sentrep.objectives import Contrastive

LOOKS = {"positives": ("#0072B2", "-"), "in-batch negatives": ("#D55E00", "--")}


class Cosines(lightning.Callback):
    """Keeps what the loss sees in the first and in the last batch, and draws both at the end."""

    def __init__(self) -> None:
        self.seen: dict[int, tuple[Tensor, Tensor]] = {}

    @torch.no_grad()
    def on_before_backward(self, trainer: lightning.Trainer, module: sentrep.SentRepModule, loss: Tensor) -> None:
        if module.terms is not None:  # as in the second pass of SAM
            views = module.terms.views
            cosine = cosine_similarity_matrix(gather(views.anchor.detach()), gather(views.key.detach()))
            others = ~torch.eye(len(cosine), dtype=torch.bool, device=cosine.device)
            step = trainer.global_step + 1
            self.seen[1 if step == 1 else 2] = (step, cosine.diagonal(), cosine[others])

    def on_fit_end(self, trainer: lightning.Trainer, module: sentrep.SentRepModule) -> None:
        least = min(float(values.min()) for _, *kinds in self.seen.values() for values in kinds)
        with styled():
            figure = new_figure(1.9)
            panels = figure.subplots(1, len(self.seen), sharex=True, sharey=True, squeeze=False)[0]
            for axis, (step, *kinds) in zip(panels, self.seen.values(), strict=True):
                for (label, (colour, line)), values in zip(LOOKS.items(), kinds, strict=True):
                    counts, edges = np.histogram(values.cpu(), bins=40, range=(least, 1), density=True)
                    axis.stairs(counts, edges, fill=True, color=colour, alpha=0.25)
                    axis.stairs(counts, edges, color=colour, linestyle=line, label=label)
                axis.set_title(f"step {step:,}", loc="left")
                axis.set_xlabel("cosine")
            legend_below(figure)
        if trainer.is_global_zero:
            print(*save_figure(figure, "cosines"))


if __name__ == "__main__":
    small = {
        "model_type": "bert", "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 2,
    }  # fmt: skip
    module = sentrep.SentRepModule(sentrep.SentenceEncoder(small, tokenizer="toy"), [Contrastive()])
    lightning.Trainer(max_steps=40, callbacks=[Cosines()]).fit(module, sentrep.SentRepDataModule(train="toy"))
