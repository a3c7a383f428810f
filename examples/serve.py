"""A trained encoder in sentence-transformers: export, load there, the same vectors.

Whatever serves folders of sentence-transformers then serves yours. Needs sentence-transformers; run it: python serve.py
With a model of yours: sentrep export runs/NAME/version_0/checkpoints/BEST.ckpt --output served, then from "theirs" on.
"""

import lightning
import numpy as np

import sentrep
from sentrep.encoder import Normalize
from sentrep.objectives import Contrastive

QUESTION = "Who repaired the roof?"
ANSWERS = ["The carpenter mended the roof.", "The chef prepared the soup.", "The nurse bandaged the child."]

if __name__ == "__main__":
    from sentence_transformers import SentenceTransformer

    small = {
        "model_type": "bert", "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 2,
    }  # fmt: skip
    encoder = sentrep.SentenceEncoder(small, pooling="mean", tokenizer="toy", modules=[Normalize()])
    encoder.prompts = {"query": "question: "}  # travels too
    module = sentrep.SentRepModule(encoder, [Contrastive()], head=sentrep.ProjectionHead("mlp"))
    trainer = lightning.Trainer(max_steps=20, logger=False)
    trainer.fit(module, sentrep.SentRepDataModule(train="toy"))
    trainer.save_checkpoint("trained.ckpt")

    trained = sentrep.SentenceEncoder.from_pretrained("trained.ckpt")
    trained.save_pretrained("served")  # the head that only training needs stays behind

    theirs = SentenceTransformer("served", device="cpu")
    query, documents = theirs.encode_query(QUESTION), theirs.encode_document(ANSWERS)
    for score, answer in zip(theirs.similarity(query, documents)[0], ANSWERS, strict=True):
        print(f"{score:.3f}  {answer}")
    print("largest difference:", np.abs(documents - trained.encode_document(ANSWERS)).max())
    np.testing.assert_allclose(documents, trained.encode_document(ANSWERS), atol=1e-5)
    np.testing.assert_allclose(query, trained.encode_query(QUESTION), atol=1e-5)
    print("the same vectors")
