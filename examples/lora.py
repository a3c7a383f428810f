"""LoRA: train small matrices beside a frozen backbone, and export one plain model.

Needs peft (pip install 'sentrep[lora]'). Run it anywhere: python lora.py
With the command line, over any recipe: sentrep fit -c RECIPE -c configs/overrides/lora.yaml
"""

import lightning
import numpy as np

import sentrep
from sentrep.encoder import Lora
from sentrep.objectives import Contrastive

SENTENCES = ["a dog runs", "an old dog sleeps", "the train is late"]

if __name__ == "__main__":
    small = {
        "model_type": "bert", "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 2,
    }  # fmt: skip
    adapter = Lora(rank=4, alpha=8, targets=["query", "value"], also=["*.LayerNorm.*"])
    encoder = sentrep.SentenceEncoder(small, pooling="mean", tokenizer="toy", trainable=adapter)
    module = sentrep.SentRepModule(encoder, [Contrastive()])
    counts = [sum(p.numel() for p in encoder.parameters() if p.requires_grad in kinds) for kinds in ({True}, {0, 1})]
    print("{:,} of {:,} parameters are trained".format(*counts))

    trainer = lightning.Trainer(max_steps=20)
    trainer.fit(module, sentrep.SentRepDataModule(train="toy"))
    trainer.save_checkpoint("lora.ckpt")  # backbone and adapter apart: training can go on

    encoder = sentrep.SentenceEncoder.from_pretrained("lora.ckpt")
    encoder.save_pretrained("merged")  # W + B A: loads without peft, in transformers and sentence-transformers too
    merged = sentrep.SentenceEncoder.from_pretrained("merged")
    print("largest difference:", np.abs(merged.encode(SENTENCES) - encoder.encode(SENTENCES)).max())
