"""How strong each objective's gradient is, and whether two objectives conflict: a callback for any run.

    g_k = gradient of weight_k × loss_k with respect to the trained parameters of the encoder

It prints ‖g_k‖ of each objective, and the cosine of each pair: below 0, a step that lowers one loss raises the other.
The training is unchanged. Every measured step costs a backward pass per objective. It is for one process, without
accumulated batches; `compile` must be off.

Run it: python gradients.py      # a contrast and masked words on the toy corpus
Beside a recipe: sentrep fit -c quickstart --trainer.callbacks gradients.Gradients
"""

from itertools import combinations

import lightning
import torch

import sentrep
from sentrep.objectives import Contrastive, MaskedLanguageModeling


class Gradients(lightning.Callback):
    """Prints the strength of every objective's gradient, and the cosines between them."""

    def __init__(self, every_n_steps: int = 10) -> None:
        self.every_n_steps = every_n_steps

    def on_before_backward(self, trainer: lightning.Trainer, module: sentrep.SentRepModule, loss: torch.Tensor) -> None:
        step = trainer.global_step + 1
        if module.terms is None or step % self.every_n_steps:  # no terms: the second pass of SAM
            return
        trained = [parameter for parameter in module.encoder.parameters() if parameter.requires_grad]
        gradients = {}
        for name, term in module.terms.weighted.items():
            parts = torch.autograd.grad(term, trained, retain_graph=True, materialize_grads=True)
            gradients[name] = torch.cat([part.float().flatten() for part in parts])
        norms = {name: gradient.norm() for name, gradient in gradients.items()}
        found = [f"{name} {norm:.3g}" for name, norm in norms.items()]
        for one, other in combinations(gradients, 2):
            cosine = gradients[one] @ gradients[other] / (norms[one] * norms[other])
            found.append(f"cosine of {one} and {other} {cosine:+.2f}")
        print(f"step {step}:", ", ".join(found))


if __name__ == "__main__":
    small = {
        "model_type": "bert", "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 2,
    }  # fmt: skip
    objectives = {"simcse": Contrastive(), "words": MaskedLanguageModeling()}
    module = sentrep.SentRepModule(sentrep.SentenceEncoder(small, tokenizer="toy"), objectives, weights={"words": 0.1})
    data = sentrep.SentRepDataModule(train="toy")
    lightning.Trainer(max_steps=40, callbacks=[Gradients()]).fit(module, data)
