"""DCLR and DenoSent's decoder in the trainer of sentence-transformers.

Run it: python sentence_transformers_trainer.py
With a real model: MODEL = "sentence-transformers/all-MiniLM-L6-v2"
"""

from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments

import sentrep
from sentrep.data import toy
from sentrep.integrations.sentence_transformers import ObjectiveLoss
from sentrep.negatives import RefinedNoiseNegatives
from sentrep.objectives import Contrastive, Denoising
from sentrep.weighting import ComplementaryWeighting

MODEL = "model"

if __name__ == "__main__":
    small = {
        "model_type": "bert", "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 2,
    }  # fmt: skip
    sentrep.SentenceEncoder(small, pooling="mean", tokenizer="toy").save_pretrained(MODEL)

    model = SentenceTransformer(MODEL, device="cpu")
    dclr = Contrastive(negatives={"noise": RefinedNoiseNegatives()}, weighting=ComplementaryWeighting(MODEL, 0.9))
    loss = ObjectiveLoss(model, {"dclr": dclr, "denoising": Denoising(layers=2)}, weights={"denoising": 0.5})
    trainer = SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments("runs", max_steps=20, per_device_train_batch_size=16, use_cpu=True),
        train_dataset=Dataset.from_dict({"sentence": toy.sentences(400)}),
        loss=loss,
        callbacks=[loss.callback],  # ends each step, and saves the state of the loss
    )
    trainer.train()
    print(model.encode(["A dog barks."]).shape)
